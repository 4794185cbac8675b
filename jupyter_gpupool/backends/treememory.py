"""How much memory a process tree uses, and how much each of its processes may still take.

Rules of this module: a number that cannot be read makes the sum ``None``, never smaller; the sum is read
cheaply every second, and exactly where it matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcessStatus, ProcFS

#: For how long what a process shares with others is taken as unchanged, seconds: measuring it costs about
#: 15 ms a GiB. Not where the tree may be over its share: there it is measured each time.
_MEASURED_SECONDS = 10.0
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

    def allowance(self, pid: int, share_bytes: int, *, bounded: bool) -> int | None:
        """Return which RLIMIT_DATA lets a process take what the tree has left, and no more.

        None if that cannot be known now. It is never more than the share itself, except for a process
        that reserved more than that before, where another limit holds it too (not ``bounded``).
        """
        if self.used_bytes is None or pid not in self.data_bytes:
            return None
        limit = self.data_bytes[pid] + max(0, share_bytes - self.used_bytes)
        return min(limit, share_bytes) if bounded or self.data_bytes[pid] <= share_bytes else limit


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

    def measure(self, tree: Sequence[ProcessMark], share_bytes: int) -> TreeMemory:
        """Measure a tree. Pages that processes share are counted once, so a fork costs what it changes."""
        sizes = {mark: status for mark in tree if (status := self._procfs.status(mark.pid)) is not None}
        resident = [status.resident_bytes for status in sizes.values()]
        used: int | None = None
        if sizes and all(size is not None for size in resident):
            used = sum(size or 0 for size in resident)
            if len(sizes) > 1:
                exactly = used > share_bytes
                used = sum(self._own_bytes(mark, status, exactly) for mark, status in sizes.items())
        return TreeMemory(
            used_bytes=used, data_bytes={mark.pid: status.data_bytes for mark, status in sizes.items()}
        )

    def _own_bytes(self, mark: ProcessMark, status: ProcessStatus, exactly: bool) -> int:
        """Return a process's part of the memory that it is in; the whole where that cannot be read."""
        resident, now = status.resident_bytes or 0, self._clock()
        known = self._shared.get(mark)
        if known is not None and not exactly and now - known[0] < _MEASURED_SECONDS:
            return max(0, resident - known[1])
        own = self._procfs.proportional_bytes(mark.pid)
        if own is None:
            return resident
        if len(self._shared) > _MOST_MEASURED:
            self._shared.clear()
        self._shared[mark] = (now, resident - own)
        return own
