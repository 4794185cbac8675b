"""The live channel of one browser tab: a WebSocket that only ever speaks.

Rules of this module: authenticated, authorised and its origin checked before it opens; a slow tab gets the
newest message of each kind when it can take one, and never a backlog; a tab that comes back says which
message it had last (``after``); it does not count as activity.

It asks for "read", where kernels' channels ask for "execute": nothing can be done through it.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_gpupool.server.handlers import POOL_RESOURCE
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts

#: How often a tab is asked whether it lives, and how long it may take to answer, seconds.
PING_SECONDS = 30.0
#: Status with which the server closes the socket when it stops ("going away").
GOING_AWAY = 1001


class PoolStream(WebSocketMixin, JupyterHandler, WebSocketHandler):
    """``GET stream``: status, snapshots and kernels, as they change."""

    auth_resource = POOL_RESOURCE
    _writer: asyncio.Task[None] | None = None

    @property
    def parts(self) -> ServerParts:
        """The extension's parts."""
        return cast("ServerParts", self.settings[PARTS_KEY])

    @property
    def max_message_size(self) -> int:
        """The browser has nothing to say."""
        return 1024

    # The pings are tornado's, in seconds. The mixin's own count milliseconds under the same names, so that
    # with both of them tornado would take its 30 000 ms for eight hours.
    @property
    def ping_interval(self) -> float:
        """How often the tab is asked whether it lives, seconds."""
        return float(self.settings.get("websocket_ping_interval") or PING_SECONDS)

    @property
    def ping_timeout(self) -> float:
        """How long it may take to answer, seconds."""
        return self.ping_interval

    async def pre_get(self) -> None:
        """Authorise: the decorator of ``get`` only authenticates."""
        allowed = self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)
        if not await ensure_async(allowed):
            raise web.HTTPError(403, f"User is not authorized to read on resource: {self.auth_resource}.")

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the socket."""
        await self.pre_get()
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Start speaking."""
        self._waiting: dict[str, str] = {}
        self._more = asyncio.Event()
        self._writer = asyncio.get_running_loop().create_task(self._write())
        self.parts.sockets.add(self)
        self.parts.feed.listen(self._take, after=self.get_query_argument("after", ""))
        self.parts.link.nudge()

    def on_message(self, message: str | bytes) -> None:
        """Ignore what a browser says."""

    def on_close(self) -> None:
        """Stop speaking."""
        self.parts.feed.unlisten(self._take)
        self.parts.sockets.discard(self)
        if self._writer is not None:
            self._writer.cancel()
        super().on_close()

    def _take(self, kind: str, text: str) -> None:
        """Keep the newest message of a kind until the socket takes it, in the order of their marks."""
        self._waiting.pop(kind, None)
        self._waiting[kind] = text
        self._more.set()

    async def _write(self) -> None:
        """Send what waits, one message at a time, each when the one before is on its way."""
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                while self._waiting:
                    await self.write_message(self._waiting.pop(next(iter(self._waiting))))
        except WebSocketClosedError:
            return  # on_close follows, or has been called
