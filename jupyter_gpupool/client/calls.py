"""The HTTP API as values: what each call sends, shared by the synchronous and the asynchronous client.

Rule of this module: no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import quote, urlencode

from jupyter_gpupool.protocol.administration import DrainRequest
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import (
    ActivityRequest,
    JoinRequest,
    LeaseRequest,
    MoveRequest,
    ResizeRequest,
    SnapshotsReport,
)
from jupyter_gpupool.protocol.launches import LaunchRequest
from jupyter_gpupool.protocol.names import API_PREFIX

#: How long the service may take to answer a call that waits for nothing, seconds.
ANSWER_SECONDS = 15.0
#: How long opening a connection may take, seconds.
CONNECT_SECONDS = 3.0


class Source(Enum):
    """How a client came to know its pool."""

    #: It was passed in.
    ARGUMENT = "an argument"
    #: From ``JUPYTER_GPUPOOL_URL``.
    ENVIRONMENT = "the environment"
    #: From the runtime file of a running pool.
    RUNTIME_FILE = "the runtime file"
    #: From JupyterHub: the pool that it has, and this server's token.
    HUB = "JupyterHub"
    #: This client started the embedded pool.
    STARTED = "a pool that was started"


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """Where a pool is and how to prove who asks.

    Attributes
    ----------
    url : str
        Base URL without a trailing slash.
    token : str
        Bearer token; never shown by ``repr``.
    source : Source
        How it became known.
    owner : str
        Whose pool it is; empty when only the pool itself can tell.
    ca_file : str
        Who vouches for a pool on another machine; empty for the authorities of this machine.
    """

    url: str
    token: str = field(repr=False)
    source: Source = Source.ARGUMENT
    owner: str = ""
    ca_file: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every call."""
        return {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of the API.

    Attributes
    ----------
    method, path : str
        As HTTP has them; the path includes the query.
    body : bytes or None
        JSON.
    key : str
        Idempotency key; empty for none.
    wait_seconds : float
        How long the service may hold the answer back on purpose.
    """

    method: str
    path: str
    body: bytes | None = None
    key: str = ""
    wait_seconds: float = 0.0

    def headers(self, connection: Connection) -> dict[str, str]:
        """Return the headers for one connection."""
        headers = connection.headers
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Idempotency-Key"] = self.key
        return headers


def drain(node: str, body: DrainRequest) -> Call:
    """Take no new leases on a node; for administrators."""
    return Call(method="POST", path=f"{API_PREFIX}/nodes/{quote(node, safe='')}/drain", body=encode(body))


def undrain(node: str) -> Call:
    """Take leases on a node again; for administrators."""
    return Call(method="POST", path=f"{API_PREFIX}/nodes/{quote(node, safe='')}/undrain")


def get(what: str) -> Call:
    """Read ``pool``, ``devices``, ``nodes``, ``queue``, ``leases``, ``usage`` and so on."""
    return Call(method="GET", path=f"{API_PREFIX}/{what}")


def health() -> Call:
    """Ask whether the service lives."""
    return Call(method="GET", path="/health")


def _lease_path(lease_id: str, query: dict[str, str] | None = None) -> str:
    tail = f"?{urlencode(query)}" if query else ""
    return f"{API_PREFIX}/leases/{quote(lease_id, safe='')}{tail}"


def lease(lease_id: str, *, since: str | None = None, wait_seconds: float = 0.0) -> Call:
    """Read one lease; with ``since``, as soon as its tag is another, at most ``wait_seconds`` later."""
    query = {"since": since, "wait_seconds": f"{wait_seconds:g}"} if since is not None else None
    return Call(method="GET", path=_lease_path(lease_id, query), wait_seconds=wait_seconds)


def request(body: LeaseRequest, *, key: str) -> Call:
    """Ask for a lease."""
    # The service may wait for the agent to take the order before it answers.
    return Call(method="POST", path=f"{API_PREFIX}/leases", body=encode(body), key=key, wait_seconds=5.0)


def resize(lease_id: str, body: ResizeRequest) -> Call:
    """Ask for another size; the answer comes when the agent has done it or refused."""
    return Call(method="PATCH", path=_lease_path(lease_id), body=encode(body), wait_seconds=10.0)


def release(lease_id: str, *, reason: str = "") -> Call:
    """End a lease, or cancel a request."""
    query = {"reason": reason} if reason else None
    return Call(method="DELETE", path=_lease_path(lease_id, query), wait_seconds=5.0)


def release_kernel(kernel_id: str, *, reason: str) -> Call:
    """End every lease of a kernel."""
    query = urlencode({"kernel_id": kernel_id, "reason": reason})
    return Call(method="DELETE", path=f"{API_PREFIX}/leases?{query}", wait_seconds=5.0)


def why(lease_id: str) -> Call:
    """Ask why a lease is as it is."""
    return Call(method="GET", path=f"{_lease_path(lease_id)}/why")


def activity(lease_id: str, body: ActivityRequest) -> Call:
    """Tell what the holder of a lease does."""
    return Call(method="PUT", path=f"{_lease_path(lease_id)}/activity", body=encode(body))


def join(lease_id: str, body: JoinRequest) -> Call:
    """Ask for a ticket for a process that joins a lease on one of its nodes."""
    path = f"{_lease_path(lease_id)}/join"
    return Call(method="POST", path=path, body=encode(body), wait_seconds=5.0)


def move(lease_id: str, body: MoveRequest) -> Call:
    """Have a kernel's lease go on on another node, or ask where that would be."""
    return Call(method="POST", path=f"{_lease_path(lease_id)}/move", body=encode(body))


def pin(lease_id: str, *, pinned: bool) -> Call:
    """Have a lease not taken back, or let it be."""
    return Call(method="POST", path=f"{_lease_path(lease_id)}/{'pin' if pinned else 'unpin'}")


def quiesce(lease_id: str, pid: int = 0) -> Call:
    """Have it made safe to signal a lease's processes, or one and its children; at most 3 s later."""
    path = f"{_lease_path(lease_id)}/quiesce{f'?pid={pid}' if pid else ''}"
    return Call(method="POST", path=path, wait_seconds=3.0)


def quiesce_kernel(kernel_id: str) -> Call:
    """Have it made safe to signal the processes of every lease of a kernel."""
    query = urlencode({"kernel_id": kernel_id})
    return Call(method="POST", path=f"{API_PREFIX}/leases/quiesce?{query}", wait_seconds=3.0)


def launch(lease_id: str, body: LaunchRequest) -> Call:
    """Start a process on a lease's node."""
    path = f"{_lease_path(lease_id)}/processes"
    return Call(method="POST", path=path, body=encode(body), wait_seconds=5.0)


def process(lease_id: str, process_id: str, *, since: str | None = None, wait_seconds: float = 0.0) -> Call:
    """Read one process; with ``since``, as soon as its tag is another, at most ``wait_seconds`` later."""
    query = {"since": since, "wait_seconds": f"{wait_seconds:g}"} if since is not None else None
    path = _process_path(lease_id, process_id, query)
    return Call(method="GET", path=path, wait_seconds=wait_seconds)


def signal_process(lease_id: str, process_id: str, number: int) -> Call:
    """Send a signal to a process; 0 ends it."""
    path = _process_path(lease_id, process_id, {"signal": str(number)})
    return Call(method="DELETE", path=path, wait_seconds=5.0)


def _process_path(lease_id: str, process_id: str, query: dict[str, str] | None) -> str:
    tail = f"?{urlencode(query)}" if query else ""
    return f"{_lease_path(lease_id)}/processes/{quote(process_id, safe='')}{tail}"


def report_snapshots(body: SnapshotsReport) -> Call:
    """Tell which snapshots are in a store."""
    return Call(method="PUT", path=f"{API_PREFIX}/snapshots", body=encode(body))
