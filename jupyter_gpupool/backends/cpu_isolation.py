"""What the CPU backend says of the limits that it set.

Rule of this module: nothing is called hard unless the holder, with its own uid, can neither exceed nor undo
it; every rounding is told.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.backends.affinity import format_cores
from jupyter_gpupool.backends.leasegroups import open_to
from jupyter_gpupool.backends.rlimits import UNLIMITED, lower
from jupyter_gpupool.backends.undo import ComputeRung, GroupRecord, MemoryRung, Undo
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_compute, format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder
from jupyter_gpupool.protocol.names import ENV_LEASE

#: Variables that numeric libraries read when they are loaded: how many threads they start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)


def cores_milli(share: ShareOrder, units: int) -> int:
    """Return how many thousandths of a core a share is."""
    return share.compute_milli * units


def whole_cores(share: ShareOrder, units: int) -> int:
    """Return how many cores a share touches: rounded up, at least 1."""
    return max(1, -(-cores_milli(share, units) // 1000))


def environment(lease_id: str, threads: int) -> dict[str, str]:
    """Return the variables for a holder and its future children."""
    return {ENV_LEASE: lease_id, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


def describe(undo: Undo, share: ShareOrder, units: int, uid: int, agent_uid: int) -> list[IsolationDoc]:
    """Say what is in force, once it was read back."""
    return [_memory(undo, share, uid, agent_uid), _compute(undo, share, units, uid, agent_uid)]


def _memory(undo: Undo, share: ShareOrder, uid: int, agent_uid: int) -> IsolationDoc:
    group = next((each for each in undo.groups if each.memory), None)
    if undo.memory is MemoryRung.CGROUP and group is not None:
        strength, note = group_strength(group, uid, agent_uid)
        mechanism = "soft RLIMIT_DATA, then control group memory.max"
    else:
        strength, mechanism = Strength.SOFT, "soft RLIMIT_DATA, process tree summed"
        note = (
            "An allocation past it fails and the process lives on. Shared memory counts when the tree is "
            "summed, once a second. A process could raise the limit for itself."
        )
    own = undo.processes[0].data_soft if undo.processes else UNLIMITED
    if lower(own, share.memory_bytes) < share.memory_bytes:
        note = f"{note} The process had a lower limit of its own, which stays: {format_memory(own)}.".lstrip()
    return IsolationDoc(
        resource=Resource.MEMORY,
        strength=strength,
        mechanism=mechanism,
        limit=format_memory(lower(own, share.memory_bytes)),
        verified=Verified.READ_BACK,
        note=note,
    )


def _compute(undo: Undo, share: ShareOrder, units: int, uid: int, agent_uid: int) -> IsolationDoc:
    group = next((each for each in undo.groups if each.cpu), None)
    if undo.compute is ComputeRung.CGROUP and group is not None:
        strength, note = group_strength(group, uid, agent_uid)
        mechanism, limit = (
            f"control group cpu quota (v{group.version})",
            format_cores_milli(cores_milli(share, units)),
        )
    else:
        strength, mechanism = Strength.SOFT, "CPU affinity"
        limit, note = format_cores_milli(1000 * len(undo.cores)), _rounding(undo, share, units)
    return IsolationDoc(
        resource=Resource.COMPUTE,
        strength=strength,
        mechanism=mechanism,
        limit=limit,
        verified=Verified.READ_BACK,
        note=note,
    )


def group_strength(group: GroupRecord, uid: int, agent_uid: int) -> tuple[Strength, str]:
    """Judge a control group: whoever may write to it can leave it."""
    if uid == agent_uid:
        return Strength.SOFT, "The agent runs as the holder's own user, who could undo it."
    if open_to(Path(group.path), uid):
        return Strength.SOFT, "The holder's user may write to the control group, and so could undo it."
    return Strength.HARD, ""


def _rounding(undo: Undo, share: ShareOrder, units: int) -> str:
    """Tell what a share became when it was rounded to whole cores."""
    wanted, given = cores_milli(share, units), 1000 * len(undo.cores)
    whole, part = format_cores_milli(1000 * units), format_cores_milli(wanted)
    text = f"{format_compute(share.compute_milli)} of {whole} = {part}"
    if given > wanted:
        text += f", rounded up to {format_cores_milli(given)}: shared with others"
    elif given < wanted:
        text += f", but the process may only use {format_cores_milli(given)}"
    return f"{text} (core {format_cores(undo.cores)})."


def format_cores_milli(milli: int) -> str:
    """Write thousandths of a core as people do."""
    if milli == 1000:
        return "1 core"
    if milli % 1000 == 0:
        return f"{milli // 1000} cores"
    digits = f"{milli / 1000:.2f}" if milli % 10 == 0 else f"{milli / 1000:.3f}"
    return f"{digits} of a core" if milli < 1000 else f"{digits} cores"
