"""How much of the node a holder gets beside its share of a GPU.

Rules of this module: pure; no limit is ever below what a holder uses already, and a limit that would be is
left out, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import format_memory

#: The least that a holder gets, however small its share: with less a notebook does not start a framework.
LEAST_CORES_MILLI = 500
LEAST_MEMORY_BYTES = 2 * 2**30
LEAST_PROCESSES = 512
#: How much more than its part RLIMIT_DATA lets a process map: a CUDA context, and the libraries that come
#: with it (cuDNN, cuBLAS, NCCL), map several GiB writable and private and fill little of it, which
#: RLIMIT_DATA counts like any allocation. What is filled counts to the tree's sum.
CUDA_ROOM_BYTES = 16 * 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What there is.

    Attributes
    ----------
    cores : int
        Usable at once.
    memory_bytes : int or None
        Main memory less the system's reserve; None when unknown.
    most_processes : int
        Processes and threads of a holder of all.
    """

    cores: int
    memory_bytes: int | None
    most_processes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """What a process tree uses.

    Attributes
    ----------
    memory_bytes : int or None
        Anonymous and shared memory in RAM; None when unknown.
    tasks : int
        Processes and threads.
    """

    memory_bytes: int | None
    tasks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a holder gets.

    Attributes
    ----------
    cores_milli : int
        Thousandths of a core.
    memory_bytes, processes : int or None
        None for no limit.
    reasons : dict of Resource to str
        Why there is none, one sentence.
    """

    cores_milli: int
    memory_bytes: int | None
    processes: int | None
    reasons: dict[Resource, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was asked for beside a share, and is counted by the pool; 0 where nothing was.

    Attributes
    ----------
    cpu_milli : int
        Thousandths of a core.
    memory_bytes : int
        Bytes of main memory.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0


def choose(part: float, node: Node, used: Used, asked: Asked | None = None) -> Wanted:
    """Choose the limits of a holder.

    Parameters
    ----------
    part : float
        Which part of the node's GPUs it has, at most 1.
    node : Node
        What there is.
    used : Used
        What it uses already.
    asked : Asked or None
        What it asked for: that is what it gets, whatever its part is.
    """
    asked = asked or Asked()
    reasons: dict[Resource, str] = {}
    processes: int | None = max(LEAST_PROCESSES, round(part * node.most_processes))
    if processes is not None and used.tasks > processes:
        reasons[Resource.PROCESSES] = (
            f"It has {used.tasks} processes and threads already, more than its part ({processes}): a limit "
            "would break it. Restart the kernel to get one."
        )
        processes = None
    return Wanted(
        cores_milli=min(
            1000 * node.cores, asked.cpu_milli or max(LEAST_CORES_MILLI, round(part * 1000 * node.cores))
        ),
        memory_bytes=_memory(part, node, used, reasons, asked.memory_bytes),
        processes=processes,
        reasons=reasons,
    )


def _memory(
    part: float, node: Node, used: Used, reasons: dict[Resource, str], asked_bytes: int
) -> int | None:
    """Choose how much main memory; None for no limit, with the reason."""
    if node.memory_bytes is None or used.memory_bytes is None:
        whose = "the node has" if node.memory_bytes is None else "the process uses"
        reasons[Resource.HOST_MEMORY] = f"How much memory {whose} cannot be read."
        return None
    limit = min(node.memory_bytes, asked_bytes or max(LEAST_MEMORY_BYTES, int(part * node.memory_bytes)))
    if used.memory_bytes > limit:
        reasons[Resource.HOST_MEMORY] = (
            f"It uses {format_memory(used.memory_bytes)} already, more than its part "
            f"({format_memory(limit)}): a limit would break it. Restart the kernel to get one."
        )
        return None
    return limit
