"""One worker of a session cluster, from its request to the end of its lease.

Rule of this module: a worker lives as long as its coroutine `LeasedWorker.live`, and however that ends, its
process has ended and its lease was given back before.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

import dask
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.kernel.words import share_of, why_ended
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import AttachDoc, LeaseDoc, LeaseRequest
from jupyter_gpupool.sessions.desk import PoolDesk, is_over
from jupyter_gpupool.sessions.errors import LeaseLost, WorkerFailed
from jupyter_gpupool.sessions.launcher import WorkerLauncher, WorkerProcess
from jupyter_gpupool.sessions.order import WorkerOrder
from jupyter_gpupool.sessions.shape import shape_of


class Stage(Enum):
    """How far a worker has come; the value is what people read."""

    #: Its request is on its way to the pool.
    ASKING = "asking"
    #: Its request waits.
    WAITING = "waiting"
    #: Its lease is granted, and its process starts.
    STARTING = "starting"
    #: It is one of the cluster's workers.
    RUNNING = "running"
    #: It finishes what it runs, hands its results over, and ends.
    LEAVING = "leaving"
    #: It is gone.
    ENDED = "ended"


class End(Enum):
    """How the life of a worker ended."""

    #: It was asked to.
    WANTED = "wanted"
    #: Its process ended by itself, or was killed.
    DIED = "died"
    #: The pool took its lease, or lost its node: another may be had.
    TAKEN = "taken"


#: Ends of leases after which another one is asked for.
_ANOTHER = frozenset(
    {
        *(EndReason.RECLAIMED, EndReason.AGENT_LOST, EndReason.HOLDER_EXITED),
        *(EndReason.ATTACH_EXPIRED, EndReason.ABANDONED, EndReason.DRAINED),
    }
)


class LeasedWorker:
    """One worker.

    Parameters
    ----------
    name : str
        Its name in the cluster.
    body : LeaseRequest
        What is asked for.
    desk : PoolDesk
        The pool.
    launcher : WorkerLauncher
        Starts its process.
    scheduler, host : str
        Addresses of the scheduler, and that the worker listens on.
    security : Security
        The cluster's keys, where it has any.
    environment : callable
        Returns the environment of its process.
    """

    def __init__(
        self,
        name: str,
        body: LeaseRequest,
        *,
        desk: PoolDesk,
        launcher: WorkerLauncher,
        scheduler: str,
        host: str,
        security: Security,
        environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self.name = name
        self.stage = Stage.ASKING
        self.doc: LeaseDoc | None = None
        self.process: WorkerProcess | None = None
        #: Whether the pool was told last that it is busy; None when it has to be told.
        self.told_busy: bool | None = None
        #: When it last had tasks, by the loop's clock.
        self.busy_at = 0.0
        self._body = body
        self._desk = desk
        self._launcher = launcher
        self._scheduler = scheduler
        self._host = host
        self._security = security
        self._environment = environment
        self._refused = False
        self._lost = asyncio.Event()
        self._leave = asyncio.Event()

    def __repr__(self) -> str:
        return f"<LeasedWorker {self.name}: {self.stage.value}>"

    @property
    def lease_id(self) -> str:
        """The id of its lease; empty before the pool has answered."""
        return self.doc.id if self.doc is not None else ""

    @property
    def reason(self) -> str:
        """What it waits for, in words; empty when it does not."""
        return self.doc.reason if self.doc is not None and self.stage is Stage.WAITING else ""

    @property
    def share(self) -> str:
        """What it has, in words."""
        return share_of(self.doc) if self.doc is not None and self.doc.shares else ""

    def note(self, doc: LeaseDoc | None) -> None:
        """Take what the pool says of its lease now; None when it does not know it."""
        if doc is not None:
            self.doc = doc
        if is_over(doc):
            self._lost.set()

    def joined(self) -> None:
        """Note that the scheduler knows it."""
        if self.stage is Stage.STARTING:
            self._come(Stage.RUNNING)

    def leaving(self) -> None:
        """Note that it is not wanted any more, though it may have something to finish."""
        self._come(Stage.LEAVING)

    def leave(self) -> None:
        """Have it end now; `live` returns when it has."""
        self._leave.set()

    def kill(self) -> None:
        """End its process at once; waits for nothing."""
        if self.process is not None:
            self.process.kill()

    def _come(self, stage: Stage) -> None:
        if self.stage is not Stage.ENDED:
            self.stage = stage

    async def live(self) -> End:
        """Ask, wait, run, and leave nothing behind.

        Returns
        -------
        End
            How it ended, where that is no error.

        Raises
        ------
        GPUPoolError
            If it was refused, or never became a worker.
        """
        key = uuid.uuid4().hex
        life = asyncio.ensure_future(self._live(key))
        wanted = asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait({life, wanted}, return_when=asyncio.FIRST_COMPLETED)
            return life.result() if life.done() and not wanted.done() else End.WANTED
        finally:
            life.cancel()
            wanted.cancel()
            await asyncio.gather(life, wanted, return_exceptions=True)
            await self._clean_up(key)

    async def _clean_up(self, key: str) -> None:
        if self.process is not None:
            await self.process.end()
        over = self._refused or (self.doc is not None and self.doc.state is LeaseState.ENDED)
        if not over:  # where the answer was lost, the same key gives it again
            await self._desk.give_back(self._body, key, self.lease_id)
        self._come(Stage.ENDED)

    async def _live(self, key: str) -> End:
        try:
            self.doc = await self._desk.request(self._body, key)
        except GPUPoolError:
            self._refused = True
            raise
        doc, attach = await self._granted(self.doc)
        self._launcher.check(attach)
        self._come(Stage.STARTING)
        order = await self._order(doc, attach)
        self.process = await self._launcher.launch(order, self._environment())
        return await self._run(self.process)

    async def _granted(self, doc: LeaseDoc) -> tuple[LeaseDoc, AttachDoc]:
        """Wait for the lease."""
        while not is_over(doc):
            if doc.attach is not None:
                return doc, doc.attach
            if doc.state is LeaseState.QUEUED:
                self._come(Stage.WAITING)
            doc = self.doc = await self._desk.lease(doc)
        raise LeaseLost(f"The request of worker {self.name} ended: {why_ended(doc)}.")

    async def _order(self, doc: LeaseDoc, attach: AttachDoc) -> WorkerOrder:
        here = attach.hostname in ("", socket.gethostname())
        shape = shape_of(doc, await self._desk.devices(), machine_memory_bytes=MEMORY_LIMIT)
        return WorkerOrder(
            format=names.FORMAT,
            name=self.name,
            lease_id=doc.id,
            attach=attach,
            cuda=doc.kind is DeviceKind.CUDA,
            device_memory_bytes=doc.memory_bytes or 0,
            scheduler=self._scheduler,
            host=self._host if here else "",
            nthreads=shape.nthreads,
            memory_limit_bytes=shape.memory_limit_bytes,
            resources=shape.resources,
            certificate=self._security.tls_worker_cert or "",
            key=self._security.tls_worker_key or "",
            config=dask.config.serialize(dask.config.config),
            path=[str(Path.cwd() / place) for place in sys.path],  # an empty place is this directory
            parent=os.getpid() if here else 0,
        )

    async def _run(self, process: WorkerProcess) -> End:
        """Wait until the process ends, or the lease does."""
        ended = asyncio.ensure_future(process.wait())
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (ended, lost):
                waiting.cancel()
        if ended.done() and not ended.cancelled():
            if self.stage is not Stage.STARTING:
                return End.DIED
            said = process.last_words() or "It wrote nothing."
            raise WorkerFailed(f"Worker {self.name} ended before it joined (status {ended.result()}): {said}")
        if self.doc is None or self.doc.end_reason in _ANOTHER or self.doc.end_reason is None:
            return End.TAKEN
        raise LeaseLost(f"The lease of worker {self.name} ended: {why_ended(self.doc)}.")
