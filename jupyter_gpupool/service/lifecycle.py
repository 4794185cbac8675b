"""What a pool service leaves in its runtime directory, so that there is one of it and it can be found.

Rule of this module: files are whole or not there (written under another name, then moved), private (0600),
and the lock ends with the process whatever happens to it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jupyter_gpupool._version import version
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.paths import write_private

#: In the runtime directory: the HTTP port of the last service, so that URLs stay good over a restart.
PORT_FILE = "port"


class ServiceRuns(GPUPoolError):
    """Raised when another pool service has the runtime directory. Use that one, or stop it first."""

    code = "service_runs"


class CannotListen(GPUPoolError):
    """Raised when the HTTP port cannot be had. Free it, or choose another."""

    code = "cannot_listen"


@contextmanager
def only_service(runtime: Path) -> Iterator[None]:
    """Be the one service of a runtime directory.

    Raises
    ------
    ServiceRuns
        If another process is.
    """
    import fcntl

    handle = os.open(
        runtime / names.SERVICE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ServiceRuns(
                f"Another pool service runs in {runtime}.", hint="Stop it with `jupyter gpupool stop`."
            ) from error
        yield
    finally:
        os.close(handle)


def _start_ticks() -> int:
    """Return when this process started, clock ticks since boot."""
    stat = Path("/proc/self/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[19])


def announce(runtime: Path, *, url: str, owner: str, embedded: bool, control: str) -> None:
    """Write the runtime file: the service listens now."""
    file = RuntimeFile(
        format=names.FORMAT,
        api=names.API_MAJOR,
        version=version(),
        url=url,
        pid=os.getpid(),
        pid_start=_start_ticks(),
        owner=owner,
        embedded=embedded,
        control=control,
    )
    write_private(runtime / names.POOL_FILE, codec.encode(file))


def withdraw(runtime: Path) -> None:
    """Remove the runtime file: the service ends."""
    (runtime / names.POOL_FILE).unlink(missing_ok=True)


def listen(runtime: Path, ip: str, port: int) -> tuple[socket.socket, str]:
    """Listen for HTTP; return the socket and the URL.

    Parameters
    ----------
    runtime : Path
        Where the last port is kept.
    ip : str
        Loopback address.
    port : int
        0 for the last one if it is free, else any.

    Raises
    ------
    CannotListen
        If a port that was asked for cannot be had.
    """
    address = "127.0.0.1" if ip == "localhost" else ip
    door = _bound(address, [port] if port else [*_last_port(runtime), 0])
    taken = door.getsockname()[1]
    write_private(runtime / PORT_FILE, str(taken).encode())
    return door, names.origin("http", address, taken)


def _bound(address: str, ports: list[int]) -> socket.socket:
    """Listen on the first of these ports that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in ports:
        try:
            return open_door(family, (address, port))
        except OSError as error:
            if port == ports[-1]:
                raise CannotListen(
                    f"The pool cannot listen on {address}:{port}: {error.strerror}.",
                    hint="Free that port, or set PoolService.port.",
                ) from error
    raise AssertionError("there is at least one port")


def open_door(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    """Listen at an address.

    Raises
    ------
    OSError
        If that cannot be.
    """
    # the protocol is named because asyncio sends small answers without delay only where it is
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(128)
    except OSError:
        door.close()
        raise
    return door


def _last_port(runtime: Path) -> list[int]:
    with suppress(OSError, ValueError):
        port = int((runtime / PORT_FILE).read_text())
        if 1024 <= port <= 65535:
            return [port]
    return []
