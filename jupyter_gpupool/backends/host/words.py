"""What is said of the limits beside a share.

Rule of this module: nothing is called hard that the holder's own user can undo; where there is no limit the
reason is told.
"""

from __future__ import annotations

from jupyter_gpupool.backends.cpu_isolation import format_cores_milli, group_strength
from jupyter_gpupool.backends.host.plan import CUDA_ROOM_BYTES
from jupyter_gpupool.backends.host.record import HostRecord
from jupyter_gpupool.backends.undo import GroupRecord, Undo
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc

_YIELDS = "The process has a share of the CPU too, and that is what limits it."
_NO_PIDS = (
    "No pids control group can be used here, and RLIMIT_NPROC counts all processes of a user, so there is no "
    "limit for one holder."
)
_SUMMED = (
    "The process tree is summed once a second; when it uses its part, allocations fail and the processes "
    f"live on. Until then up to {format_memory(CUDA_ROOM_BYTES)} more may be mapped, as CUDA does without "
    "filling it. A process could raise the limit for itself."
)


def describe(record: HostRecord, uid: int, agent_uid: int) -> list[IsolationDoc]:
    """Say what is in force beside a share."""
    if record.yielding:
        return [_none(resource, _YIELDS) for resource in _LIMITS]
    docs = []
    for resource in _LIMITS:
        if reason := record.reasons.get(resource):
            docs.append(_none(resource, reason))
        elif record.scope:
            docs.append(_scope(record, resource, uid, agent_uid))
        else:
            docs.append(_ours(record, record.undo, resource, uid, agent_uid))
    return docs


def _limit_of_compute(record: HostRecord) -> str:
    return format_cores_milli(record.cores_milli)


def _limit_of_memory(record: HostRecord) -> str:
    return format_memory(record.memory_bytes or 0)


def _limit_of_processes(record: HostRecord) -> str:
    return f"{record.processes} processes and threads"


_LIMITS = {
    Resource.HOST_COMPUTE: _limit_of_compute,
    Resource.HOST_MEMORY: _limit_of_memory,
    Resource.PROCESSES: _limit_of_processes,
}
_PROPERTIES = {
    Resource.HOST_COMPUTE: "CPUQuota",
    Resource.HOST_MEMORY: "MemoryMax",
    Resource.PROCESSES: "TasksMax",
}


def _scope(record: HostRecord, resource: Resource, uid: int, agent_uid: int) -> IsolationDoc:
    """Describe a limit that systemd set."""
    ours = uid == agent_uid
    return IsolationDoc(
        resource=resource,
        strength=Strength.SOFT if ours else Strength.HARD,
        mechanism=f"systemd scope, {_PROPERTIES[resource]}",
        limit=_LIMITS[resource](record),
        verified=Verified.READ_BACK,
        note="The agent runs as the holder's own user, who could undo it." if ours else "",
    )


def _ours(
    record: HostRecord, undo: Undo | None, resource: Resource, uid: int, agent_uid: int
) -> IsolationDoc:
    """Describe a limit of ours."""
    group = _group(undo, resource)
    if group is not None:
        strength, note = group_strength(group, uid, agent_uid)
        mechanism = f"control group {_FILES[resource]} (v{group.version})"
    elif resource is Resource.HOST_COMPUTE:
        strength, mechanism, note = Strength.SOFT, "CPU affinity", "Whole cores, rounded up."
    elif resource is Resource.HOST_MEMORY:
        strength, mechanism, note = Strength.SOFT, "soft RLIMIT_DATA, process tree summed", _SUMMED
    else:
        return _none(resource, _NO_PIDS)
    return IsolationDoc(
        resource=resource,
        strength=strength,
        mechanism=mechanism,
        limit=_LIMITS[resource](record),
        verified=Verified.READ_BACK,
        note=note,
    )


_FILES = {
    Resource.HOST_COMPUTE: "cpu quota",
    Resource.HOST_MEMORY: "memory.max",
    Resource.PROCESSES: "pids.max",
}


def _group(undo: Undo | None, resource: Resource) -> GroupRecord | None:
    """Return the control group that limits a resource."""
    for group in [] if undo is None else undo.groups:
        limits = {
            Resource.HOST_COMPUTE: group.cpu,
            Resource.HOST_MEMORY: group.memory,
            Resource.PROCESSES: group.processes,
        }
        if limits[resource]:
            return group
    return None


def _none(resource: Resource, why: str) -> IsolationDoc:
    """Say that there is no limit, and why."""
    return IsolationDoc(
        resource=resource,
        strength=Strength.NONE,
        mechanism="none",
        limit="",
        verified=Verified.READ_BACK,
        note=why,
    )
