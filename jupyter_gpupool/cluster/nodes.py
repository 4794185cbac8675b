"""Dask's two servers with everything taken away that a control plane does not need.

Rules of this module: handlers are kept by name, never dropped by name, so that a new version of Dask adds
nothing; every handler asks for the role of the peer's certificate; no HTTP server is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from distributed import Scheduler, Worker

from jupyter_gpupool.cluster.tls import ControlRole, Peer, read_peer

Handlers = dict[str, Callable[..., Any]]

#: Timers of Dask that serve scheduling or diagnostics.
_NEEDLESS_TIMERS = ("find-missing", "idle-timeout", "monitor", "no-workers-timeout", "tick", "ticks")
#: How often an agent says that it lives, seconds. A broken connection is noticed at once without it.
HEARTBEAT_SECONDS = 2.0
#: How long an agent waits for a scheduler to take it, seconds.
START_SECONDS = 30.0


def _ignore(**_: Any) -> None:
    """Take a message that means nothing here."""


class Guard:
    """Lets peers of one role call, by default the nodes of the pool, and nobody else.

    Parameters
    ----------
    passes : callable
        Tells whether a node's certificate counts still; by default all of the authority's do.
    denied : callable
        Told of who was turned away.
    role : ControlRole
        Who may call.
    """

    def __init__(
        self,
        passes: Callable[[Peer], bool] = lambda _: True,
        denied: Callable[[Peer], None] = lambda _: None,
        role: ControlRole = ControlRole.AGENT,
    ) -> None:
        self._role = role
        self._passes = passes
        self._denied = denied

    def over(self, handler: Callable[..., Any], *, wants: str = "") -> Callable[..., Any]:
        """Return a handler that asks first; it gets the comm, or the peer, where it ``wants`` that."""

        async def guarded(comm: Any, **message: Any) -> Any:
            peer = read_peer(comm.extra_info.get("peercert"))
            if peer.role is not self._role or not self._passes(peer):
                comm.abort()
                self._denied(peer)
                return None
            given = {"comm": comm, "peer": peer}
            message.update({wants: given[wants]} if wants else {})
            result = handler(**message)
            return await result if isinstance(result, Awaitable) else result

        return guarded


def _strip(server: Any, handlers: dict[str, Callable[..., Any]], streams: Handlers) -> None:
    """Leave a Dask server these handlers only, and only the timers that membership needs."""
    server.handlers.clear()
    server.handlers.update(handlers)
    server.stream_handlers.clear()
    server.stream_handlers.update(streams)
    for name in _NEEDLESS_TIMERS:
        server.periodic_callbacks.pop(name, None)


class ControlScheduler(Scheduler):  # type: ignore[misc]
    """A Dask scheduler that knows its workers, and schedules nothing.

    Parameters
    ----------
    security : distributed.Security
        Mutual TLS.
    host, port
        Where it listens.
    worker_ttl_seconds : float
        How long a worker may be silent on an open connection.
    scratch : Path
        A private directory that Dask asks for.
    guard : Guard, optional
        Who may call.
    """

    def __init__(
        self,
        *,
        security: Any,
        host: str,
        port: int,
        worker_ttl_seconds: float,
        scratch: Path,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard or Guard()
        super().__init__(
            protocol="tls",
            security=security,
            host=host,
            port=port,
            dashboard=False,
            extensions={},
            worker_ttl=worker_ttl_seconds,
            local_directory=str(scratch),
            needs_workdir=False,
        )
        over = self._guard.over
        _strip(
            self,
            {
                "register-worker": over(self.add_worker, wants="comm"),
                "heartbeat_worker": over(self.heartbeat_worker),
                "unregister": over(self.remove_worker),
            },
            {
                "keep-alive": _ignore,
                "log-event": _ignore,
                "worker-status-change": self.handle_worker_status_change,
            },
        )

    def serve(self, name: str, handler: Callable[..., Any]) -> None:
        """Let agents call ``handler`` by this name; it is told who calls as ``peer``."""
        self.handlers[name] = self._guard.over(handler, wants="peer")

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none: Dask's has no authentication and binds all interfaces by default."""


class AgentWorker(Worker):  # type: ignore[misc]
    """A Dask worker that is a member, and runs no task.

    Parameters
    ----------
    scheduler : str
        Address of the control plane.
    name : str
        Its name among the members; must be new.
    security : distributed.Security
        Mutual TLS.
    host, port
        Where it listens for orders.
    scratch : Path
        A private directory that Dask asks for.
    """

    def __init__(
        self, scheduler: str, *, name: str, security: Any, host: str, scratch: Path, port: int = 0
    ) -> None:
        super().__init__(
            scheduler,
            name=name,
            security=security,
            host=host,
            port=port,
            nthreads=1,
            executor="offload",
            memory_limit=0,
            extensions={},
            metrics={},
            startup_information={},
            dashboard=False,
            death_timeout=START_SECONDS,
            deserialize=False,
            heartbeat_interval=HEARTBEAT_SECONDS,
            local_directory=str(scratch),
            needs_workdir=False,
        )
        _strip(
            self,
            {},
            {
                "close": self.close,
                "remove-worker": _ignore,
                "worker-status-change": self.handle_worker_status_change,
            },
        )

    def serve(self, name: str, handler: Callable[..., Any]) -> None:
        """Let the pool service call ``handler`` by this name."""
        self.handlers[name] = Guard(role=ControlRole.SERVICE).over(handler)

    async def heartbeat(self) -> None:
        """Say that this agent lives; the scheduler would have it more often than is needed."""
        await super().heartbeat()
        self.periodic_callbacks["heartbeat"].callback_time = HEARTBEAT_SECONDS * 1000

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""
