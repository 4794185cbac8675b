"""The empty peer of many tabs: a server that sends the same text to every socket once a second, and no more.

Run as a script with the file of that text and the file that gets the port: no server that tells as many tabs
as much can cost less than this one, written with the same library.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
import tornado.websocket

SOCKETS: set[Tab] = set()


class Tab(tornado.websocket.WebSocketHandler):
    """One tab."""

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Be told from now on."""
        SOCKETS.add(self)

    def on_close(self) -> None:
        """Be told no more."""
        SOCKETS.discard(self)


async def serve(text: str, port_file: Path) -> None:
    """Tell everybody once a second, until the process is ended."""
    listening = tornado.netutil.bind_sockets(0, "127.0.0.1")
    application = tornado.web.Application([(r"/.*", Tab)], log_function=lambda _: None)
    tornado.httpserver.HTTPServer(application).add_sockets(listening)
    draft = port_file.with_suffix(".draft")
    draft.write_text(str(listening[0].getsockname()[1]))
    draft.rename(port_file)
    while True:
        await asyncio.sleep(1)
        for tab in list(SOCKETS):
            await tab.write_message(text)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]).read_text(), Path(sys.argv[2])))
