"""Names that two processes must agree on: environment variables, versions, file names."""

from __future__ import annotations

#: Major version of the HTTP API; a client joins a service only if it is the same.
API_MAJOR = 1
#: Prefix of every HTTP path of the pool service.
API_PREFIX = f"/api/v{API_MAJOR}"
#: Format number of the runtime file, the agent's hello, and the holders' records.
FORMAT = 1

#: URL of the pool service; set for kernels by our provisioner, or by an administrator.
ENV_URL = "JUPYTER_GPUPOOL_URL"
#: Bearer token for it.
ENV_TOKEN = "JUPYTER_GPUPOOL_TOKEN"  # noqa: S105 - the name of a variable, not a secret
#: File with the certificate authority of a pool on another machine, whose API is HTTPS.
ENV_CA_FILE = "JUPYTER_GPUPOOL_CA_FILE"
#: URL of the pool of this JupyterHub, whose servers' own tokens it takes; set by `jupyter_gpupool.hub`.
ENV_HUB_URL = "JUPYTER_GPUPOOL_HUB_URL"
#: Variable in which JupyterHub gives a server (and so its kernels) the server's own token.
ENV_HUB_TOKEN = "JUPYTERHUB_API_TOKEN"  # noqa: S105 - the name of a variable, not a secret
#: Id of the lease that a restarted kernel attaches to again when its extension loads.
ENV_REATTACH = "JUPYTER_GPUPOOL_REATTACH"
#: A sentence that a kernel says with its first cell: what whoever started it wants its person to know.
ENV_SAY = "JUPYTER_GPUPOOL_SAY"
#: Set for a kernel that the pool has started on a node: it can be started on another one instead.
ENV_MOVABLE = "JUPYTER_GPUPOOL_MOVABLE"
#: Set for a kernel that has moved: it brings back what it had. "1" for its first process on its new node.
ENV_MOVED = "JUPYTER_GPUPOOL_MOVED"
#: Id of the lease that a process (or the parent that started it) is under; set with the lease's environment.
ENV_LEASE = "JUPYTER_GPUPOOL_LEASE"
#: Id of the lease that a server of JupyterHub has for all of its kernels; set by `jupyter_gpupool.hub`.
ENV_SERVER_LEASE = "JUPYTER_GPUPOOL_SERVER_LEASE"
#: What such a server tells its kernels of it (`SliceDoc`).
ENV_SLICE = "JUPYTER_GPUPOOL_SLICE"
#: "0" keeps every client from starting the embedded pool.
ENV_AUTOSTART = "JUPYTER_GPUPOOL_AUTOSTART"
#: Overrides the runtime directory (tokens, sockets, locks of one pool).
ENV_RUNTIME_DIR = "JUPYTER_GPUPOOL_RUNTIME_DIR"
#: Overrides the data directory (journal).
ENV_DATA_DIR = "JUPYTER_GPUPOOL_DATA_DIR"
#: Where snapshots are kept: an address of fsspec (``s3://bucket/path``); empty for the data directory.
ENV_STORE = "JUPYTER_GPUPOOL_STORE"
#: When kernels save their state by themselves, as ``%gpupool autosave`` takes it.
ENV_AUTOSAVE = "JUPYTER_GPUPOOL_AUTOSAVE"
#: Address on which the scheduler of a session cluster listens, where workers on other nodes are to reach it.
ENV_SESSION_HOST = "JUPYTER_GPUPOOL_SESSION_HOST"
#: Overrides the directory of the machine-wide device locks; for tests and containers.
ENV_LOCK_DIR = "JUPYTER_GPUPOOL_LOCK_DIR"

#: In the runtime directory: where the service is (`RuntimeFile`).
POOL_FILE = "pool.json"
#: In the runtime directory: the owner's token of the embedded pool.
TOKEN_FILE = "token"  # noqa: S105 - the name of a file
#: In the runtime directory: held (flock) by the one service.
SERVICE_LOCK = "service.lock"
#: In the runtime directory: held (flock) by the one agent.
AGENT_LOCK = "agent.lock"
#: In the socket directory: where holders show their tickets.
AGENT_SOCKET = "agent.sock"
#: In the runtime directory: keys and certificates of the control plane.
TLS_DIR = "tls"
#: In the runtime directory: one record for each holder, by which the next agent adopts them.
HOLDERS_DIR = "holders"
#: In the runtime directory: one record for each process that the agent started.
PROCESSES_DIR = "processes"
#: In the runtime directory: what those processes write.
OUTPUTS_DIR = "outputs"
#: In the runtime directory: logs of the detached processes.
LOGS_DIR = "logs"

#: Longest path of a unix socket that Linux takes, bytes (108 with the final zero).
MAX_SOCKET_PATH = 107


def origin(scheme: str, host: str, port: int) -> str:
    """Return the address of a server as a URL; an IPv6 address in brackets."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
