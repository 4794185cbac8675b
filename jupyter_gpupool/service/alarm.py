"""The timer behind a pool's deadlines.

Rule of this module: it tells the pool that time has passed, and never what follows from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jupyter_gpupool.core.events import TimePassed
from jupyter_gpupool.service.clock import PoolClock

#: Least time between two looks at deadlines, seconds.
_LEAST_SECONDS = 0.005
#: Pause before a deadline that the pool was told of already is told again, seconds.
_AGAIN_SECONDS = 1.0


class Alarm:
    """Posts `TimePassed` when the next deadline has come.

    Parameters
    ----------
    clock : PoolClock
        Deadlines are pool time.
    post : callable
        Takes the event.
    """

    def __init__(self, clock: PoolClock, post: Callable[[TimePassed], None]) -> None:
        self._clock = clock
        self._post = post
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        self._told_ms = -1

    def set(self, due_ms: int | None) -> None:
        """Go off at ``due_ms``, pool time, and at no other; never for None."""
        if due_ms == self._due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms, self._timer = due_ms, None
        if due_ms is None:
            return
        least = _AGAIN_SECONDS if due_ms <= self._told_ms else _LEAST_SECONDS
        delay = max(least, (due_ms - self._clock.now_ms()) / 1000 + 0.001)
        self._timer = asyncio.get_running_loop().call_later(delay, self._go_off)

    def _go_off(self) -> None:
        now = self._clock.read()
        self._due_ms, self._timer, self._told_ms = None, None, now.now_ms
        self._post(TimePassed(now_ms=now.now_ms, wall_ms=now.wall_ms))
