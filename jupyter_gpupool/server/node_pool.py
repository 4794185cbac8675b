"""The pool, as one kernel that runs on a node is seen through it: its lease, and its process.

Rules of this module: a question is sent anew when the pool was away, which ends nothing on a node; one long
poll follows a process, and whoever asks how it is gets the last answer at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import PoolRefused, PoolUnreachable
from jupyter_gpupool.core.errors import GPUPoolError, UnknownLease
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.launches import OVER, LaunchDoc, LaunchRequest, ProcessState

T = TypeVar("T")

#: Longest single poll, seconds.
POLL_SECONDS = 25.0
#: Pause before a pool that was away is asked again, seconds; it doubles up to the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 1.0
#: What the pool answers while it, or the node, is on its way back.
_PASSING = frozenset({"agent_away", "stopping", "journal_unavailable"})
_OVER = (LeaseState.ENDING, LeaseState.ENDED)


class KernelPool:
    """The pool, asked in the name of one kernel.

    Parameters
    ----------
    connect : callable
        Returns the connection, with the kernel's own token; it may be another one each time.
    nudge : callable
        Has the pool looked for, when it does not answer.
    """

    def __init__(self, connect: Callable[[], Connection], nudge: Callable[[], None]) -> None:
        self._connect = connect
        self._nudge = nudge
        self._client: AsyncPoolClient | None = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def _ask(self, call: Callable[[AsyncPoolClient], Awaitable[T]]) -> T:
        """Send a call until the pool answers."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await call(self._present())
            except PoolUnreachable:
                self.close()  # the next client goes where the pool is then
                self._nudge()
            except PoolRefused as error:
                if error.code not in _PASSING:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _present(self) -> AsyncPoolClient:
        if self._client is None:
            self._client = AsyncPoolClient(self._connect())
        return self._client

    # --- the lease ------------------------------------------------------------------------------

    async def request(self, body: LeaseRequest) -> LeaseDoc:
        """Ask for a lease, once."""
        key = uuid.uuid4().hex
        return await self._ask(lambda client: client.request(body, key=key))

    async def news_of(self, doc: LeaseDoc) -> LeaseDoc:
        """Wait for news of a lease."""
        return await self._ask(lambda it: it.lease(doc.id, since=doc.tag, wait_seconds=POLL_SECONDS))

    async def waiting_lease(self, lease_id: str) -> LeaseDoc | None:
        """Return a lease once it waits for its holder; None when it is over, or unknown."""
        try:
            doc = await self._ask(lambda client: client.lease(lease_id))
            while doc.state is not LeaseState.ATTACHING:
                if doc.state in _OVER:
                    return None
                doc = await self.news_of(doc)
        except UnknownLease:
            return None
        return doc

    async def give_back(self, lease_id: str) -> None:
        """End a lease; nothing when it is over."""
        with contextlib.suppress(UnknownLease):
            await self._ask(lambda client: client.release(lease_id))

    # --- the process ----------------------------------------------------------------------------

    async def launch(self, lease_id: str, body: LaunchRequest) -> LaunchDoc:
        """Have a process started."""
        return await self._ask(lambda client: client.launch(lease_id, body))

    async def process(self, doc: LaunchDoc) -> LaunchDoc | None:
        """Wait for news of a process; None when nobody knows it any more."""
        try:
            return await self._ask(
                lambda it: it.process(doc.lease_id, doc.id, since=doc.tag, wait_seconds=POLL_SECONDS)
            )
        except UnknownLease:
            return None
        except PoolRefused as error:
            if error.code == "not_found":
                return None
            raise

    async def signal(self, doc: LaunchDoc, number: int) -> None:
        """Send a signal to a process; nothing when nobody knows it any more."""
        try:
            await self._ask(lambda client: client.signal_process(doc.lease_id, doc.id, number))
        except UnknownLease:
            return
        except PoolRefused as error:
            if error.code != "not_found":
                raise


class NodeProcess:
    """A process on a node, followed until its end.

    Parameters
    ----------
    pool : KernelPool
        Asked how it is.
    doc : LaunchDoc
        What the pool said first.
    log : logging.Logger
        Where faults go.
    """

    def __init__(self, pool: KernelPool, doc: LaunchDoc, *, log: logging.Logger) -> None:
        self.doc = doc
        self._pool = pool
        self._log = log
        self._changed = asyncio.Event()
        self._following = asyncio.get_running_loop().create_task(self._follow(), name="gpupool process")

    @property
    def status(self) -> int | None:
        """Its exit status as `subprocess` has it; None while it lives. What nobody knows counts as 1."""
        if self.doc.state not in OVER:
            return None
        if self.doc.signal is not None:
            return -self.doc.signal
        return self.doc.status if self.doc.status is not None else 1

    async def until(self, done: Callable[[LaunchDoc], bool]) -> LaunchDoc:
        """Wait until what is known of it is as wanted, or it is over."""
        while not done(self.doc) and self.doc.state not in OVER:
            self._changed.clear()
            await self._changed.wait()
        return self.doc

    async def close(self) -> None:
        """Stop following it; it runs on."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        while self.doc.state not in OVER:
            try:
                news = await self._pool.process(self.doc)
            except GPUPoolError as error:
                self._log.warning("jupyter_gpupool: process %s cannot be followed: %s", self.doc.id, error)
                news = None
            except Exception:  # a kernel must not seem to live because of a defect of ours
                self._log.exception("jupyter_gpupool: process %s cannot be followed.", self.doc.id)
                news = None
            if news is None:
                self.doc.state, self.doc.words = ProcessState.LOST, "The pool knows nothing of it any more."
            else:
                self.doc = news
            self._changed.set()
