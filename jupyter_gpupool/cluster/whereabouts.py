"""Where an agent's pool service is, and with which certificate it is reached.

Rule of this module: it is looked at anew for each connection, so a service that moved is found, and a
certificate that was renewed is shown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jupyter_gpupool.cluster.tls import ControlTLS
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import RuntimeFile


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolAPI:
    """How processes of this node reach the pool's API.

    Attributes
    ----------
    url : str
        Where it is; empty when nobody knows.
    ca : str
        PEM of the authority that vouches for it; empty where none is needed.
    """

    url: str = ""
    ca: str = ""


#: What changes whenever a service's file does; None when there is none.
Signature = tuple[int, int, int] | None


class Whereabouts(Protocol):
    """What a link has to know of its pool."""

    @property
    def tls(self) -> ControlTLS:
        """The certificates to show."""

    @property
    def scratch(self) -> Path:
        """A private directory that Dask asks for."""

    @property
    def away_hint(self) -> str:
        """What a person can do when there is no connection for long."""

    def address(self) -> str:
        """Return where the control plane is; empty when there is none that this version can join."""

    def api(self) -> PoolAPI:
        """Return how processes of this node reach the API."""

    def signature(self) -> Signature:
        """Return something that changes whenever the address may have changed."""

    async def mind(self, worker: Any) -> None:
        """Do what a connection needs for as long as it lasts; ends only to have it made anew."""


def signature_of(path: Path) -> Signature:
    """Return what changes whenever a file is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class SameMachine:
    """The pool of a runtime directory: its service writes down where it is, and leaves certificates there.

    Parameters
    ----------
    runtime : Path
        The runtime directory, with ``pool.json`` and ``tls/``.
    """

    def __init__(self, runtime: Path) -> None:
        self._file = runtime / names.POOL_FILE
        self.tls = ControlTLS(runtime / names.TLS_DIR)
        self.scratch = runtime / "dask"
        self.away_hint = "The log of the pool's service says more."

    def address(self) -> str:
        """Read where the service is."""
        file = self._read()
        return file.control if file is not None else ""

    def api(self) -> PoolAPI:
        """Read where its API is, in plain HTTP on loopback."""
        file = self._read()
        return PoolAPI(url=file.url if file is not None else "")

    def _read(self) -> RuntimeFile | None:
        try:
            file = codec.decode(self._file.read_bytes(), RuntimeFile)
        except (OSError, codec.BadMessage):
            return None
        return file if file.format == names.FORMAT else None

    def signature(self) -> Signature:
        """Return what changes whenever a service writes its file anew."""
        return signature_of(self._file)

    async def mind(self, worker: Any) -> None:
        """Do nothing: the service makes the certificates of its own machine at each start."""
        await asyncio.Event().wait()
