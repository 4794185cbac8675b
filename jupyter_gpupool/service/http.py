"""The door to uvicorn, which speaks HTTP for us.

Rule of this module: it serves sockets that are open already, and leaves signals and logging to the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence

import uvicorn

from jupyter_gpupool.service.api import API

#: How long an idle connection is kept, seconds.
KEEP_SECONDS = 300
#: How long answers may take when the service ends, seconds.
END_SECONDS = 3


class _Server(uvicorn.Server):
    """uvicorn's server, which would take the signals of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them."""
        yield


@contextlib.asynccontextmanager
async def serving(api: API, sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Serve for the length of an ``async with`` block."""
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    config = uvicorn.Config(
        api,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = _Server(config)
    running = asyncio.ensure_future(server.serve(list(sockets)))
    try:
        yield
    finally:
        server.should_exit = True
        await running
