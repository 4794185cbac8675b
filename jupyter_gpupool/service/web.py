"""One HTTP exchange: what handlers are given, and what they give back.

Rules of this module: plain values; whatever a client can get wrong is an error that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.service.activity import Activity
from jupyter_gpupool.service.audit import AuditLog
from jupyter_gpupool.service.auth import Identity, Principal, Unauthenticated
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.desk import Desk
from jupyter_gpupool.service.errors import TooLarge, TooSlow
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.logs import good_id
from jupyter_gpupool.service.maintenance import Maintenance
from jupyter_gpupool.service.measured import Measured
from jupyter_gpupool.service.metrics import Metrics
from jupyter_gpupool.service.moves import Mover
from jupyter_gpupool.service.processes import Processes
from jupyter_gpupool.service.rule_files import RuleFiles
from jupyter_gpupool.service.snapshots import SnapshotIndex
from jupyter_gpupool.service.throttle import Throttle
from jupyter_gpupool.service.usage import Usage
from jupyter_gpupool.service.views import Views
from jupyter_gpupool.service.watch import Watch

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

#: Largest body of a request, bytes.
BODY_BYTES = 64 * 1024
#: How much of a body that is too long is still read, so that its sender hears why, bytes.
WASTE_BYTES = 4 * 1024 * 1024
#: How long a client may take to send a body, seconds.
BODY_SECONDS = 20.0
#: On every answer: nothing is to be kept by clients, or taken for something else.
ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


async def read_capped(receive: Receive, most_bytes: int) -> tuple[bytes, int]:
    """Read a body; return it, or only the beginning of one that is longer, and how long it is at least."""
    parts, size, more = [], 0, True
    while more and size <= WASTE_BYTES:
        message = await receive()
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        if size <= most_bytes:
            parts.append(part)
    return b"".join(parts), size


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The parts of the service that handlers call."""

    auth: Identity
    desk: Desk
    processes: Processes
    mover: Mover
    host: PoolHost
    views: Views
    usage: Usage
    snapshots: SnapshotIndex
    watch: Watch
    metrics: Metrics
    measured: Measured
    activity: Activity
    throttle: Throttle
    audit: AuditLog
    maintenance: Maintenance
    rules: RuleFiles
    clock: PoolClock
    #: Names that requests may have in their Host header.
    hosts: frozenset[str]
    #: Yields ids of requests.
    request_ids: Iterator[str]


class Request:
    """What a client sent.

    Attributes
    ----------
    context : Context
        The parts of the service.
    id : str
        By which it is found in the log: the client's ``X-Request-ID``, or one that is made.
    method, path : str
        As HTTP has them; the path is decoded.
    body : bytes
        At most `BODY_BYTES`.
    """

    __slots__ = (
        *("_headers", "_query", "_receive", "_refusal", "_who"),
        *("body", "context", "id", "method", "path"),
    )

    def __init__(self, context: Context, scope: Message, receive: Receive) -> None:
        self.context = context
        self.id = good_id(self._told_id(scope)) or next(context.request_ids)
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.body = b""
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._query: bytes = scope["query_string"]
        self._receive = receive
        self._who: Principal | None = None
        self._refusal: GPUPoolError = Unauthenticated("Nobody has looked at this request's token yet.")

    @staticmethod
    def _told_id(scope: Message) -> str | None:
        told = [value for name, value in scope["headers"] if name == b"x-request-id"]
        return told[0].decode("latin-1") if len(told) == 1 else None

    def header(self, name: bytes) -> str | None:
        """Return a header by its name in small letters; None when it was not sent."""
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def query(self, name: str) -> str | None:
        """Return a field of the query; None when it is not there.

        Raises
        ------
        BadMessage
            If the query is not UTF-8.
        """
        if not self._query:
            return None
        try:
            fields = parse_qsl(self._query.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise codec.BadMessage(f"This query cannot be read: {error}.") from error
        return dict(fields).get(name)

    @property
    def who(self) -> Principal:
        """The principal that sent this.

        Raises
        ------
        GPUPoolError
            If there is none: the token was not good, or nobody can tell now.
        """
        if self._who is None:
            raise self._refusal
        return self._who

    @property
    def owner(self) -> str:
        """Who sent this, for the log; empty when it is nobody."""
        return self._who.owner if self._who is not None else ""

    async def identify(self, *, fresh: bool) -> Principal | None:
        """Find out who sent this; None, for what needs no token, when that is nobody."""
        try:
            self._who = await self.context.auth.identify(self.header(b"authorization"), fresh=fresh)
        except GPUPoolError as error:
            self._who, self._refusal = None, error
        return self._who

    async def read_body(self) -> None:
        """Read the body.

        Raises
        ------
        TooLarge
            If it is longer than any request needs.
        TooSlow
            If it does not come in time.
        """
        try:
            async with asyncio.timeout(BODY_SECONDS):
                self.body, size = await read_capped(self._receive, BODY_BYTES)
        except TimeoutError:
            raise TooSlow(
                f"This body did not come within {BODY_SECONDS:g} s.", hint="Send it anew."
            ) from None
        if size > BODY_BYTES:
            raise TooLarge(f"This body has more than {BODY_BYTES} bytes.", hint="Send less.")

    async def gone(self) -> None:
        """Return when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something, but no longer than the client does; None when that is gone."""
        working, gone = asyncio.ensure_future(work), asyncio.ensure_future(self.gone())
        try:
            with self.context.activity.open():
                await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back.

    Attributes
    ----------
    body : bytes
        As it is sent.
    status : int
        HTTP status.
    kind : bytes
        Content type.
    headers : tuple of (bytes, bytes)
        Further headers.
    """

    body: bytes
    status: int = 200
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on until the client hangs up, or the service ends; then its place is free again."""

    parts: AsyncIterator[bytes] = field(repr=False)
    place: ExitStack = field(repr=False, default_factory=ExitStack)
    kind: bytes = b"text/event-stream"


def json_answer(doc: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    """Make the answer with a document."""
    return Answer(codec.encode(doc), status, headers=headers)


#: A handler; further arguments are parts of the path.
Handler = Callable[..., Awaitable[Answer | Stream]]
