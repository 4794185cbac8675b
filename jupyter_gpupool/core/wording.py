"""How the core names things to people: sizes, kinds and devices in its sentences.

Rule of this module: it looks and writes; nothing depends on what it returns. Other owners are never named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device, DeviceKind, Withheld
from jupyter_gpupool.core.fitting import Obstacle, has_part
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_memory

#: What people call a device kind.
KIND_NAMES = {DeviceKind.CPU: "CPU", DeviceKind.CUDA: "CUDA"}
#: How many devices a sentence lists before it says "and N more".
_LISTED = 4
#: How many withheld devices one sentence explains.
_EXPLAINED = 2
#: The finest parts that GPUs are split into: an eighth.
_FINEST = 8


def describe_kind(kind: DeviceKind | None) -> str:
    """Write "a CUDA device", or "a device" when the kind is open."""
    return f"a {KIND_NAMES[kind]} device" if kind is not None else "a device"


def describe_want(want: Want) -> str:
    """Write "0.5 of a CUDA device with 20.0 GiB", or "0.5 x4 of CUDA devices on one node"."""
    memory = f" with {format_memory(want.memory_bytes)}" if want.memory_bytes is not None else ""
    host = _describe_beside(want)
    model = f" (model {want.model})" if want.model else ""
    if want.count == 1:
        target = want.device or describe_kind(want.kind)
        return f"{format_compute(want.compute_milli)} of {target}{model}{memory}{host}"
    each = f"{memory} each" if memory else ""
    where = " on any nodes" if want.spread else " on one node"
    kind = f"{KIND_NAMES[want.kind]} devices" if want.kind is not None else "devices"
    if want.compute_milli == WHOLE_MILLI:
        return f"{want.count} whole {kind}{model}{each}{host}{where}"
    return f"{format_compute(want.compute_milli)} x{want.count} of {kind}{model}{each}{host}{where}"


def _describe_beside(want: Want) -> str:
    """Write what is asked for beside the shares: ", 4 cores and 16.0 GiB of main memory"."""
    parts = []
    if want.host_cpu_milli:
        parts.append(describe_cores(want.host_cpu_milli))
    if want.host_memory_bytes:
        parts.append(f"{format_memory(want.host_memory_bytes)} of main memory")
    return f", {' and '.join(parts)}" if parts else ""


def describe_cores(milli: int) -> str:
    """Write thousandths of a core: "4 cores", "0.5 cores"."""
    return f"{format_compute(milli)} {'core' if milli == WHOLE_MILLI else 'cores'}"


def describe_host(ledger: Ledger, node_id: str, account: Account) -> str:
    """Write "node n1 has 2 cores and 3.0 GiB of main memory left"."""
    hostname = ledger.nodes[node_id].node.hostname
    cores = describe_cores(max(0, account.free_cpu_milli))
    return f"node {hostname} has {cores} and {format_memory(account.free_memory_bytes)} of main memory left"


def describe_size(compute_milli: int, memory_bytes: int) -> str:
    """Write "0.25 with 3.0 GiB"."""
    return f"{format_compute(compute_milli)} with {format_memory(memory_bytes)}"


def describe_part(milli: int) -> str:
    """Write which part of a GPU an instance is: "2/7 of a GPU" for 285 thousandths (rounded down)."""
    if not milli:
        return "an unknown part of a GPU"
    for parts in range(1, _FINEST + 1):
        count = -(-milli * parts // WHOLE_MILLI)
        if WHOLE_MILLI * count // parts == milli:
            return f"{count}/{parts} of a GPU" if parts > 1 else "a whole GPU"
    return f"{format_compute(milli)} of a GPU"


def describe_instance(ledger: Ledger, device: Device) -> str:
    """Write "MIG instance cuda0-mig0 (2/7 of a GPU with 20.0 GiB)"."""
    size = f"{describe_part(device.parent_milli)} with {format_memory(device.memory_bytes)}"
    return f"MIG instance {describe_device(ledger, device.id)} ({size})"


def describe_largest(ledger: Ledger, want: Want, devices: Sequence[Device]) -> tuple[str, str]:
    """Say how large the largest of some devices is none of which is large enough, and what to ask for.

    Returns
    -------
    limit, hint : str
        "the largest MIG instance is 3/7 of a GPU", and a sentence.
    """
    enough = [it for it in devices if has_part(want, it)]
    if not enough:
        milli = max(it.parent_milli for it in devices)
        if not milli:
            return "no MIG instance says which part of a GPU it is", "Ask for memory, or for one by its name."
        part = describe_part(milli)
        return f"the largest MIG instance is {part}", f"Ask for at most {format_compute(milli)} of a GPU."
    largest = max(enough, key=lambda it: it.memory_bytes)
    memory = format_memory(largest.memory_bytes)
    that = " with that much compute" if len(enough) < len(devices) else ""
    limit = f"the largest such device{that}, {describe_device(ledger, largest.id)}, has {memory}"
    return limit, f"Ask for at most {memory}."


def describe_withheld(ledger: Ledger, account: Account) -> str:
    """Say why a device is not offered; empty when it is."""
    why, device = ledger.withheld(account), account.device
    name = describe_device(ledger, account.device_id)
    if why is None:
        return ""
    if why is Withheld.TAKEN and device is not None:
        return f"{name} is managed by {device.taken_by}"
    if why is Withheld.FAILED and device is not None:
        return f"{name} has failed{because(device.health_reason)}; it is offered again when it is healthy"
    if why is Withheld.QUARANTINED:
        gone = ", ".join(account.overdue)
        return f"{name} is quarantined: its agent has not confirmed the end of lease {gone}"
    drain = ledger.drains.of(device.node_id) if why is Withheld.DRAINED and device is not None else None
    reason = because(drain.message) if drain is not None else ""
    return f"{name} is not offered: {_WITHHELD[why]}{reason}"


#: Why a device is not offered, where that is all there is to say.
_WITHHELD = {
    Withheld.AGENT_AWAY: "its agent is not connected",
    Withheld.DRAINED: "its node is being drained",
    Withheld.FENCING: "what is left of ended leases on its node is being detached",
}


def describe_none_offered(ledger: Ledger, accounts: Iterable[Account]) -> str:
    """Say why none of some devices is offered."""
    reasons = [why for it in accounts if (why := describe_withheld(ledger, it))]
    more = len(reasons) - _EXPLAINED
    shown = "; ".join(reasons[:_EXPLAINED]) + (f"; and {more} more" if more > 0 else "")
    return f"no such device is offered: {shown}"


def describe_obstacle(ledger: Ledger, account: Account, device: Device, bar: Obstacle | None) -> str:
    """Say what keeps a request from a device: what is free there, or who is in the way."""
    name = describe_device(ledger, device.id)
    if bar is Obstacle.OWNER:
        return f"another owner has leases on {name}, which serves one owner at a time"
    if bar is Obstacle.LEASES:
        return f"{name} carries {plural(len(account.leases), 'lease', 'leases')}, as many as it can"
    if bar is Obstacle.WHOLE:
        return f"{describe_instance(ledger, device)} is granted whole, and is in use"
    compute_milli, memory_bytes = account.free_compute_milli, account.free_memory_bytes
    free = describe_size(compute_milli, memory_bytes) if compute_milli else "nothing"
    unmanaged = device.unmanaged_bytes or 0
    used = f" ({format_memory(unmanaged)} is used by processes without a lease)" if unmanaged else ""
    return f"{free} is free on {name}{used}"


def describe_device(ledger: Ledger, device_id: str) -> str:
    """Write a device's name, with its node where the pool has several; its id when it is unknown."""
    account = ledger.accounts.get(device_id)
    if account is None or account.device is None:
        return device_id
    device = account.device
    if len(ledger.nodes) < 2:
        return device.name
    return f"{device.name} on {ledger.nodes[device.node_id].node.hostname}"


def describe_devices(ledger: Ledger, devices: Iterable[Device]) -> str:
    """List devices with their kinds: "cpu (CPU), cuda0 (CUDA)"."""
    return _listed([f"{describe_device(ledger, it.id)} ({KIND_NAMES[it.kind]})" for it in devices]) or "none"


def list_devices(ledger: Ledger, device_ids: Sequence[str]) -> str:
    """List devices by their names: "cuda0, cuda1 and 3 more"."""
    return _listed([describe_device(ledger, it) for it in device_ids])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def describe_lease(ledger: Ledger, lease: Lease) -> str:
    """Write what a lease is about: "0.25 of cpu", or what it wants while it waits."""
    if not lease.shares:
        return describe_want(lease.want)
    share = lease.shares[0]
    names = list_devices(ledger, [it.device_id for it in lease.shares])
    each = " each" if len(lease.shares) > 1 else ""
    return f"{format_compute(share.compute_milli)}{each} of {names}"


def because(sentence: str) -> str:
    """Write a sentence as the end of another: ": the driver reported XID 79", or nothing."""
    clause = sentence.rstrip(".")
    if clause[1:2].islower() or clause[1:2] == " ":
        clause = clause[0].lower() + clause[1:]
    return f": {clause}" if clause else ""


def plural(count: int, one: str, many: str) -> str:
    """Write "1 request" or "3 requests"."""
    return f"{count} {one if count == 1 else many}"
