"""The pool's API for the browser: an allow-list, with the server's authentication and authorisation.

Rules of this module: every method is authenticated, then authorised; nothing that the pool answers is
interpreted here, except that a ticket never reaches a browser; no request counts as activity.
"""

from __future__ import annotations

import os
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from jupyter_gpupool.client import calls
from jupyter_gpupool.client.calls import Call
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.codec import decode, encode
from jupyter_gpupool.protocol.documents import ErrorDoc, LeaseDoc, ResizeRequest, SnapshotDoc
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts

#: What a user must be allowed to "read" to see the pool.
POOL_RESOURCE = "jupyter_gpupool:pool"
#: What a user must be allowed to "read" and "write" to see and change leases.
LEASES_RESOURCE = "jupyter_gpupool:leases"
#: What a user must be allowed to "read" to see which snapshots there are.
SNAPSHOTS_RESOURCE = "jupyter_gpupool:snapshots"

#: Code of the error envelope where the refusal is the server's own, not the pool's.
_CODES = {
    HTTPStatus.BAD_REQUEST: "bad_message",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
}


class PoolHandler(APIHandler):
    """What all handlers of the pool's API share."""

    _track_activity = False
    auth_resource = POOL_RESOURCE

    @property
    def parts(self) -> ServerParts:
        """The extension's parts."""
        return cast("ServerParts", self.settings[PARTS_KEY])

    async def ask(self, call: Call) -> tuple[int, bytes]:
        """Ask the pool; an answer that is not one becomes an envelope."""
        try:
            status, body = await self.parts.link.client().exchange(call)
        except PoolUnreachable as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, envelope(error)
        # To a browser, 401 speaks of its own login; here the pool refuses the server's token.
        return (HTTPStatus.BAD_GATEWAY if status == HTTPStatus.UNAUTHORIZED else status), body

    async def answer(self, status: int, body: bytes) -> None:
        """Answer with JSON."""
        self.set_status(status)
        await self.finish(body)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer a refusal of the server itself with the same envelope as the pool's."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        known = error.log_message if isinstance(error, web.HTTPError) else None
        message = known or f"{HTTPStatus(status_code).phrase}."
        self.set_status(status_code)
        self.finish(encode(ErrorDoc(code=_CODES.get(HTTPStatus(status_code), "internal"), message=message)))


class PoolReadHandler(PoolHandler):
    """``GET pool | devices | nodes | queue | usage``."""

    @web.authenticated
    @authorized
    async def get(self, what: str) -> None:
        """Read something of the pool."""
        status, body = await self.ask(calls.get(what))
        await self.answer(status, body)


class LeasesHandler(PoolHandler):
    """``GET leases``."""

    auth_resource = LEASES_RESOURCE

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Read the live leases."""
        status, body = await self.ask(calls.get("leases"))
        await self.answer(status, _without_ticket(status, body, list[LeaseDoc]))


class LeaseHandler(PoolHandler):
    """``GET | PATCH | DELETE leases/{id}``."""

    auth_resource = LEASES_RESOURCE

    @web.authenticated
    @authorized
    async def get(self, lease_id: str) -> None:
        """Read one lease."""
        status, body = await self.ask(calls.lease(lease_id))
        await self.answer(status, _without_ticket(status, body, LeaseDoc))

    @web.authenticated
    @authorized
    async def patch(self, lease_id: str) -> None:
        """Ask for another size."""
        try:
            wanted = decode(self.request.body, ResizeRequest)
        except GPUPoolError as error:
            await self.answer(HTTPStatus.BAD_REQUEST, envelope(error))
            return
        status, body = await self.ask(calls.resize(lease_id, wanted))
        await self.answer(status, _without_ticket(status, body, LeaseDoc))

    @web.authenticated
    @authorized
    async def delete(self, lease_id: str) -> None:
        """End a lease, or cancel a request (``?reason=cancelled``)."""
        call = calls.release(lease_id, reason=self.get_query_argument("reason", ""))
        status, body = await self.ask(call)
        await self.answer(status, _without_ticket(status, body, LeaseDoc))


class LeaseWhyHandler(PoolHandler):
    """``GET leases/{id}/why``."""

    auth_resource = LEASES_RESOURCE

    @web.authenticated
    @authorized
    async def get(self, lease_id: str) -> None:
        """Read why a lease is as it is."""
        status, body = await self.ask(calls.why(lease_id))
        await self.answer(status, body)


class LeasePinHandler(PoolHandler):
    """``POST leases/{id}/pin | unpin``."""

    auth_resource = LEASES_RESOURCE

    @web.authenticated
    @authorized
    async def post(self, lease_id: str, verb: str) -> None:
        """Have a lease not taken back, or let it be."""
        status, body = await self.ask(calls.pin(lease_id, pinned=verb == "pin"))
        await self.answer(status, _without_ticket(status, body, LeaseDoc))


class HistoryHandler(PoolHandler):
    """``GET history``: what this server remembers of the pool; the pool is not asked."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Read the pool's last hours."""
        await self.answer(HTTPStatus.OK, encode(self.parts.link.history.doc()))


class SnapshotsHandler(PoolHandler):
    """``GET snapshots?path=PATH``."""

    auth_resource = SNAPSHOTS_RESOURCE

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Read which snapshots there are of a notebook, newest first; without ``path``, of all."""
        status, body = await self.ask(calls.get("snapshots"))
        path = self.get_query_argument("path", "")
        await self.answer(status, _of_notebook(status, body, self.kernel_sees(path)) if path else body)

    def kernel_sees(self, path: str) -> str:
        """Return a notebook's path as its kernel is told it."""
        folder = self.settings["kernel_manager"].cwd_for_path(path)
        return os.path.join(folder, PurePosixPath(path).name)  # noqa: PTH118 - as Jupyter Server joins it


def _of_notebook(status: int, body: bytes, notebook: str) -> bytes:
    """Keep the snapshots of one notebook; a refusal stays as it is."""
    if status >= HTTPStatus.BAD_REQUEST:
        return body
    return encode([doc for doc in decode(body, list[SnapshotDoc]) if doc.notebook == notebook])


def envelope(error: GPUPoolError) -> bytes:
    """Encode an error as the pool's service does."""
    return encode(ErrorDoc(code=error.code, message=error.message, hint=error.hint))


def _without_ticket(status: int, body: bytes, kind: Any) -> bytes:
    """Take the ticket out of a lease, or of each of a list; a refusal stays as it is."""
    if status >= HTTPStatus.BAD_REQUEST:
        return body
    doc = decode(body, kind)
    if isinstance(doc, list):
        return encode([msgspec.structs.replace(lease, attach=None) for lease in doc])
    return encode(msgspec.structs.replace(doc, attach=None))
