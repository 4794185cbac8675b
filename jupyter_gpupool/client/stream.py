"""Server-sent events: the parser, and the one connection that carries them.

Rules of this module: the connection belongs to whoever iterates, and its socket is closed when the iteration
ends for whatever reason; silence for longer than the service's heartbeat counts as a broken stream.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from tornado import httputil
from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.iostream import IOStream, StreamClosedError
from tornado.tcpclient import TCPClient

from jupyter_gpupool.client.calls import CONNECT_SECONDS, Connection
from jupyter_gpupool.client.errors import PoolUnreachable, from_answer
from jupyter_gpupool.protocol.names import API_PREFIX

T = TypeVar("T")

#: The service sends at least a comment every 15 s; after this many seconds of silence the stream is broken.
SILENCE_SECONDS = 40.0
#: Largest event that is accepted, bytes.
_EVENT_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event.

    Attributes
    ----------
    name, id, data : str
        Its fields; several ``data`` lines are joined by newlines.
    """

    name: str
    id: str
    data: str


class EventParser:
    """Turns the bytes of a stream into events, however they were cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Take bytes; yield the events that they complete."""
        self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", errors="replace")
            if line:
                self._take(line)
            elif (event := self._dispatch()) is not None:
                yield event

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name:
            self._fields.setdefault(name, []).append(value.removeprefix(" "))

    def _dispatch(self) -> ServerEvent | None:
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        name, identity = fields.get("event", ["message"])[-1], fields.get("id", [""])[-1]
        return ServerEvent(name, identity, "\n".join(fields["data"]))


class _Answer(httputil.HTTPMessageDelegate):
    """Passes what arrives to a queue; None marks the end."""

    def __init__(self) -> None:
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    def headers_received(
        self,
        start_line: httputil.RequestStartLine | httputil.ResponseStartLine,
        headers: httputil.HTTPHeaders,
    ) -> None:
        if isinstance(start_line, httputil.ResponseStartLine) and not self.started.done():
            self.started.set_result(start_line.code)

    def data_received(self, chunk: bytes) -> None:
        self.chunks.put_nowait(chunk)

    def finish(self) -> None:
        self._end()

    def on_connection_close(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self.started.done():
            self.started.set_result(0)
        self.chunks.put_nowait(None)


async def server_events(connection: Connection) -> AsyncGenerator[ServerEvent, None]:
    """Subscribe to the events of a pool.

    Raises
    ------
    PoolUnreachable
        When the stream cannot be opened, breaks, or falls silent.
    NotAuthorised, PoolRefused
        When the service does not give it.
    """
    stream = await _open(connection)
    reader: asyncio.Task[bool] | None = None
    try:
        http = HTTP1Connection(stream, True, HTTP1ConnectionParameters(max_body_size=2**62))
        answer = _Answer()
        await _send(http, connection)
        reader = asyncio.ensure_future(http.read_response(answer))
        async for event in _read(answer, connection):
            yield event
    except StreamClosedError as error:
        raise _broken(connection, "closed the event stream") from error
    finally:
        stream.close()
        if reader is not None:
            await asyncio.gather(reader, return_exceptions=True)


async def _open(connection: Connection) -> IOStream:
    """Connect the socket of a stream."""
    parts = urlsplit(connection.url)
    secure = parts.scheme == "https"
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await TCPClient().connect(
                parts.hostname or "",
                parts.port or (443 if secure else 80),
                ssl_options=ssl.create_default_context(cafile=connection.ca_file or None) if secure else None,
                max_buffer_size=_EVENT_BYTES,
            )
    except (OSError, TimeoutError, StreamClosedError) as error:
        raise _broken(connection, "does not accept connections") from error


async def _send(http: HTTP1Connection, connection: Connection) -> None:
    """Send the request."""
    parts = urlsplit(connection.url)
    headers = httputil.HTTPHeaders(connection.headers | {"Host": parts.netloc, "Accept": "text/event-stream"})
    path = f"{parts.path}{API_PREFIX}/events"
    await http.write_headers(httputil.RequestStartLine("GET", path, "HTTP/1.1"), headers)
    http.finish()


async def _read(answer: _Answer, connection: Connection) -> AsyncIterator[ServerEvent]:
    """Turn what arrives into events."""
    status = await _bounded(answer.started, connection)
    if status != 200:
        body = await _next_chunk(answer, connection) if status else None
        raise from_answer(status, body or b"") if status else _broken(connection, "closed the event stream")
    parser = EventParser()
    while (chunk := await _next_chunk(answer, connection)) is not None:
        for event in parser.feed(chunk):
            yield event
    raise _broken(connection, "ended the event stream")


async def _next_chunk(answer: _Answer, connection: Connection) -> bytes | None:
    """Wait for the next bytes, but not for ever."""
    return await _bounded(answer.chunks.get(), connection)


async def _bounded(waiting: Awaitable[T], connection: Connection) -> T:
    try:
        # Not wait_for: before Python 3.12 a cancellation is lost there when what it waits for comes with it.
        async with asyncio.timeout(SILENCE_SECONDS):
            return await waiting
    except TimeoutError as error:
        raise _broken(connection, f"has been silent for {SILENCE_SECONDS:.0f} s") from error


def _broken(connection: Connection, what: str) -> PoolUnreachable:
    return PoolUnreachable(f"The pool at {connection.url} {what}.", hint="See `jupyter gpupool status`.")
