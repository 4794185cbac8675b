"""What every HTTP handler does the same way.

Rules of this module: a handler authenticates, decodes, makes one call and encodes; every answer that is not
a success is an `ErrorDoc`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from http.client import responses
from typing import Any, TypeVar

from tornado import httputil, web

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.service.activity import Activity
from jupyter_gpupool.service.auth import Authenticator, Forbidden, Principal
from jupyter_gpupool.service.desk import Desk
from jupyter_gpupool.service.errors import MethodNotAllowed, NotFound, TooLarge, answer_for
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.metrics import Metrics
from jupyter_gpupool.service.usage import Usage
from jupyter_gpupool.service.views import Views
from jupyter_gpupool.service.watch import Watch

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: Largest body of a request, bytes.
BODY_BYTES = 64 * 1024
#: Methods that a path may take.
_METHODS = ("GET", "POST", "PATCH", "DELETE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The parts of the service that handlers call."""

    auth: Authenticator
    desk: Desk
    host: PoolHost
    views: Views
    usage: Usage
    watch: Watch
    metrics: Metrics
    activity: Activity
    hosts: frozenset[str]
    #: Yields ids of requests.
    request_ids: Iterator[str]


class Handler(web.RequestHandler):
    """Base of all handlers."""

    def initialize(self, context: Context) -> None:
        """Take the parts of the service."""
        self.context = context
        self._request_id = next(context.request_ids)
        self.set_header("X-Request-Id", self._request_id)
        self._waiting: asyncio.Future[Any] | None = None

    def set_default_headers(self) -> None:
        """Mark every answer: JSON, and not to be kept."""
        headers = self._headers
        del headers["Server"]
        headers["Content-Type"] = "application/json"
        headers["Cache-Control"] = "no-store"
        headers["X-Content-Type-Options"] = "nosniff"

    def prepare(self) -> None:
        """Refuse requests that are meant for another host, or too large."""
        self.context.activity.touch()
        # a page of another site whose name was made to resolve to loopback still sends that name
        host = httputil.split_host_and_port(self.request.host.lower())[0].strip("[]")
        if host not in self.context.hosts:
            raise Forbidden("This host name is not served here.", hint="Use 127.0.0.1.")
        if len(self.request.body) > BODY_BYTES:
            raise TooLarge(f"This body has more than {BODY_BYTES} bytes.", hint="Send less.")

    def compute_etag(self) -> str | None:
        """Answer without one: nothing here is kept by clients."""
        return None

    @property
    def who(self) -> Principal:
        """The principal that sent this."""
        return self.context.auth.principal(self.request.headers.get("Authorization"))

    def answer(self, body: object, status: int = 200) -> None:
        """Send a document."""
        self.set_status(status)
        self.finish(codec.encode(body))

    async def while_connected(self, work: Awaitable[T]) -> T | None:
        """Wait for something, but no longer than the client does; None when that is gone."""
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        self._waiting = task
        try:
            with self.context.activity.open():
                return await task
        except asyncio.CancelledError:
            if task.cancelled():
                return None
            task.cancel()
            raise

    def on_connection_close(self) -> None:
        """Stop waiting for a client that is gone."""
        if self._waiting is not None:
            self._waiting.cancel()

    def log_exception(self, *error_info: Any) -> None:
        """Log what is a bug only."""
        error = error_info[1]
        if isinstance(error, GPUPoolError):
            if answer_for(error)[0] >= 500:
                _log.warning("%s %s %s: %s", self._request_id, self.request.method, self.request.path, error)
        elif not isinstance(error, web.HTTPError):
            where = (self._request_id, self.request.method, self.request.path)
            _log.error("%s %s %s failed", *where, exc_info=error_info)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Send an `ErrorDoc` for whatever was raised."""
        if self._headers_written:
            super().send_error(status_code, **kwargs)
            return
        error = kwargs.get("exc_info", (None, None, None))[1]
        status, doc = answer_for(self._as_ours(error, status_code))
        self.clear()
        self.set_header("X-Request-Id", self._request_id)
        if status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        if status == 405:
            self.set_header("Allow", ", ".join(self._allowed()))
        if doc.retry_after is not None:
            self.set_header("Retry-After", f"{doc.retry_after:.0f}")
        self.set_status(status, responses.get(status, "Unknown"))
        self.finish(codec.encode(doc))

    def _as_ours(self, error: BaseException | None, status: int) -> GPUPoolError:
        if isinstance(error, GPUPoolError):
            return error
        if status == 404:
            return NotFound("There is nothing here.", hint="The paths are listed in openapi.yaml.")
        if status == 405:
            allowed = ", ".join(self._allowed())
            return MethodNotAllowed(f"{self.request.method} is not possible here.", hint=f"Use {allowed}.")
        if 400 <= status < 500:
            return codec.BadMessage(f"This request cannot be read: {error}.")
        return GPUPoolError("The pool made a mistake.", hint="Its log says more; please report it.")

    def _allowed(self) -> list[str]:
        plain = web.RequestHandler._unimplemented_method
        return [name for name in _METHODS if getattr(type(self), name.lower()) is not plain]


class NotFoundHandler(Handler):
    """Answers for every path that is not there."""

    def prepare(self) -> None:
        """Say so, whatever the method."""
        super().prepare()
        raise NotFound("There is nothing here.", hint="The paths are listed in openapi.yaml.")
