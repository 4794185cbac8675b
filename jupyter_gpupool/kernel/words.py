"""How one lease reads: what it is, what is in force for each resource, and what else should be known.

Rules of this module: it never says "granted" without saying what is in force; a limit that was not looked at
yet is "not yet in force"; how strong a limit is is never said without its mechanism.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import LeaseState, Resource, Strength, Verified
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_duration, format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc, LeaseDoc, PartDoc, ShareDoc, SpreadDoc

#: Into how many parts GPUs are cut at most.
_FINEST = 8


def share_of(doc: LeaseDoc) -> str:
    """Say how much of what a lease is: "0.25 of cpu", "all of cuda0-mig1 (2/7 of a GPU)"."""
    alike = {(it.compute_milli, it.whole_only) for it in doc.shares}
    if len(doc.shares) > 1 and alike == {(doc.compute_milli, False)}:
        names = ", ".join(_device_of(share) for share in doc.shares)
        return f"{format_compute(doc.compute_milli)} each of {names}"
    if doc.shares:
        return ", ".join(_one_share(share) for share in doc.shares)
    kind = "device" if doc.kind is None else f"{doc.kind.value} device"
    if doc.count > 1:
        return asked(doc.compute_milli, doc.count, f"{kind}s")
    return f"{format_compute(doc.compute_milli)} of {doc.device or f'a {kind}'}"


def asked(compute_milli: int, count: int, devices: str) -> str:
    """Say what was asked for of several devices: "0.5 x4 of cuda devices", "2 whole cuda devices"."""
    if compute_milli == WHOLE_MILLI:
        return f"{count} whole {devices}"
    return f"{format_compute(compute_milli)} x{count} of {devices}"


def _device_of(share: ShareDoc) -> str:
    return f"{share.device_name} on {share.hostname}" if share.hostname else share.device_name


def _one_share(share: ShareDoc) -> str:
    where = _device_of(share)
    if not share.whole_only:
        return f"{format_compute(share.compute_milli)} of {where}"
    part = "" if share.parent_milli == WHOLE_MILLI else f" ({_part(share.parent_milli)} of a GPU)"
    return f"all of {where}{part}"


def _part(milli: int) -> str:
    """Write thousandths as the fraction that they are of: GPUs are cut into sevenths, mostly."""
    for below in range(2, _FINEST + 1):
        above = -(-milli * below // WHOLE_MILLI)
        if above < below and WHOLE_MILLI * above // below == milli:
            return f"{above}/{below}"
    return format_compute(milli)


#: What people call a resource.
_RESOURCES = {
    Resource.MEMORY: "memory",
    Resource.COMPUTE: "compute",
    Resource.HOST_MEMORY: "main memory",
    Resource.HOST_COMPUTE: "processor",
    Resource.PROCESSES: "processes",
}


def resource_name(resource: Resource) -> str:
    """Return what people call a resource."""
    return _RESOURCES[resource]


def in_force(doc: LeaseDoc, resource: Resource) -> str:
    """Say what was granted of a resource, and what is in force for it."""
    each = " of each" if len(doc.shares) > 1 else ""
    granted = f"{format_memory(doc.memory_bytes)}{each}" if resource is Resource.MEMORY else share_of(doc)
    entries = [entry for entry in doc.isolation if entry.resource is resource]
    if not entries:
        return f"{granted}; nothing is in force"
    return "; ".join(dict.fromkeys(_entry(entry, granted) for entry in entries))


def _entry(entry: IsolationDoc, granted: str) -> str:
    """Say which limit is in force, how well it holds, and by what; what is only promised is said to be."""
    if entry.strength is Strength.NONE:
        how = f" ({entry.mechanism})" if entry.mechanism not in ("", "none") else ""
        return f"{granted}, not enforced{how}"
    pending = "not yet in force: " if entry.verified is Verified.PENDING else ""
    return f"{entry.limit}, {pending}{mechanism(entry)}"


def mechanism(entry: IsolationDoc) -> str:
    """Say how well a limit holds, and by what: "soft, by RLIMIT_DATA"."""
    strength = entry.strength.value
    return f"{strength}, by {entry.mechanism.removeprefix(f'{strength} ')}"


def notes_of(doc: LeaseDoc) -> list[str]:
    """List what a person should also know of the limits."""
    notes = [
        f"Note on {resource_name(entry.resource)}: {entry.note}" for entry in doc.isolation if entry.note
    ]
    return [*doc.notices, *dict.fromkeys(notes)]


def limits(doc: LeaseDoc) -> list[tuple[str, str]]:
    """List what is in force for each resource, as name and value: the device's, then the node's."""
    used = "" if doc.memory_used_bytes is None else f"; in use: {format_memory(doc.memory_used_bytes)}"
    facts = [
        (resource_name(Resource.MEMORY), in_force(doc, Resource.MEMORY) + used),
        (resource_name(Resource.COMPUTE), in_force(doc, Resource.COMPUTE)),
    ]
    return facts + [
        (resource_name(entry.resource), _entry(entry, entry.limit or "no number"))
        for entry in doc.isolation
        if entry.resource not in (Resource.MEMORY, Resource.COMPUTE)
    ]


def lease_facts(doc: LeaseDoc) -> list[tuple[str, str]]:
    """List what a person should know of one lease, as name and value."""
    facts = [("share", share_of(doc))]
    if any(share.whole_only for share in doc.shares) and doc.asked_compute_milli:
        facts.append(("asked for", format_compute(doc.asked_compute_milli)))
    facts.append(("state", state_of(doc)))
    if doc.state is LeaseState.ACTIVE:
        facts += limits(doc)
    facts += [(f"on {part.hostname}", part_line(doc, part)) for part in doc.parts]
    if doc.pinned:
        facts.append(("pinned", "not taken back, as far as the quota allows"))
    if doc.expires_seconds is not None:
        facts.append(("ends in", format_duration(doc.expires_seconds)))
    return facts


def part_line(doc: LeaseDoc, part: PartDoc) -> str:
    """Say what a lease has on a node, who has it, and what to type there where nobody has."""
    devices = ", ".join(share.device_name for share in part.shares)
    if part.joined:
        who = "its holder, process" if part.holder else "process"
        return f"{devices}: {who} {part.pid}"
    if part.holder or doc.state is not LeaseState.ACTIVE:
        return f"{devices}: no process yet"
    return f"{devices}: no process; type there: jupyter gpupool run --lease …{doc.id[-8:]} -- COMMAND"


def state_of(doc: LeaseDoc) -> str:
    """Say where a lease is in its life, and since when or why."""
    if doc.state is LeaseState.ACTIVE:
        return f"active for {format_duration(doc.held_seconds)}" + (", resizing" if doc.resizing else "")
    if doc.state is LeaseState.ENDED:
        why = why_ended(doc)
        return f"ended ({why})" if why else "ended"
    return f"{doc.state.value}: {doc.reason}" if doc.reason else doc.state.value


def why_ended(doc: LeaseDoc) -> str:
    """Say why a lease ended, without a full stop; empty when nobody said."""
    reason = doc.end_reason.value.replace("_", " ") if doc.end_reason else ""
    return doc.end_detail.rstrip(".") or reason


def line(doc: LeaseDoc) -> str:
    """Say in one line what a lease is and what is in force."""
    memory, compute = in_force(doc, Resource.MEMORY), in_force(doc, Resource.COMPUTE)
    return f"{share_of(doc)}; memory: {memory}; compute: {compute}"


def spread(doc: SpreadDoc | None) -> str:
    """Write an estimate with its interval: "12 min (4 min to 40 min)"."""
    if doc is None:
        return "unknown"
    low, middle, high = map(format_duration, (doc.low_seconds, doc.seconds, doc.high_seconds))
    return middle if low == high else f"{middle} ({low} to {high})"
