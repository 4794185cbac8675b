"""The asynchronous client, for servers that run on tornado's loop.

Rules of this module: nothing blocks the loop; it never looks for a pool or starts one (whoever owns it finds
the connection in a thread, and makes a new client for a new connection).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpupool.client import calls
from jupyter_gpupool.client.calls import Call, Connection
from jupyter_gpupool.client.errors import PoolUnreachable, from_answer
from jupyter_gpupool.client.stream import server_events
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import (
    ActivityRequest,
    AttachDoc,
    DeviceDoc,
    HealthDoc,
    JoinRequest,
    LeaseDoc,
    LeaseRequest,
    MovedDoc,
    MoveRequest,
    NodeDoc,
    PoolDoc,
    ProposalDoc,
    QueueEntryDoc,
    QuiescedDoc,
    ResizeRequest,
    UsageDoc,
    WhyDoc,
)
from jupyter_gpupool.protocol.launches import LaunchDoc, LaunchRequest

T = TypeVar("T")

#: How many calls one client has under way at most; a long poll occupies one.
CALLS_AT_ONCE = 32


class AsyncPoolClient:
    """The HTTP API of one pool, asynchronously.

    Parameters
    ----------
    connection : Connection
        Where the pool is.
    answer_seconds : float
        How long an answer may take beyond what the call itself waits for.
    calls_at_once : int
        How many calls are under way at most; a long poll occupies one.

    Notes
    -----
    Refusals are raised as the errors of `jupyter_gpupool.core.errors` and `jupyter_gpupool.client.errors`; a
    pool that does not answer is `PoolUnreachable`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        answer_seconds: float = calls.ANSWER_SECONDS,
        calls_at_once: int = CALLS_AT_ONCE,
    ) -> None:
        self.connection = connection
        self._answer_seconds = answer_seconds
        self._trusted: ssl.SSLContext | None = None
        self._http: AsyncHTTPClient = SimpleAsyncHTTPClient(force_instance=True, max_clients=calls_at_once)

    def close(self) -> None:
        """Close the client; calls under way fail."""
        self._http.close()

    async def exchange(self, call: Call) -> tuple[int, bytes]:
        """Send a call; return status and body just as the pool sent them.

        Raises
        ------
        PoolUnreachable
            If it does not answer.
        """
        try:
            request = HTTPRequest(
                self.connection.url + call.path,
                method=call.method,
                headers=call.headers(self.connection),
                body=call.body,
                allow_nonstandard_methods=True,
                follow_redirects=False,
                ssl_options=self._trust(),
                connect_timeout=calls.CONNECT_SECONDS,
                request_timeout=self._answer_seconds + call.wait_seconds,
            )
            answer = await self._http.fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:  # the latter for what is no answer at all
            raise self._unreachable() from error
        if answer.code == 599:
            raise self._unreachable() from answer.error
        return answer.code, answer.body

    def _trust(self) -> ssl.SSLContext | None:
        """Return whom to trust, read once; None for whom this machine trusts."""
        if self._trusted is None and self.connection.ca_file:
            self._trusted = ssl.create_default_context(cafile=self.connection.ca_file)
        return self._trusted

    def _unreachable(self) -> PoolUnreachable:
        return PoolUnreachable(
            f"The pool at {self.connection.url} (from {self.connection.source.value}) does not answer.",
            hint="See `jupyter gpupool status`.",
        )

    async def _ask(self, call: Call, kind: type[T]) -> T:
        """Send a call and decode its answer."""
        status, body = await self.exchange(call)
        if status >= 400:
            raise from_answer(status, body)
        return decode(body, kind)

    async def health(self) -> HealthDoc:
        """Ask whether the service lives."""
        return await self._ask(calls.health(), HealthDoc)

    async def pool(self) -> PoolDoc:
        """Read the snapshot of the pool."""
        return await self._ask(calls.get("pool"), PoolDoc)

    async def devices(self) -> list[DeviceDoc]:
        """Read the devices."""
        return await self._ask(calls.get("devices"), list[DeviceDoc])

    async def nodes(self) -> list[NodeDoc]:
        """Read the nodes."""
        return await self._ask(calls.get("nodes"), list[NodeDoc])

    async def queue(self) -> list[QueueEntryDoc]:
        """Read the queue."""
        return await self._ask(calls.get("queue"), list[QueueEntryDoc])

    async def leases(self) -> list[LeaseDoc]:
        """Read the live leases."""
        return await self._ask(calls.get("leases"), list[LeaseDoc])

    async def proposals(self) -> list[ProposalDoc]:
        """Read what would have to move for requests to fit; for administrators."""
        return await self._ask(calls.get("proposals"), list[ProposalDoc])

    async def usage(self) -> list[UsageDoc]:
        """Read what each owner has used."""
        return await self._ask(calls.get("usage"), list[UsageDoc])

    async def lease(self, lease_id: str, *, since: str | None = None, wait_seconds: float = 0.0) -> LeaseDoc:
        """Read one lease; with ``since``, as soon as its tag is another, ``wait_seconds`` later at most."""
        return await self._ask(calls.lease(lease_id, since=since, wait_seconds=wait_seconds), LeaseDoc)

    async def request(self, body: LeaseRequest, *, key: str) -> LeaseDoc:
        """Ask for a lease; the same ``key`` never makes a second one."""
        return await self._ask(calls.request(body, key=key), LeaseDoc)

    async def activity(self, lease_id: str, *, busy: bool, idle_seconds: float = 0.0) -> LeaseDoc:
        """Tell what the holder of a lease does."""
        body = ActivityRequest(busy=busy, idle_seconds=idle_seconds)
        return await self._ask(calls.activity(lease_id, body), LeaseDoc)

    async def why(self, lease_id: str) -> WhyDoc:
        """Ask why a lease is as it is: who is in its way, and for how long, probably."""
        return await self._ask(calls.why(lease_id), WhyDoc)

    async def resize(self, lease_id: str, body: ResizeRequest) -> LeaseDoc:
        """Ask for another size; returns when the agent has put it in force."""
        return await self._ask(calls.resize(lease_id, body), LeaseDoc)

    async def release(self, lease_id: str, *, reason: str = "") -> LeaseDoc:
        """End a lease, or cancel a request; doing it twice is harmless."""
        return await self._ask(calls.release(lease_id, reason=reason), LeaseDoc)

    async def release_kernel(self, kernel_id: str, *, reason: str) -> None:
        """End every lease of a kernel."""
        status, body = await self.exchange(calls.release_kernel(kernel_id, reason=reason))
        if status >= 400:
            raise from_answer(status, body)

    async def join(self, lease_id: str, node: str) -> AttachDoc:
        """Ask for a ticket for a process that joins a lease on one of its nodes (its id, or its name)."""
        return await self._ask(calls.join(lease_id, JoinRequest(node_id=node)), AttachDoc)

    async def move(self, lease_id: str, body: MoveRequest) -> MovedDoc:
        """Have a kernel's lease go on on another node, where its kernel is started again; or ask where."""
        return await self._ask(calls.move(lease_id, body), MovedDoc)

    async def pin(self, lease_id: str, *, pinned: bool = True) -> LeaseDoc:
        """Have a lease not taken back, as far as the quota allows, or let it be."""
        return await self._ask(calls.pin(lease_id, pinned=pinned), LeaseDoc)

    async def quiesce(self, lease_id: str, *, pid: int = 0) -> QuiescedDoc:
        """Have it made safe to signal a lease's processes (with ``pid`` that one and its children only)."""
        return await self._ask(calls.quiesce(lease_id, pid), QuiescedDoc)

    async def quiesce_kernel(self, kernel_id: str) -> QuiescedDoc:
        """Have it made safe to signal the processes of every lease of a kernel."""
        return await self._ask(calls.quiesce_kernel(kernel_id), QuiescedDoc)

    async def launch(self, lease_id: str, body: LaunchRequest) -> LaunchDoc:
        """Start a process on a lease's node; the same id never starts a second one."""
        return await self._ask(calls.launch(lease_id, body), LaunchDoc)

    async def process(
        self, lease_id: str, process_id: str, *, since: str | None = None, wait_seconds: float = 0.0
    ) -> LaunchDoc:
        """Read one process; with ``since``, as soon as its tag is another, ``wait_seconds`` later at most."""
        call = calls.process(lease_id, process_id, since=since, wait_seconds=wait_seconds)
        return await self._ask(call, LaunchDoc)

    async def signal_process(self, lease_id: str, process_id: str, number: int = 0) -> LaunchDoc:
        """Send a signal to a process; 0 ends it: asked first, then made to."""
        return await self._ask(calls.signal_process(lease_id, process_id, number), LaunchDoc)

    async def events(self) -> AsyncGenerator[PoolDoc, None]:
        """Follow the snapshots of the pool; each newer than the one before.

        The socket closes when the iteration ends, is cancelled, or is closed by ``aclose``.

        Raises
        ------
        PoolUnreachable
            When the stream breaks or falls silent.
        """
        async with aclosing(server_events(self.connection)) as stream:
            async for event in stream:
                if event.name == "pool":
                    yield decode(event.data, PoolDoc)
