"""What is launched when a process is asked for: its words, its variables, and the files that it finds.

Rules of this module: no I/O; nothing secret is in the words or the variables, it is in files that only the
process's own account can read. Of the agent nothing is handed on but how the node reaches the pool.
"""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.cluster import launching_start
from jupyter_gpupool.cluster.launched import CA_FILE, connection_name, connection_text
from jupyter_gpupool.cluster.launchers.base import LaunchSpec
from jupyter_gpupool.cluster.whereabouts import PoolAPI
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.launches import KernelConnection, StartOrder

_LOOPBACK = "127.0.0.1"
_VERSION = sys.version_info
#: Names that mean the Python of this agent, as they mean that of the server to a Jupyter server.
PYTHONS = frozenset({"python", f"python{_VERSION[0]}", f"python{_VERSION[0]}.{_VERSION[1]}"})
#: What is said with the first cell of a kernel that can be overheard.
_OVERHEARD = (
    "This kernel runs on node {node}, and the network up to there can read what you send and see: its"
    " connection is not encrypted. The log of the Jupyter server says why."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How a process is launched.

    Attributes
    ----------
    spec : LaunchSpec
        For the launcher.
    directory : str
        The process's own directory; empty when it has none.
    connection_file : str
        Name of a kernel's connection file there; empty for other processes.
    """

    spec: LaunchSpec
    directory: str
    connection_file: str


def planned(order: StartOrder, *, pool: PoolAPI, address: str, node: str) -> Plan:
    """Say how a process is launched.

    Parameters
    ----------
    order : StartOrder
        What is asked for.
    pool : PoolAPI
        How this node reaches the pool.
    address : str
        Where kernels of this node listen.
    node : str
        Its name, for people.
    """
    directory = str(Path(tempfile.gettempdir()) / f"jupyter_gpupool-{uuid.uuid4().hex}")
    files: dict[str, str] = {}
    env = {**order.env, **_reach(pool, directory)}
    if can_be_overheard(order.connection, address):
        env[names.ENV_SAY] = f"{env.get(names.ENV_SAY, '')} {_OVERHEARD.format(node=node)}".strip()
    if address != _LOOPBACK:
        env.setdefault(names.ENV_SESSION_HOST, address)
    if pool.ca:
        files[CA_FILE] = pool.ca
    argv = [sys.executable, *order.argv[1:]] if order.argv[0] in PYTHONS else list(order.argv)
    name = ""
    if order.connection is not None:
        name = connection_name(order.connection)
        files[name] = connection_text(order.connection, address)
        argv = [word.replace("{connection_file}", f"{directory}/{name}") for word in argv]
    head = json.dumps(
        {"directory": directory, "files": files, "argv": argv, "cwd": order.cwd, "node": node}
    ).encode()
    spec = LaunchSpec(
        owner=order.owner,
        argv=(sys.executable, "-I", "-S", "-B", launching_start.__file__),
        env=env,
        stdin=len(head).to_bytes(launching_start.LENGTH_BYTES, "big") + head + order.stdin.encode(),
    )
    return Plan(spec=spec, directory=directory if files else "", connection_file=name)


def can_be_overheard(connection: KernelConnection | None, address: str) -> bool:
    """Tell whether the network can read what a kernel and its server say to each other."""
    return connection is not None and not connection.curve_publickey and address != _LOOPBACK


def _reach(pool: PoolAPI, directory: str) -> dict[str, str]:
    """Return the variables by which a process finds the pool from here."""
    reach = {names.ENV_URL: pool.url, names.ENV_CA_FILE: f"{directory}/{CA_FILE}" if pool.ca else ""}
    return {name: value for name, value in reach.items() if value}
