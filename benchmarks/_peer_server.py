"""The empty peers: an HTTP server that answers nothing of interest, and a unix socket that echoes a line.

Run as a script with the path of the socket and the file that gets the HTTP port: no system that answers over
HTTP, or attaches over a socket, can be quicker than these on the same machine at the same time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import tornado.httpserver
import tornado.netutil
import tornado.web

#: About as long as a lease in JSON.
_ANSWER = b'{"nothing": "' + b"x" * 900 + b'"}'


class Nothing(tornado.web.RequestHandler):
    """Answers every request with the same bytes."""

    def get(self) -> None:
        """Answer."""
        self.set_header("Content-Type", "application/json")
        self.finish(_ANSWER)

    post = get
    delete = get


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each line back."""
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def serve(socket_path: str, ready: Callable[[int], object]) -> None:
    """Listen until the process is ended; ``ready`` is told the HTTP port."""
    application = tornado.web.Application([(r"/.*", Nothing)], log_function=lambda _: None)
    listening = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(application).add_sockets(listening)
    async with await asyncio.start_unix_server(echo, socket_path) as unix:
        ready(listening[0].getsockname()[1])
        await unix.serve_forever()


def publish(port: int) -> None:
    """Write the port to its file, whole or not at all."""
    path = Path(sys.argv[2])
    draft = path.with_suffix(".draft")
    draft.write_text(str(port))
    draft.rename(path)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], publish))
