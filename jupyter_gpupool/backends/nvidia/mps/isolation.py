"""What a lease says of MPS.

Rules of this module: pure; memory is called hard only where the holder can neither change the limit nor
leave MPS; compute is a cap for each process and never a reservation; a client's own numbers cannot be asked
of the server, so the server's are told beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps.answers import MIB
from jupyter_gpupool.backends.nvidia.mps.ledger import Numbers
from jupyter_gpupool.backends.nvidia.mps.survey import ServerView
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder

#: How memory is limited.
MEMORY_MECHANISM = "MPS memory limit of each process"
#: How compute is limited.
COMPUTE_MECHANISM = "MPS active thread percentage"
_EXCLUSIVE = "exclusive_process"
_CAP = "It is a cap for each process, not a reservation; the driver rounds it down to whole multiprocessors."
_EACH = "Each process has this limit for itself; the agent adds them up."


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """All that decides how well a limit of MPS holds.

    Attributes
    ----------
    gpu : GPU
        The device.
    rules : NodeRules
        What an administrator decided.
    daemon_uid : int or None
        Whose the daemon is; None when that is not known.
    holder_uid : int
        Whose the holder is.
    """

    gpu: GPU
    rules: NodeRules
    daemon_uid: int | None
    holder_uid: int


def numbers_of(share: ShareOrder) -> Numbers:
    """Return a share as MPS takes it: whole percent and MiB, rounded down, at least 1."""
    return Numbers(percentage=max(1, share.compute_milli // 10), memory_mib=max(1, share.memory_bytes // MIB))


def environment(uuid: str, numbers: Numbers) -> dict[str, str]:
    """Return the variables that CUDA reads when it starts in the holder and its children."""
    return {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(numbers.percentage),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{uuid}={numbers.memory_mib}M",
    }


def can_leave(standing: Standing) -> str:
    """Say why a holder could get round its limit, one sentence; empty when it cannot."""
    mode = standing.gpu.compute_mode
    if not standing.rules.exclusive_process:
        return "The GPU is not kept for MPS alone (exclusive_process is off), so a process could leave MPS."
    if mode != _EXCLUSIVE:
        return (
            f"exclusive_process is on, but NVML says that the GPU's compute mode is {mode or 'unknown'}, so a"
            " process could leave MPS."
        )
    if standing.holder_uid == 0:
        return "The holder is root, who could command the MPS daemon."
    if standing.daemon_uid in (None, standing.holder_uid):
        return "The MPS daemon runs as the holder's own user, who could command it."
    return ""


def pending(numbers: Numbers, standing: Standing, note: str = "") -> list[IsolationDoc]:
    """Say what the holder will get when CUDA starts in it."""
    why = can_leave(standing)
    strength = Strength.SOFT if why else Strength.HARD
    return [
        _memory(numbers, strength, Verified.PENDING, " ".join(filter(None, [note, why or _EACH]))),
        _compute(numbers, Verified.PENDING, " ".join(filter(None, [note, _CAP]))),
    ]


def in_force(
    numbers: Numbers, server: ServerView, standing: Standing, now: Numbers | None = None
) -> list[IsolationDoc]:
    """Say what is in force for a holder that is a client of a server.

    Parameters
    ----------
    numbers : Numbers
        What the holder got when CUDA started in it.
    server : ServerView
        What its server says.
    standing : Standing
        How well limits hold there.
    now : Numbers, optional
        What its share is since it was resized, where that is something else.
    """
    notes = [] if now is None or now == numbers else [_after_resize(now)]
    why = _looser(numbers, server) or can_leave(standing)
    strength = Strength.SOFT if why else Strength.HARD
    cap = [*notes, _CAP]
    allowed = server.state.percentage
    if allowed is not None and allowed > numbers.percentage + 0.5:
        cap.append(f"The server allows {allowed:g} %, the process's environment less.")
    return [
        _memory(numbers, strength, Verified.READ_BACK, " ".join([*notes, why or _EACH])),
        _compute(numbers, Verified.READ_BACK, " ".join(cap)),
    ]


def _looser(numbers: Numbers, server: ServerView) -> str:
    """Say that the server itself lets a client use more memory, one sentence; empty when it does not."""
    allowed = server.state.memory_mib
    if allowed is not None and allowed <= numbers.memory_mib:
        return ""
    if server.state.percentage is None:
        what = "does not say what it limits"
    else:
        what = "does not limit memory" if allowed is None else f"allows {format_memory(allowed * MIB)}"
    return (
        f"The MPS server {what}; what is below that is set by the process's environment, which it could"
        " change before CUDA starts."
    )


def nothing(why: str) -> list[IsolationDoc]:
    """Say that nothing is in force, and why."""
    return [
        IsolationDoc(
            resource=resource,
            strength=Strength.NONE,
            mechanism=mechanism,
            limit="none",
            verified=Verified.READ_BACK,
            note=why,
        )
        for resource, mechanism in (
            (Resource.MEMORY, MEMORY_MECHANISM),
            (Resource.COMPUTE, COMPUTE_MECHANISM),
        )
    ]


def _memory(numbers: Numbers, strength: Strength, verified: Verified, note: str) -> IsolationDoc:
    return IsolationDoc(
        resource=Resource.MEMORY,
        strength=strength,
        mechanism=MEMORY_MECHANISM,
        limit=format_memory(numbers.memory_mib * MIB),
        verified=verified,
        note=note,
    )


def _compute(numbers: Numbers, verified: Verified, note: str) -> IsolationDoc:
    return IsolationDoc(
        resource=Resource.COMPUTE,
        strength=Strength.SOFT,
        mechanism=COMPUTE_MECHANISM,
        limit=f"at most {numbers.percentage} % of the multiprocessors",
        verified=verified,
        note=note,
    )


def _after_resize(now: Numbers) -> str:
    return (
        f"The share is {now.percentage} % and {format_memory(now.memory_mib * MIB)} now, but CUDA reads"
        " limits only when it starts: restart the kernel to get it."
    )
