"""How much memory a process tree uses, and how much each of its processes may still take.

Rules of this module: a number that cannot be read makes the sum ``None``, never smaller; the sum is read
cheaply every second, and exactly where it matters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS

#: For how long what a process shares with others is taken as unchanged, seconds. Measuring it costs 15 to
#: 35 ms a GiB, so it is done for one process of a tree at a time, unless it has to be exact.
_MEASURED_SECONDS = 30.0
#: The same where the tree comes near its share.
_MEASURED_SECONDS_NEAR = 2.0
#: How many processes are kept before all are measured again; most of so many have ended.
_MOST_MEASURED = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeMemory:
    """What a process tree uses.

    Attributes
    ----------
    used_bytes : int or None
        Anonymous and shared memory in RAM, each page counted once.
    data_bytes : dict of int to int
        VmData of each process that lives: what its RLIMIT_DATA counts.
    """

    used_bytes: int | None
    data_bytes: dict[int, int] = field(default_factory=dict)

    def allowance(self, pid: int, share_bytes: int, *, bounded: bool, room_bytes: int = 0) -> int | None:
        """Return which RLIMIT_DATA lets a process take what the tree has left, and no more.

        None if that cannot be known now. It is never more than the share itself, except for a process
        that reserved more than that before, where another limit holds it too (not ``bounded``). With
        ``room_bytes`` there is that much besides, until the tree uses its share: for mappings that are
        made and not filled.
        """
        if self.used_bytes is None or pid not in self.data_bytes:
            return None
        data, left = self.data_bytes[pid], max(0, share_bytes - self.used_bytes)
        if room_bytes:
            return data + left + (room_bytes if left else 0)
        return min(data + left, share_bytes) if bounded or data <= share_bytes else data + left


class MemoryMeter:
    """Measures process trees.

    Parameters
    ----------
    procfs : ProcFS
        Where to look.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, procfs: ProcFS, clock: Callable[[], float] = time.monotonic) -> None:
        self._procfs = procfs
        self._clock = clock
        #: When a process was last measured, and how much of what it has in RAM counts to others.
        self._shared: dict[ProcessMark, tuple[float, int]] = {}

    def measure(self, tree: Sequence[ProcessMark], share_bytes: int, *, exact: bool = False) -> TreeMemory:
        """Measure a tree. Pages that processes share are counted once, so a fork costs what it changes.

        What `refresh` has not measured yet counts in full. With ``exact`` everything is measured where
        that would make the sum larger than the share.
        """
        sizes = {mark: status for mark in tree if (status := self._procfs.status(mark.pid)) is not None}
        data = {mark.pid: status.data_bytes for mark, status in sizes.items()}
        resident = {mark: status.resident_bytes for mark, status in sizes.items()}
        if exact and (self._sum(resident) or 0) > share_bytes and len(resident) > 1:
            for mark in resident:
                self._look(mark)
        return TreeMemory(used_bytes=self._sum(resident), data_bytes=data)

    def refresh(self, memory: TreeMemory, tree: Sequence[ProcessMark], share_bytes: int) -> None:
        """Measure again which process of a tree was not for the longest time, if that is too long ago."""
        if len(tree) < 2:
            return
        mark = min(tree, key=self._measured_at)
        near = (memory.used_bytes or 0) > share_bytes - share_bytes // 8
        lasting = _MEASURED_SECONDS_NEAR if near else _MEASURED_SECONDS
        if self._clock() - self._measured_at(mark) >= lasting:
            self._look(mark)

    def _measured_at(self, mark: ProcessMark) -> float:
        """Return when a process was measured; long ago if never."""
        return self._shared[mark][0] if mark in self._shared else -math.inf

    def _sum(self, resident: Mapping[ProcessMark, int | None]) -> int | None:
        """Add up what is in RAM, less what was measured to count to others; None if any is unknown."""
        total: int | None = None
        for mark, size in resident.items():
            if size is None:
                return None
            shared = self._shared[mark][1] if mark in self._shared and len(resident) > 1 else 0
            total = (total or 0) + max(0, size - shared)
        return total

    def _look(self, mark: ProcessMark) -> None:
        """Measure how much of what a process has in RAM counts to others; nothing where that is secret."""
        status, own = self._procfs.status(mark.pid), self._procfs.proportional_bytes(mark.pid)
        resident = None if status is None else status.resident_bytes
        if len(self._shared) > _MOST_MEASURED:
            self._shared.clear()
        shared = 0 if own is None or resident is None else max(0, resident - own)
        self._shared[mark] = (self._clock(), shared)
