"""What a session cluster asks of the pool.

Rules of this module: nothing blocks the cluster's loop; a pool that is away is looked for again, and every
call is sent anew when it is back, so that a restart of the service is no news to anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import PoolRefused, PoolUnreachable
from jupyter_gpupool.core.errors import GPUPoolError, UnknownLease
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import DeviceDoc, LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.launches import LaunchDoc, LaunchRequest
from jupyter_gpupool.sessions.shape import MOST_WORKERS

T = TypeVar("T")

#: Longest single poll of a lease, seconds.
POLL_SECONDS = 20.0
#: Pause before a pool that is away is looked for again, seconds; it doubles up to the longest.
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
#: For how long a lease that is given back is asked about, seconds.
GIVE_BACK_SECONDS = 10.0
_OVER = (LeaseState.ENDING, LeaseState.ENDED)


class PoolDesk:
    """The pool, as the workers of one session cluster see it.

    Parameters
    ----------
    connection : Connection
        Where the pool was last.
    find : callable
        Finds it anew; blocking.
    """

    def __init__(self, connection: Connection, find: Callable[[], Connection]) -> None:
        self._find = find
        self._client = _client(connection)
        self._finding = asyncio.Lock()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    async def _ask(self, call: Callable[[AsyncPoolClient], Awaitable[T]]) -> T:
        """Send a call until the pool answers."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            client = self._client
            try:
                return await call(client)
            except PoolUnreachable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                await self._look_again(client)

    async def _look_again(self, failed: AsyncPoolClient) -> None:
        """Look where the pool is now; one look serves all who wait."""
        async with self._finding:
            if self._client is not failed:
                return
            try:
                found = await asyncio.to_thread(self._find)
            except (GPUPoolError, OSError):
                return
            # The calls that are under way on the other one have their own time limits.
            self._client = _client(found)

    async def request(self, body: LeaseRequest, key: str) -> LeaseDoc:
        """Ask for a lease; the same ``key`` never makes a second one."""
        return await self._ask(lambda client: client.request(body, key=key))

    async def lease(self, doc: LeaseDoc) -> LeaseDoc:
        """Wait for news of a lease."""
        return await self._ask(lambda it: it.lease(doc.id, since=doc.tag, wait_seconds=POLL_SECONDS))

    async def leases(self) -> dict[str, LeaseDoc]:
        """Read the live leases by id."""
        return {doc.id: doc for doc in await self._ask(lambda client: client.leases())}

    async def last_word(self, doc: LeaseDoc) -> LeaseDoc | None:
        """Read a lease that may have ended; None when the pool does not know it any more."""
        try:
            return await self._ask(lambda client: client.lease(doc.id))
        except UnknownLease:
            return None

    async def devices(self) -> list[DeviceDoc]:
        """Read the devices."""
        return await self._ask(lambda client: client.devices())

    async def launch(self, lease_id: str, body: LaunchRequest) -> LaunchDoc:
        """Have a process started on a lease's node; the same id never starts a second one."""
        return await self._ask(lambda client: client.launch(lease_id, body))

    async def process(self, doc: LaunchDoc) -> LaunchDoc | None:
        """Wait for news of a process; None when nobody knows it any more."""
        try:
            return await self._ask(
                lambda it: it.process(doc.lease_id, doc.id, since=doc.tag, wait_seconds=POLL_SECONDS)
            )
        except PoolRefused as error:
            if error.code == "not_found":
                return None
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)  # the pool, or the node, is on its way back
            return doc
        except UnknownLease:
            return None

    async def end_process(self, doc: LaunchDoc, number: int) -> None:
        """Send a signal to a process; 0 ends it."""
        await self._ask(lambda client: client.signal_process(doc.lease_id, doc.id, number))

    async def tell_activity(self, lease_id: str, *, busy: bool, idle_seconds: float) -> None:
        """Tell what a worker does; a lease that has ended meanwhile does nothing."""
        with contextlib.suppress(UnknownLease):
            await self._ask(lambda it: it.activity(lease_id, busy=busy, idle_seconds=idle_seconds))

    async def give_back(self, body: LeaseRequest, key: str, lease_id: str) -> None:
        """End a lease, or a request whose answer may have been lost, and wait until it has ended; bounded."""
        with contextlib.suppress(GPUPoolError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                lease_id = lease_id or (await self.request(body, key)).id
                doc = await self._ask(lambda client: client.release(lease_id))
                while doc.state is not LeaseState.ENDED:
                    doc = await self.lease(doc)


def _client(connection: Connection) -> AsyncPoolClient:
    return AsyncPoolClient(connection, calls_at_once=2 * MOST_WORKERS)


def is_over(doc: LeaseDoc | None) -> bool:
    """Tell whether a lease has ended, or is about to; one that the pool does not know has."""
    return doc is None or doc.state in _OVER
