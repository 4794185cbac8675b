"""The HTTP API as an ASGI application: which handler answers what, and how errors are told.

Rules of this module: every answer that is not a success is an `ErrorDoc`; what is not an error of ours is a
bug, logged with the id that the answer has. The contract is openapi.yaml.
"""

from __future__ import annotations

import logging
import re
from time import perf_counter

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.names import API_PREFIX
from jupyter_gpupool.service import handlers_admin as admin
from jupyter_gpupool.service import handlers_leases as leases
from jupyter_gpupool.service import handlers_pool as pool
from jupyter_gpupool.service import handlers_processes as processes
from jupyter_gpupool.service import handlers_snapshots as snapshots
from jupyter_gpupool.service.auth import Forbidden, Scope
from jupyter_gpupool.service.errors import MethodNotAllowed, NotFound, answer_for
from jupyter_gpupool.service.logs import ACCESS, REQUEST_ID
from jupyter_gpupool.service.web import (
    ALWAYS,
    Answer,
    Context,
    Handler,
    Message,
    Receive,
    Request,
    Send,
    Stream,
    json_answer,
)

_log = logging.getLogger(__name__)
Methods = dict[str, Handler]

#: Handlers by path and method.
ROUTES: dict[str, Methods] = {
    f"{API_PREFIX}/leases": {
        "GET": leases.list_leases,
        "POST": leases.request_lease,
        "DELETE": leases.release_kernel,
    },
    f"{API_PREFIX}/leases/{{lease_id}}": {
        "GET": leases.get_lease,
        "PATCH": leases.resize_lease,
        "DELETE": leases.release_lease,
    },
    f"{API_PREFIX}/leases/{{lease_id}}/why": {"GET": leases.get_why},
    f"{API_PREFIX}/leases/{{lease_id}}/quiesce": {"POST": leases.quiesce_lease},
    f"{API_PREFIX}/leases/{{lease_id}}/activity": {"PUT": leases.put_activity},
    f"{API_PREFIX}/leases/{{lease_id}}/join": {"POST": leases.join_lease},
    f"{API_PREFIX}/leases/{{lease_id}}/move": {"POST": leases.move_lease},
    f"{API_PREFIX}/leases/{{lease_id}}/pin": {"POST": leases.pin_lease},
    f"{API_PREFIX}/leases/{{lease_id}}/unpin": {"POST": leases.unpin_lease},
    f"{API_PREFIX}/leases/{{lease_id}}/processes": {"POST": processes.start_process},
    f"{API_PREFIX}/leases/{{lease_id}}/processes/{{process_id}}": {
        "GET": processes.get_process,
        "DELETE": processes.signal_process,
    },
    f"{API_PREFIX}/leases/{{lease_id}}/end": {"POST": admin.end_lease},
    f"{API_PREFIX}/audit": {"GET": admin.get_audit},
    f"{API_PREFIX}/leases/quiesce": {"POST": leases.quiesce_kernel},
    f"{API_PREFIX}/pool": {"GET": pool.get_pool},
    f"{API_PREFIX}/devices": {"GET": pool.get_devices},
    f"{API_PREFIX}/nodes": {"GET": pool.get_nodes},
    f"{API_PREFIX}/nodes/{{name}}/drain": {"POST": admin.drain_node},
    f"{API_PREFIX}/nodes/{{name}}/undrain": {"POST": admin.undrain_node},
    f"{API_PREFIX}/queue": {"GET": pool.get_queue},
    f"{API_PREFIX}/proposals": {"GET": pool.get_proposals},
    f"{API_PREFIX}/usage": {"GET": pool.get_usage},
    f"{API_PREFIX}/usage/report": {"GET": pool.get_usage_report},
    f"{API_PREFIX}/snapshots": {"GET": snapshots.list_snapshots, "PUT": snapshots.report_snapshots},
    f"{API_PREFIX}/snapshots/key": {"GET": snapshots.get_key},
    f"{API_PREFIX}/events": {"GET": pool.get_events},
    f"{API_PREFIX}/openapi.yaml": {"GET": pool.get_contract},
    "/health": {"GET": pool.get_health},
    "/metrics": {"GET": pool.get_metrics},
}
#: What needs no token.
PUBLIC = frozenset({"/health", f"{API_PREFIX}/openapi.yaml"})
#: What needs another scope than its method says: reading needs READ, all else LEASE.
SCOPES = {
    "/metrics": Scope.REPORT,
    f"{API_PREFIX}/audit": Scope.ADMIN,
    f"{API_PREFIX}/proposals": Scope.ADMIN,
    f"{API_PREFIX}/leases/{{lease_id}}/end": Scope.ADMIN,
    f"{API_PREFIX}/nodes/{{name}}/drain": Scope.ADMIN,
    f"{API_PREFIX}/nodes/{{name}}/undrain": Scope.ADMIN,
    f"{API_PREFIX}/snapshots/key": Scope.LEASE,
}
#: What is known of a token for a moment is enough for these, though they change something.
HARMLESS = frozenset(
    {
        f"{API_PREFIX}/snapshots",
        f"{API_PREFIX}/leases/quiesce",
        f"{API_PREFIX}/leases/{{lease_id}}/quiesce",
        f"{API_PREFIX}/leases/{{lease_id}}/activity",
    }
)
_LEASE_PATH = re.compile(
    rf"({API_PREFIX}/leases/)([^/]{{1,200}})((?:/(?:why|quiesce|activity|join|move|pin|unpin|end|processes))?)"
)
_PROCESS_PATH = re.compile(rf"({API_PREFIX}/leases/)([^/]{{1,200}})/processes/([^/]{{1,200}})")
_NODE_PATH = re.compile(rf"({API_PREFIX}/nodes/)([^/]{{1,200}})(/drain|/undrain)")
_PORT = re.compile(r":\d{1,5}$")


class API:
    """The application.

    Parameters
    ----------
    context : Context
        The parts of the service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(self._context, scope, receive)
        REQUEST_ID.set(request.id)  # each request is answered in a task of its own
        began = perf_counter()
        self._context.activity.touch()
        try:
            answer = await self._answer(request)
        except GPUPoolError as error:
            answer = _told(request, error)
        except Exception:
            _log.exception("%s %s failed", request.method, printable(request.path))
            hint = f"Its log says more of request {request.id}."
            answer = _told(request, GPUPoolError("The pool made a mistake.", hint=hint))
        _note(request, answer, perf_counter() - began)
        await self._send(request, answer, send)

    async def _answer(self, request: Request) -> Answer | Stream:
        self._check_host(request.header(b"host") or "")
        route, arguments = _find(request.path)
        methods = ROUTES[route]
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(methods)
            raise MethodNotAllowed(f"{request.method} is not possible here.", hint=f"Use {allowed}.")
        if request.path not in PUBLIC:
            await self._admit(request, route)
        await request.read_body()
        return await handler(request, *arguments)

    async def _admit(self, request: Request, route: str) -> None:
        """See who asks, whether they may, and whether they ask too often."""
        reads = request.method == "GET"
        needed = SCOPES.get(route, Scope.READ if reads else Scope.LEASE)
        # giving back is always possible; asking for more, and reading as an administrator, is looked at anew
        settled = (reads or request.method == "DELETE" or route in HARMLESS) and needed is not Scope.ADMIN
        await request.identify(fresh=not settled)
        who = request.who
        who.require(needed)
        self._context.throttle.admit(who.owner)

    def _check_host(self, host: str) -> None:
        """Refuse other host names: a page whose name was made to resolve to loopback still sends it."""
        if _PORT.sub("", host.lower()).strip("[]") not in self._context.hosts:
            raise Forbidden("This host name is not served here.", hint="Use 127.0.0.1.")

    async def _send(self, request: Request, answer: Answer | Stream, send: Send) -> None:
        headers = [(b"content-type", answer.kind), *ALWAYS, (b"x-request-id", request.id.encode())]
        if isinstance(answer, Stream):
            self._context.metrics.answered(request.method, 200)
            with answer.place:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await request.while_connected(_pass_on(answer, send))
            return
        self._context.metrics.answered(request.method, answer.status)
        headers += [(b"content-length", b"%d" % len(answer.body)), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def _note(request: Request, answer: Answer | Stream, seconds: float) -> None:
    """Log one answer: never its query, headers or body."""
    if not ACCESS.isEnabledFor(logging.INFO):
        return
    status = 200 if isinstance(answer, Stream) else answer.status
    path = printable(request.path)
    fields = {
        "method": request.method,
        "path": path,
        "status": status,
        "milliseconds": round(seconds * 1000, 3),
        "owner": request.owner,
    }
    ACCESS.info("%s %s %d", request.method, path, status, extra={"fields": fields})


async def _pass_on(answer: Stream, send: Send) -> None:
    async for part in answer.parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _find(path: str) -> tuple[str, tuple[str, ...]]:
    """Find the route of a path, and the arguments in it."""
    if path in ROUTES and "{" not in path:
        return path, ()
    if process := _PROCESS_PATH.fullmatch(path):
        return f"{process[1]}{{lease_id}}/processes/{{process_id}}", (process[2], process[3])
    if node := _NODE_PATH.fullmatch(path):
        return f"{node[1]}{{name}}{node[3]}", (node[2],)
    match = _LEASE_PATH.fullmatch(path)
    if match is None:
        raise NotFound("There is nothing here.", hint="The paths are listed in openapi.yaml.")
    return f"{match[1]}{{lease_id}}{match[3]}", (match[2],)


def _told(request: Request, error: GPUPoolError) -> Answer:
    """Make the answer that tells of an error."""
    status, doc = answer_for(error)
    doc.request_id = request.id
    headers: list[tuple[bytes, bytes]] = []
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413):  # what is still to come of the body is waited for no longer
        headers.append((b"connection", b"close"))
    if status == 405:
        headers.append((b"allow", ", ".join(ROUTES[_find(request.path)[0]]).encode()))
    if doc.retry_after is not None:
        headers.append((b"retry-after", b"%.0f" % doc.retry_after))
    if status >= 500:
        _log.warning("%s %s: %s", request.method, printable(request.path), error)
    return json_answer(doc, status, *headers)
