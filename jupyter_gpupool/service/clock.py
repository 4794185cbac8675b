"""The two clocks of a pool.

Rule of this module: durations and deadlines use pool time, which follows the monotonic clock while the
service runs, so that a jump of the wall clock changes none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """One moment, on both clocks.

    Attributes
    ----------
    now_ms : int
        Pool time, milliseconds.
    wall_ms : int
        UTC, milliseconds since the epoch.
    """

    now_ms: int
    wall_ms: int


class PoolClock:
    """Reads both clocks.

    Parameters
    ----------
    start_ms : int
        Pool time now (`Journal.pool_time`).
    monotonic, wall : callable
        Seconds that never go back, and seconds since the epoch; tests pass their own.
    """

    def __init__(
        self,
        start_ms: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._zero = monotonic() - start_ms / 1000

    def now_ms(self) -> int:
        """Return pool time, milliseconds."""
        return int((self._monotonic() - self._zero) * 1000)

    def read(self) -> Now:
        """Return this moment on both clocks."""
        return Now(now_ms=self.now_ms(), wall_ms=int(self._wall() * 1000))
