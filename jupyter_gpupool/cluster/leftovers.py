"""Holders that are gone, and whose limits are not all taken away yet.

Rules of this module: children outlive their parents, so an ended holder is cleaned up behind; what fails is
tried again until it works, and until then nobody is told that nothing is left. The records stay on disk, so
that the next agent goes on where this one ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jupyter_gpupool.cluster.holders import HolderRecord
from jupyter_gpupool.cluster.tasks import Tasks

#: Pause before what failed is tried again, seconds.
RETRY_SECONDS = 2.0


class Leftovers:
    """Takes away what is left over.

    Parameters
    ----------
    detach : callable
        Takes the limits of one record away, and tells whether nothing is left.
    turn : asyncio.Lock
        Held while that is done.
    tasks : Tasks
        Where it is done.
    """

    def __init__(
        self, detach: Callable[[HolderRecord], Awaitable[bool]], turn: asyncio.Lock, tasks: Tasks
    ) -> None:
        self._detach = detach
        self._turn = turn
        self._tasks = tasks
        self._records: dict[str, HolderRecord] = {}
        #: Leases whose processes are being ended: they are cleaned up behind afterwards.
        self._busy: set[str] = set()

    def keep(self, record: HolderRecord, *, later: bool = False) -> None:
        """Take the limits of a record away, in the background: now, or after a failure later."""
        self._records[record.lease_id] = record
        if later:
            self._tasks.later(RETRY_SECONDS, self._try, record.lease_id)
        else:
            self._try(record.lease_id)

    def begin_ending(self, lease_id: str) -> None:
        """Leave a lease alone while its processes are ended."""
        self._busy.add(lease_id)

    def finish_ending(self, lease_id: str) -> None:
        """Clean up behind processes that were ended."""
        self._busy.discard(lease_id)
        self._try(lease_id)

    def __contains__(self, lease_id: str) -> bool:
        return lease_id in self._records or lease_id in self._busy

    async def clear(self, lease_id: str) -> bool:
        """Take away what is left over of a lease, if anything is; tell whether nothing is any more.

        Called by whoever has the turn.
        """
        record = self._records.get(lease_id)
        if record is None:
            return True
        if lease_id in self._busy or not await self._detach(record):
            return False
        del self._records[lease_id]
        return True

    def _try(self, lease_id: str) -> None:
        if lease_id in self._records:
            self._tasks.spawn(self._clean_up(lease_id))

    async def _clean_up(self, lease_id: str) -> None:
        async with self._turn:
            done = await self.clear(lease_id)
        if not done and lease_id not in self._busy:
            self._tasks.later(RETRY_SECONDS, self._try, lease_id)
