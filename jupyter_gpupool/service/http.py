"""The door to uvicorn, which speaks HTTP for us.

Rule of this module: it serves sockets that are open already, and leaves signals and logging to the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: How long an idle connection is kept, seconds.
KEEP_SECONDS = 300
#: How long the head of a request may take to come, from the connection or its first byte on, seconds.
HEAD_SECONDS = 20.0
#: How long answers may take when the service ends, seconds.
END_SECONDS = 3


class _Corked:
    """A connection that sends together what is written in one round of the loop, as head and body are."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes | bytearray | memoryview] = []

    def __getattr__(self, name: str) -> Any:
        """Do all else as the connection does."""
        return getattr(self._transport, name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send soon."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Send what was written, and hang up."""
        self._flush()
        self._transport.close()


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which would send an answer in two parts, and wait for ever for a request's head."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send the parts together."""
        super().connection_made(cast(asyncio.Transport, _Corked(transport)))
        self._await_head()

    def on_message_begin(self) -> None:
        """Give a further request on the connection the same time as the first."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """Answer it; how long a body may take is the application's affair."""
        self._head_is_there()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._head_is_there()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _head_is_there(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Server(uvicorn.Server):
    """uvicorn's server, which would take the signals of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them."""
        yield


@contextlib.asynccontextmanager
async def serving(
    app: Callable[..., Awaitable[None]],
    sockets: Sequence[socket.socket],
    *,
    certificate: tuple[Path, Path] | None = None,
) -> AsyncIterator[None]:
    """Serve for the length of an ``async with`` block; with a certificate and its key it is HTTPS."""
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=END_SECONDS,
        ssl_certfile=certificate and str(certificate[0]),
        ssl_keyfile=certificate and str(certificate[1]),
    )
    server = _Server(config)
    running = asyncio.ensure_future(server.serve(list(sockets)))
    try:
        yield
    finally:
        server.should_exit = True
        await running
