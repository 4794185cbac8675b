"""How much of a node a process tree may use, and what a look at it found.

Rule of this module: frozen values; units stand in names.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.treememory import TreeMemory


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How much a process tree may use.

    Attributes
    ----------
    cores_milli : int
        Thousandths of a core.
    memory_bytes : int or None
        Main memory, bytes; None leaves it alone.
    room_bytes : int
        What RLIMIT_DATA lets a process map beyond that, as long as the tree uses less: for mappings that
        are never filled.
    processes : int or None
        Processes and threads; None leaves them alone.
    """

    cores_milli: int
    memory_bytes: int | None
    room_bytes: int = 0
    processes: int | None = None

    @property
    def cores(self) -> float:
        """Cores' worth of compute."""
        return self.cores_milli / 1000

    @property
    def whole_cores(self) -> int:
        """How many cores that touches: rounded up, at least 1."""
        return max(1, -(-self.cores_milli // 1000))


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What a look at a tree found.

    Attributes
    ----------
    changed : bool
        True when processes came or went, so that the record has to be written again.
    tree : list of ProcessMark
        The processes that live.
    memory : TreeMemory
        What they use.
    """

    changed: bool
    tree: list[ProcessMark]
    memory: TreeMemory
