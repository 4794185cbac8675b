"""Records of processes that agents start, by which the next agent takes them over.

Rule of this module: a record has no secrets.
"""

from __future__ import annotations

import json
import os
import re
import shutil

import msgspec

from jupyter_gpupool.cluster.launchers.base import LaunchRecord
from jupyter_gpupool.cluster.records import RecordBook
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.launches import KernelConnection, KernelPorts

#: Name of the pool's authority in a process's own directory.
CA_FILE = "pool-ca.pem"
#: Largest connection file that is read, bytes.
_MOST_BYTES = 65536


class LaunchedRecord(msgspec.Struct, kw_only=True):
    """A process that was started for a lease.

    Attributes
    ----------
    format : int
        Format number of this file.
    lease_id, generation, process_id
        What it is for, and its name.
    directory : str
        Its own directory on this node; empty when it has none.
    connection_file : str
        Name of the file there in which a kernel says where it listens; empty for other processes.
    ports : KernelPorts or None
        That, as soon as it is known.
    launch : LaunchRecord
        The process.
    """

    format: int = names.FORMAT
    lease_id: str
    generation: int
    process_id: str
    directory: str
    connection_file: str
    ports: KernelPorts | None = None
    launch: LaunchRecord


class LaunchedBook(RecordBook[LaunchedRecord]):
    """The processes that one agent has started, by their names."""

    kind = LaunchedRecord
    key = "process_id"
    ids = re.compile(r"[A-Za-z0-9_-]{1,80}\.[A-Za-z0-9-]{1,64}")
    named = "process"
    subject = "a process"


def connection_name(connection: KernelConnection) -> str:
    """Name the connection file of a kernel."""
    return f"kernel-{connection.kernel_id}.json"


def connection_text(connection: KernelConnection, ip: str) -> str:
    """Write the connection file of a kernel that is to listen on an address."""
    fields = {
        "ip": ip,
        "transport": "tcp",
        "key": connection.key,
        "signature_scheme": connection.signature_scheme,
        "kernel_name": connection.kernel_name,
        **msgspec.structs.asdict(connection.ports),
    }
    if connection.curve_publickey:
        fields["curve_publickey"] = connection.curve_publickey
        fields["curve_secretkey"] = connection.curve_secretkey
    return json.dumps(fields)


def read_ports(path: str) -> KernelPorts | None:
    """Read from a kernel's connection file where it listens; None while it has not said."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            ports = msgspec.json.decode(file.read(_MOST_BYTES), type=KernelPorts)
    except (OSError, msgspec.DecodeError):  # not there yet, or half written
        return None
    return ports if ports.known else None


def remove_directory(directory: str) -> None:
    """Remove a process's own directory, as far as this account can."""
    if directory:
        shutil.rmtree(directory, ignore_errors=True)
