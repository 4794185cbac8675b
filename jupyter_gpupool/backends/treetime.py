"""How busy a tree of processes keeps the cores of a node.

Rules of this module: it counts what was computed since the last look, so that the first look knows nothing;
what a process that is gone computed after the last look is missed, unless its parent has waited for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS

#: Looks that are closer together say too little: the kernel counts in hundredths of a second, seconds.
_LEAST_SECONDS = 0.5


class TreeTime:
    """Remembers what trees had computed at the last look.

    Parameters
    ----------
    procfs : ProcFS
        Where to look.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, procfs: ProcFS, clock: Callable[[], float] = time.monotonic) -> None:
        self._procfs = procfs
        self._clock = clock
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._seen: dict[str, tuple[float, dict[ProcessMark, int]]] = {}
        self._last: dict[str, float] = {}

    def percent(self, lease_id: str, tree: Iterable[ProcessMark], cores: int) -> float | None:
        """Return how busy a tree keeps so many cores, percent of all; None when not known yet."""
        now, before = self._clock(), self._seen.get(lease_id)
        if before is not None and now - before[0] < _LEAST_SECONDS:
            return self._last.get(lease_id)
        ticks = {mark: used for mark in tree if (used := self._procfs.cpu_ticks(mark)) is not None}
        self._seen[lease_id] = (now, ticks)
        if before is None or not ticks:
            self._last.pop(lease_id, None)
            return None
        used = sum(max(0, value - before[1].get(mark, 0)) for mark, value in ticks.items())
        seconds = used / self._ticks_per_second
        percent = round(min(100.0, 100.0 * seconds / (now - before[0]) / max(1, cores)), 1)
        self._last[lease_id] = percent
        return percent

    def forget(self, lease_id: str) -> None:
        """Forget a tree."""
        self._seen.pop(lease_id, None)
        self._last.pop(lease_id, None)
