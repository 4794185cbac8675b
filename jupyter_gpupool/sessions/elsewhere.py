"""Workers on other nodes: the pool starts their processes there.

Rule of this module: what a process is told goes through the pool in memory, to its standard input; nobody
there is a parent of it, so it ends with its scheduler, with its lease, or when it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.protocol.launches import OVER, LaunchDoc, LaunchRequest
from jupyter_gpupool.sessions.desk import PoolDesk
from jupyter_gpupool.sessions.launcher import LocalLauncher, WorkerProcess
from jupyter_gpupool.sessions.order import WorkerOrder

#: How long a process may take to end after it was told to, seconds.
END_SECONDS = 15.0
#: Variables that mean something on this machine only.
_OWN = frozenset({"PATH", "TMPDIR", "VIRTUAL_ENV", "JUPYTER_GPUPOOL_RUNTIME_DIR", "JUPYTER_GPUPOOL_DATA_DIR"})


class PoolLauncher:
    """Starts workers on the nodes of their leases: here as children, elsewhere through the pool.

    Parameters
    ----------
    desk : PoolDesk
        The pool.
    """

    def __init__(self, desk: PoolDesk) -> None:
        self._desk = desk
        self._local = LocalLauncher()

    def check(self, attach: AttachDoc) -> None:
        """Allow every node; whether it starts processes for this owner, its agent says."""

    async def launch(self, order: WorkerOrder, environment: Mapping[str, str]) -> WorkerProcess:
        """Start a process, and tell it what to do."""
        if order.parent:
            return await self._local.launch(order, environment)
        body = LaunchRequest(
            id=str(uuid.uuid4()),
            argv=["python", "-m", "jupyter_gpupool.sessions.worker"],
            env={name: value for name, value in environment.items() if name not in _OWN},
            stdin=encode(order).decode() + "\n",
        )
        return NodeWorker(self._desk, await self._desk.launch(order.lease_id, body))


class NodeWorker:
    """A process on another node."""

    def __init__(self, desk: PoolDesk, doc: LaunchDoc) -> None:
        self._desk = desk
        self._doc = doc
        self._killing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its number there; 0 before it runs."""
        return self._doc.pid or 0

    async def wait(self) -> int:
        """Wait for its end."""
        while self._doc.state not in OVER:
            news = await self._desk.process(self._doc)
            if news is None:
                break
            self._doc = news
        if self._doc.signal is not None:
            return -self._doc.signal
        return self._doc.status if self._doc.status is not None else 1

    async def end(self) -> None:
        """End it: asked first, then made to."""
        with contextlib.suppress(GPUPoolError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._desk.end_process(self._doc, 0)
                await self.wait()

    def kill(self) -> None:
        """End it at once; its lease's end does the same where this does not get through."""
        self._killing = asyncio.ensure_future(self._kill())

    async def _kill(self) -> None:
        with contextlib.suppress(GPUPoolError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._desk.end_process(self._doc, 9)

    def last_words(self) -> str:
        """Return the last line that it wrote, once it has ended."""
        return self._doc.words
