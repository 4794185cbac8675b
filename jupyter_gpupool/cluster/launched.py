"""Records of processes that agents start, by which the next agent takes them over.

Rules of this module: a record is complete or not there; it has no secrets; one that cannot be read is put
aside and named in the log.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import msgspec

from jupyter_gpupool.cluster.launchers.base import LaunchRecord
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.launches import KernelConnection, KernelPorts

logger = logging.getLogger(__name__)

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


class LaunchedBook:
    """The records of one agent.

    Parameters
    ----------
    directory : Path
        Private directory; made if it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)

    def save(self, record: LaunchedRecord) -> None:
        """Write a record in place of an older one of the same process."""
        path = self._path(record.process_id)
        beside = path.with_suffix(".new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(codec.encode(record))
        beside.replace(path)

    def remove(self, process_id: str) -> None:
        """Remove a record; nothing happens if there is none."""
        self._path(process_id).unlink(missing_ok=True)

    def load(self) -> list[LaunchedRecord]:
        """Read all records."""
        for draft in self._directory.glob("*.new"):
            draft.unlink(missing_ok=True)
        records = (_read(path) for path in sorted(self._directory.glob("*.json")))
        return [record for record in records if record is not None]

    def _path(self, process_id: str) -> Path:
        return self._directory / f"{process_id}.json"


def _read(path: Path) -> LaunchedRecord | None:
    try:
        record = codec.decode(path.read_bytes(), LaunchedRecord)
        if record.format == names.FORMAT and record.process_id == path.stem:
            return record
        reason = f"it has format {record.format} and names process {record.process_id}"
    except (OSError, codec.BadMessage) as error:
        reason = str(error)
    logger.error("The record %s of a process cannot be used and is put aside: %s", path, reason)
    path.replace(path.with_suffix(".unreadable"))
    return None


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
