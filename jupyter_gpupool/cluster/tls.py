"""Keys and certificates of the control plane: made once, private, mutual.

Rules of this module: whoever has no certificate of this very authority reaches nothing, on loopback too. The
authority's own key is thrown away when it has signed, so that nobody can add a certificate later. Readers see
all files or none.
"""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from jupyter_gpupool.cluster.certificates import (
    NODE_URI,
    Signer,
    key_pem,
    make_authority,
    new_key,
    pem,
    sign,
)
from jupyter_gpupool.protocol.paths import write_private

#: How long certificates are valid, days. They are remade with the runtime directory.
VALID_DAYS = 3650
_CA_FILE = "ca.pem"
#: Who a certificate of the HTTP API speaks for; it is no role of the control plane.
API_NAME = "api"


class ControlRole(Enum):
    """Who a certificate speaks for; the value is its common name and the stem of its files."""

    #: The pool service, a Dask scheduler.
    SERVICE = "service"
    #: An agent, a Dask worker.
    AGENT = "agent"


#: Dask's name of a role -> ours.
_DASK_ROLES = {"scheduler": ControlRole.SERVICE, "worker": ControlRole.AGENT}


@dataclass(frozen=True, slots=True)
class ControlTLS:
    """Where the certificates lie.

    Attributes
    ----------
    directory : Path
        Private directory with ``ca.pem`` and, for each role, ``ROLE.pem`` and ``ROLE.key``.
    """

    directory: Path

    def files(self, role: ControlRole) -> tuple[Path, Path]:
        """Return certificate and key of a role."""
        return self.directory / f"{role.value}.pem", self.directory / f"{role.value}.key"

    @property
    def ca_file(self) -> Path:
        """The authority's certificate."""
        return self.directory / _CA_FILE

    @property
    def api_files(self) -> tuple[Path, Path]:
        """Certificate and key of the HTTP API, where it is for other machines."""
        return self.directory / f"{API_NAME}.pem", self.directory / f"{API_NAME}.key"

    def complete(self) -> bool:
        """Tell whether every file is there."""
        needed = [self.ca_file, *(path for role in ControlRole for path in self.files(role))]
        return all(path.is_file() for path in needed)

    def write(self, role: ControlRole, signer: Signer, *, days: int, node_id: str = "") -> Any:
        """Make key and certificate of a role, and return the certificate."""
        return write_pair(self.files(role), role.value, signer, days=days, node_id=node_id)

    def security(self, role: str) -> Any:
        """Return Dask's security settings for ``"scheduler"`` or ``"worker"``: encrypted, both sides proven.

        Returns
        -------
        distributed.Security
            With the certificate of that role only.
        """
        from distributed.security import Security

        certificate, key = self.files(_DASK_ROLES[role])
        return Security(
            require_encryption=True,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            tls_ca_file=str(self.ca_file),
            **{f"tls_{role}_cert": str(certificate), f"tls_{role}_key": str(key)},
        )


def write_pair(files: tuple[Path, Path], name: str, signer: Signer, **what: Any) -> Any:
    """Make a key, and a certificate for it (`certificates.sign`); write both, and return the certificate."""
    key = new_key()
    certificate = sign(signer, name, key.public_key(), **what)
    certificate_file, key_file = files
    write_private(key_file, key_pem(key))
    write_private(certificate_file, pem(certificate))
    return certificate


def ensure_control_tls(directory: Path) -> ControlTLS:
    """Make the certificates if they are missing or incomplete; whoever comes second takes the first's.

    Parameters
    ----------
    directory : Path
        Where they lie; its parent exists and is private.
    """
    tls = ControlTLS(directory)
    with locked(directory.with_suffix(".lock")):
        if not tls.complete():
            fresh = directory.with_name(f"{directory.name}.{secrets.token_hex(4)}")
            fresh.mkdir(mode=0o700)
            _write_all(ControlTLS(fresh))
            shutil.rmtree(directory, ignore_errors=True)
            fresh.rename(directory)
    return tls


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file among the processes of this user."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_all(tls: ControlTLS) -> None:
    """Make an authority and one certificate for each role, and forget the authority's key."""
    authority = make_authority("authority", VALID_DAYS)
    write_private(tls.ca_file, pem(authority.certificate))
    for role in ControlRole:
        tls.write(role, authority, days=VALID_DAYS)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection, as its verified certificate says.

    Attributes
    ----------
    role : ControlRole or None
        None for somebody who has nothing to do here.
    node_id : str
        The one node that it may speak for; empty where the certificate never left the machine.
    serial : int
        Number of the certificate.
    """

    role: ControlRole | None
    node_id: str = ""
    serial: int = 0


def read_peer(certificate: dict[str, Any] | None) -> Peer:
    """Read a verified peer certificate (`ssl.SSLSocket.getpeercert`)."""
    found = certificate or {}
    nodes = [name for kind, name in found.get("subjectAltName", ()) if kind == "URI"]
    return Peer(
        role=peer_role(certificate),
        node_id=next((it.removeprefix(NODE_URI) for it in nodes if it.startswith(NODE_URI)), ""),
        serial=int(found.get("serialNumber", "0"), 16),
    )


def peer_role(certificate: dict[str, Any] | None) -> ControlRole | None:
    """Read the role from a verified peer certificate (`ssl.SSLSocket.getpeercert`); None if it has none."""
    for part in (certificate or {}).get("subject", ()):
        for field, value in part:
            if field == "commonName" and value in {role.value for role in ControlRole}:
                return ControlRole(value)
    return None
