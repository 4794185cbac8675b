"""The agent's end of the control plane: a Dask worker that is made anew whenever the pool service was lost.

Rules of this module: each connection begins with a hello that lists what lives, so reports that could not be
sent are dropped, not kept; a connection that broke is closed completely before the next is made.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_gpupool.cluster.control import TAKEN
from jupyter_gpupool.cluster.dask_config import control_config
from jupyter_gpupool.cluster.errors import LinkLost
from jupyter_gpupool.cluster.nodes import AgentWorker
from jupyter_gpupool.cluster.tls import ControlTLS
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.messages import DetachedReport, HelloReport, Order, Report

logger = logging.getLogger(__name__)

#: First and longest pause between two attempts to connect, seconds.
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
#: How often a lonely agent looks whether a new service wrote its file, seconds: one `stat`.
LOOK_SECONDS = 0.2
#: How long the service may take to take reports (its journal is on disk), seconds.
REPORT_SECONDS = 30.0
#: How long closing a broken connection may take, seconds.
CLOSE_SECONDS = 5.0

_Signature = tuple[int, int, int] | None


class AgentLink:
    """Keeps an agent connected to whatever service its runtime directory names.

    Parameters
    ----------
    runtime : Path
        The runtime directory, with ``pool.json`` and ``tls/``.
    node_id : str
        Who this is.
    hello : callable
        Makes the first report of a connection.
    on_orders : callable
        Takes orders; must not block or raise.
    host : str
        Where to listen for orders.
    """

    def __init__(
        self,
        *,
        runtime: Path,
        node_id: str,
        hello: Callable[[], HelloReport],
        on_orders: Callable[[list[Order]], None],
        host: str = "127.0.0.1",
    ) -> None:
        self._runtime = runtime
        self._node_id = node_id
        self._hello = hello
        self._on_orders = on_orders
        self._host = host
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
                seen = self._signature()
                address = self._address()
                began = time.monotonic()
                if address:
                    await self._try(address, seen)
                    pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > pause * 2 else pause
                await self._pause(seen, pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _try(self, address: str, seen: _Signature) -> None:
        """Live on one connection until it breaks; say why it did."""
        try:
            await self._live(address, seen)
        except (OSError, RuntimeError, ValueError, TimeoutError, GPUPoolError) as error:
            logger.info("No connection to the pool at %s: %s", address, error.__cause__ or error)

    async def _live(self, address: str, seen: _Signature) -> None:
        """Make a worker, join with it, report on it, and close it."""
        worker = AgentWorker(
            address,
            name=f"{self._node_id}-{uuid.uuid4().hex[:8]}",
            security=ControlTLS(self._runtime / names.TLS_DIR).security("worker"),
            host=self._host,
            scratch=self._runtime / "dask",
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

    async def _join(self, worker: AgentWorker, seen: _Signature) -> None:
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
        try:
            while not finished.done():
                self._wake.clear()
                batch, self._queue = self._queue, []
                if batch:
                    await self._deliver(worker, batch)
                    continue
                waiting = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait({waiting, finished}, return_when=asyncio.FIRST_COMPLETED)
                await _cancelled(waiting)
        finally:
            await _cancelled(finished)
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
        if answer != TAKEN:
            raise LinkLost(f"The pool service does not take reports ({answer}).")
        if not self.connected:
            self.connected = True
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

    def _address(self) -> str:
        """Read where the service is; empty when there is none that this version can join."""
        try:
            data = (self._runtime / names.POOL_FILE).read_bytes()
            file = codec.decode(data, RuntimeFile)
        except (OSError, codec.BadMessage):
            return ""
        return file.control if file.format == names.FORMAT else ""

    def _signature(self) -> _Signature:
        """Return what changes whenever a service writes its file anew."""
        try:
            status = (self._runtime / names.POOL_FILE).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    async def _changed(self, seen: _Signature) -> None:
        """Return when the service's file is another than it was."""
        while self._signature() == seen:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(LOOK_SECONDS)

    async def _pause(self, seen: _Signature, seconds: float) -> None:
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
