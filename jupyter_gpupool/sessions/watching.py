"""How the leases of a session cluster's workers are, and what the workers do.

Rule of this module: it looks at all leases at once and seldom; the end of a process is seen by whoever
started it, at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from distributed.metrics import time

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import LeaseDoc
from jupyter_gpupool.sessions.desk import PoolDesk
from jupyter_gpupool.sessions.leased import LeasedWorker, Stage

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster

#: How often the pool is asked how the workers' leases are, seconds.
LOOK_SECONDS = 2.0
_ATTACHED = (Stage.STARTING, Stage.RUNNING)


class Watching:
    """Hears of the leases of one cluster.

    Parameters
    ----------
    cluster : GPUPoolCluster
        The cluster.
    desk : PoolDesk
        The pool.
    """

    def __init__(self, cluster: GPUPoolCluster, desk: PoolDesk) -> None:
        self._cluster = cluster
        self._desk = desk

    async def watch(self) -> None:
        """Look again and again, until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            attached = [it for it in self._cluster.workers.values() if it.stage in _ATTACHED]
            attached += [it for it in self._cluster.leaving.values() if it.process is not None]
            if not attached:
                continue
            try:
                leases = await self._desk.leases()
                for worker in attached:
                    await self._hear(worker, leases.get(worker.lease_id))
            except GPUPoolError as error:  # such as a token that is not good any more
                self._cluster.note(f"The pool cannot be asked about the workers' leases: {error}")

    async def _hear(self, worker: LeasedWorker, doc: LeaseDoc | None) -> None:
        if doc is None and worker.doc is not None:
            doc = await self._desk.last_word(worker.doc)
        worker.note(doc)
        if doc is None or worker.stage is not Stage.RUNNING:
            return
        if doc.reclaim_seconds is not None and worker.name in self._cluster.workers:
            self._cluster.note(
                f"The pool takes the lease of worker {worker.name} back; what it runs ends first."
            )
            self._cluster.let_go([worker.name])
            self._cluster.grow()
        await self._tell_activity(worker, doc)

    async def _tell_activity(self, worker: LeasedWorker, doc: LeaseDoc) -> None:
        """Tell the pool when a worker has begun or ceased to have tasks."""
        scheduler = self._cluster.scheduler
        known = scheduler.workers.get(scheduler.aliases.get(worker.name))
        busy = bool(known is not None and known.processing)
        now = time()
        if busy or not worker.busy_at:
            worker.busy_at = now
        if doc.idle_seconds is None:
            worker.told_busy = None  # the service was started anew
        if busy is not worker.told_busy:
            worker.told_busy = busy
            idle_seconds = 0.0 if busy else now - worker.busy_at
            await self._desk.tell_activity(doc.id, busy=busy, idle_seconds=idle_seconds)
