"""Requests whose waiter is gone: nobody has listened for them for longer than the grace period.

Rule of this module: only requests in the queue are counted; a lease that is granted needs no listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Waiters:
    """Counts the open requests for each queued lease.

    Parameters
    ----------
    grace_seconds : float
        How long a queued lease may be without any.
    lost : callable
        Called with the id of a lease that was without any for longer.
    """

    def __init__(self, grace_seconds: float, lost: Callable[[str], None]) -> None:
        self._grace_seconds = grace_seconds
        self._lost = lost
        self._open: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def queued(self, lease_id: str, *, grace_seconds: float | None = None) -> None:
        """Begin the grace period of a lease that is in the queue, unless somebody listens."""
        if lease_id in self._open:
            return
        self.forget(lease_id)
        delay = self._grace_seconds if grace_seconds is None else grace_seconds
        self._timers[lease_id] = asyncio.get_running_loop().call_later(delay, self._expire, lease_id)

    def forget(self, lease_id: str) -> None:
        """Stop the grace period of a lease that has left the queue, or has a listener."""
        timer = self._timers.pop(lease_id, None)
        if timer is not None:
            timer.cancel()

    def _expire(self, lease_id: str) -> None:
        self._timers.pop(lease_id, None)
        self._lost(lease_id)

    @contextmanager
    def listening(self, lease_id: str, *, still_queued: Callable[[], bool]) -> Iterator[None]:
        """Count one open request; the grace period begins when the last one closes."""
        self.forget(lease_id)
        self._open[lease_id] = self._open.get(lease_id, 0) + 1
        try:
            yield
        finally:
            left = self._open.pop(lease_id) - 1
            if left:
                self._open[lease_id] = left
            elif still_queued():
                self.queued(lease_id)

    def close(self) -> None:
        """Stop all timers."""
        for lease_id in list(self._timers):
            self.forget(lease_id)
