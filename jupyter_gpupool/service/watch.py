"""Waking those who wait for a change: long polls of one lease, and event streams of the whole pool.

Rule of this module: it says *that* something changed; what it is now is read anew by whoever was woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

#: Requests in the queue are woken at most this often for changes that are not their own, seconds.
QUEUE_PAUSE_SECONDS = 0.25


class Watch:
    """Who waits for what; use it on one event loop."""

    def __init__(self) -> None:
        self._leases: dict[str, set[asyncio.Future[None]]] = {}
        self._queue: set[asyncio.Future[None]] = set()
        self._pool: set[asyncio.Future[None]] = set()
        self._queue_timer: asyncio.TimerHandle | None = None
        #: Grows with every change of the pool, and of any reading.
        self.version = 0
        #: True when nothing will change any more.
        self.closed = False

    def leases_changed(self, lease_ids: Iterable[str]) -> None:
        """Wake those who wait for one of these leases."""
        for lease_id in lease_ids:
            for future in self._leases.get(lease_id, ()):
                _wake(future)

    def pool_changed(self) -> None:
        """Wake event streams at once, and requests in the queue a little later."""
        self.readings_changed()
        if self._queue and self._queue_timer is None:
            loop = asyncio.get_running_loop()
            self._queue_timer = loop.call_later(QUEUE_PAUSE_SECONDS, self._wake_queue)

    def readings_changed(self) -> None:
        """Wake event streams."""
        self.version += 1
        for future in self._pool:
            _wake(future)

    def _wake_queue(self) -> None:
        self._queue_timer = None
        for future in self._queue:
            _wake(future)

    async def lease(self, lease_id: str, timeout_seconds: float, *, queued: bool = False) -> bool:
        """Wait for a change of one lease (or of the queue, if ``queued``); False when there was none."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watchers = self._leases.setdefault(lease_id, set())
        watchers.add(future)
        if queued:
            self._queue.add(future)
        try:
            return await _wait(future, timeout_seconds)
        finally:
            self._queue.discard(future)
            watchers.discard(future)
            if not watchers:
                self._leases.pop(lease_id, None)

    async def pool(self, since: int, timeout_seconds: float) -> bool:
        """Wait until `version` is past ``since``; False when it was not in time."""
        if self.version > since:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pool.add(future)
        try:
            return await _wait(future, timeout_seconds)
        finally:
            self._pool.discard(future)

    @property
    def watchers(self) -> int:
        """How many wait now."""
        return len(self._pool) + sum(len(futures) for futures in self._leases.values())

    def close(self) -> None:
        """Wake everybody: nothing will change any more."""
        self.closed = True
        if self._queue_timer is not None:
            self._queue_timer.cancel()
        self.leases_changed(list(self._leases))
        self.readings_changed()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _wait(future: asyncio.Future[None], timeout_seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, timeout_seconds), future.cancel)
    try:
        await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return False
    finally:
        timer.cancel()
    return True
