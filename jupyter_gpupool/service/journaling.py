"""The journal, off the event loop.

Rule of this module: one thread uses the journal, so its calls are in order; nothing else touches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from jupyter_gpupool.cluster.journal import IdempotencyRow, Journal
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import LeaseEvent
from jupyter_gpupool.core.quotas.usage import OwnerUsage
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.metrics import Metrics

T = TypeVar("T")


class JournalThread:
    """An open `Journal`, and the thread that it is used in.

    Parameters
    ----------
    journal : Journal
        Open; not to be used elsewhere any more.
    clock : PoolClock
        Every commit saves its time.
    metrics : Metrics
        Counts commits and their durations.
    """

    def __init__(self, journal: Journal, clock: PoolClock, metrics: Metrics) -> None:
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    async def commit(
        self,
        writes: Sequence[WriteDown],
        keys: Sequence[IdempotencyRow] = (),
        standings: Sequence[OwnerUsage] = (),
    ) -> None:
        """Write one transaction; when this returns, it is on the disk.

        Raises
        ------
        JournalUnavailable
            If it cannot be written; then nothing of it was.
        """
        now = self._clock.read()

        def write() -> None:
            self._journal.commit(
                writes, now_ms=now.now_ms, wall_ms=now.wall_ms, keys=keys, standings=standings
            )

        began = perf_counter()
        await asyncio.get_running_loop().run_in_executor(self._thread, write)
        self._metrics.committed(len(writes), perf_counter() - began)
        for lease in (write.lease for write in writes if write.event is LeaseEvent.GRANTED):
            self._metrics.granted(((lease.granted_ms or 0) - lease.requested_ms) / 1000)

    async def read(self, look: Callable[[Journal], T]) -> T:
        """Call ``look`` with the journal, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, look, self._journal)

    def close(self) -> None:
        """Finish what was begun, and close the file."""
        self._thread.shutdown(wait=True)
        self._journal.close()
