"""The agent's end of the control plane: a Dask worker that is made anew whenever the pool service was lost.

Rules of this module: each connection begins with a hello that lists what lives, so reports that could not be
sent are dropped, not kept; a connection that broke is closed completely before the next is made.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.cluster.control import REFUSED, TAKEN
from jupyter_gpupool.cluster.dask_config import control_config
from jupyter_gpupool.cluster.errors import LinkLost, LinkRefused
from jupyter_gpupool.cluster.nodes import AgentWorker
from jupyter_gpupool.cluster.whereabouts import Signature, Whereabouts
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.protocol.messages import DetachedReport, HelloReport, Order, Report

logger = logging.getLogger(__name__)

#: First and longest pause between two attempts to connect, seconds.
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
#: How often a lonely agent looks whether a new service wrote its file, seconds: one `stat`.
LOOK_SECONDS = 0.2
#: How long the service may take to take reports (its journal is on disk), seconds.
REPORT_SECONDS = 30.0
#: After how long without a connection that is told, seconds.
AWAY_SECONDS = 20.0
#: How long closing a broken connection may take, seconds.
CLOSE_SECONDS = 5.0


class AgentLink:
    """Keeps an agent connected to its pool service.

    Parameters
    ----------
    pool : Whereabouts
        Where the service is, and what to show there.
    node_id : str
        Who this is.
    hello : callable
        Makes the first report of a connection.
    on_orders : callable
        Takes orders; must not block or raise.
    host, port
        Where to listen for orders.
    """

    def __init__(
        self,
        *,
        pool: Whereabouts,
        node_id: str,
        hello: Callable[[], HelloReport],
        on_orders: Callable[[list[Order]], None],
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._pool = pool
        self._node_id = node_id
        self._hello = hello
        self._on_orders = on_orders
        self._host, self._port = host, port
        self._refusal = ""
        self._told = False
        self._queue: list[Report] | None = None
        self._delivering = False
        self._wake = asyncio.Event()
        #: True from the moment the service took the hello.
        self.connected = False
        self._alone_since = time.monotonic()

    @property
    def alone_seconds(self) -> float:
        """For how long there has been no connection; 0 while there is one."""
        return 0.0 if self.connected else time.monotonic() - self._alone_since

    def send(self, report: Report) -> None:
        """Queue a report; dropped when there is no connection, since the next hello tells what lives."""
        if self._queue is not None:
            self._queue.append(report)
            self._wake.set()

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        with control_config():
            pause = FIRST_PAUSE_SECONDS
            while True:
                seen = self._pool.signature()
                address = self._pool.address()
                began = time.monotonic()
                if address:
                    await self._try(address, seen)
                    pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > pause * 2 else pause
                apart = random.uniform(0.5, 1.0)  # noqa: S311 - so that not all agents come at once
                await self._pause(seen, pause * apart)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _try(self, address: str, seen: Signature) -> None:
        """Live on one connection until it breaks; say why it did."""
        try:
            await self._live(address, seen)
        except LinkRefused as error:
            if error.message != self._refusal:  # once is enough: it is tried again and again
                logger.error("%s The agent tries again.", error.message)
            self._refusal = error.message
        except (OSError, RuntimeError, ValueError, TimeoutError, GPUPoolError) as error:
            logger.info("No connection to the pool at %s: %s", address, error.__cause__ or error)
            self._mind_being_away(address, error.__cause__ or error)

    def _mind_being_away(self, address: str, cause: object) -> None:
        """Say once that there has been no connection for long."""
        if self._told or self.alone_seconds < AWAY_SECONDS:
            return
        self._told = True
        text = "There has been no connection to the pool at %s for %.0f s (%s). The agent goes on trying. %s"
        logger.warning(text, address, self.alone_seconds, cause, self._pool.away_hint)

    async def _live(self, address: str, seen: Signature) -> None:
        """Make a worker, join with it, report on it, and close it."""
        worker = AgentWorker(
            address,
            name=f"{self._node_id}-{uuid.uuid4().hex[:8]}",
            security=self._pool.tls.security("worker"),
            host=self._host,
            port=self._port,
            scratch=self._pool.scratch,
        )
        worker.serve("gpupool_orders", self._take)
        try:
            await self._join(worker, seen)
            await self._report(worker)
        finally:
            self._queue = None
            if self.connected:
                self.connected, self._alone_since = False, time.monotonic()
            await _close(worker)

    async def _join(self, worker: AgentWorker, seen: Signature) -> None:
        """Start the worker, unless another service appears meanwhile."""
        starting = asyncio.ensure_future(worker.start())
        changed = asyncio.ensure_future(self._changed(seen))
        try:
            await asyncio.wait({starting, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise LinkLost("Another pool service started.")
            await starting
        finally:
            await _cancelled(starting, changed)

    async def _report(self, worker: AgentWorker) -> None:
        """Send what is queued, in order, hello first, until the worker is closed.

        Raises
        ------
        LinkLost
            Always, in the end.
        """
        self._queue = [self._hello()]
        finished = asyncio.ensure_future(worker.finished())
        minded = asyncio.ensure_future(self._pool.mind(worker))
        try:
            while not finished.done() and not minded.done():
                self._wake.clear()
                batch, self._queue = self._queue, []
                if batch:
                    await self._deliver(worker, batch)
                    continue
                waiting = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait({waiting, finished, minded}, return_when=asyncio.FIRST_COMPLETED)
                await _cancelled(waiting)
            if minded.done():
                minded.result()
        finally:
            await _cancelled(finished, minded)
        raise LinkLost("The connection was closed.")

    async def _deliver(self, worker: AgentWorker, batch: list[Report]) -> None:
        """Send one batch and wait until the service took it."""
        self._delivering = True
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                answer = await worker.scheduler.gpupool_report(
                    worker=worker.contact_address, data=codec.encode(batch)
                )
        finally:
            self._delivering = False
        if isinstance(answer, str) and answer.startswith(REFUSED):
            raise LinkRefused(answer.removeprefix(REFUSED))
        if answer != TAKEN:
            raise LinkLost(f"The pool service does not take reports ({answer}).")
        if not self.connected:
            self.connected, self._refusal, self._told = True, "", False
            logger.info("Connected to the pool at %s", worker.scheduler.address)

    def _take(self, *, data: bytes) -> str | bytes:
        """Take orders; returns `TAKEN`, or the reports of what was done at once.

        It never raises, since Dask would send a pickle.
        """
        try:
            orders = codec.decode_orders(data)
        except codec.BadMessage as error:
            logger.warning("The pool service sent orders that cannot be read: %s", error)
            return "unreadable"
        waits = self._queue is None or bool(self._queue) or self._delivering
        self._on_orders(orders)
        reports = self._queue
        if waits or not reports or not all(isinstance(it, DetachedReport) for it in reports):
            return TAKEN
        # what is done already goes with the answer; nothing overtakes a report that was made before
        self._queue = []
        return codec.encode(reports)

    async def _changed(self, seen: Signature) -> None:
        """Return when the service's file is another than it was."""
        while self._pool.signature() == seen:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(LOOK_SECONDS)

    async def _pause(self, seen: Signature, seconds: float) -> None:
        """Wait, but not longer than until a new service appears."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed(seen)
        except TimeoutError:
            return


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    """Cancel what still runs and wait until it has ended; its outcome is of no interest."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


async def _close(worker: AgentWorker) -> None:
    """Close a worker completely; what cannot be closed is reported, not waited for."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await worker.close(timeout=2, executor_wait=False, nanny=False, reason="agent-link-closed")
    except TimeoutError:
        logger.warning("A connection to the pool could not be closed in %s s", CLOSE_SECONDS)
