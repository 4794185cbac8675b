"""A Hub in name only, for many users: whoever shows ``token-of-NAME`` is NAME, with the scopes of a user.

Run as a script with the file that gets its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import tornado.httpserver
import tornado.netutil
import tornado.web

SCOPES = ["access:services!service=gpupool", "custom:gpupool:read", "custom:gpupool:lease"]
PREFIX = "token token-of-"


class Who(tornado.web.RequestHandler):
    """Says whose token it is."""

    def get(self) -> None:
        """Answer."""
        shown = self.request.headers.get("Authorization", "")
        if not shown.startswith(PREFIX):
            self.set_status(403)
            return
        self.finish(json.dumps({"kind": "user", "name": shown.removeprefix(PREFIX), "scopes": SCOPES}))


async def serve(port_file: Path) -> None:
    """Listen until the process is ended."""
    application = tornado.web.Application([(r"/hub/api/user", Who)], log_function=lambda _: None)
    doors = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(application).add_sockets(doors)
    draft = port_file.with_suffix(".draft")
    draft.write_text(str(doors[0].getsockname()[1]))
    draft.rename(port_file)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
