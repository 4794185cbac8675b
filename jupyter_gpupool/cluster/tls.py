"""Keys and certificates of the control plane: made once, private, mutual.

Rules of this module: whoever has no certificate of this very authority reaches nothing, on loopback too. The
authority's own key is thrown away when it has signed, so that nobody can add a certificate later. Readers see
all files or none.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

#: How long certificates are valid, days. They are remade with the runtime directory.
VALID_DAYS = 3650
_CA_FILE = "ca.pem"
_ORGANISATION = "jupyter_gpupool"


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

    def complete(self) -> bool:
        """Tell whether every file is there."""
        needed = [self.ca_file, *(path for role in ControlRole for path in self.files(role))]
        return all(path.is_file() for path in needed)

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


def ensure_control_tls(directory: Path) -> ControlTLS:
    """Make the certificates if they are missing or incomplete; whoever comes second takes the first's.

    Parameters
    ----------
    directory : Path
        Where they lie; its parent exists and is private.
    """
    tls = ControlTLS(directory)
    with _locked(directory.with_suffix(".lock")):
        if not tls.complete():
            fresh = directory.with_name(f"{directory.name}.{secrets.token_hex(4)}")
            fresh.mkdir(mode=0o700)
            _write_all(ControlTLS(fresh))
            shutil.rmtree(directory, ignore_errors=True)
            fresh.rename(directory)
    return tls


@contextmanager
def _locked(path: Path) -> Iterator[None]:
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
    from cryptography.hazmat.primitives.asymmetric import ec

    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("authority", ca_key, issuer=None, signer=ca_key)
    _write_private(tls.ca_file, _pem(ca))
    for role in ControlRole:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(role.value, key, issuer=ca, signer=ca_key)
        certificate_file, key_file = tls.files(role)
        _write_private(certificate_file, _pem(certificate))
        _write_private(key_file, _key_pem(key))


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    *,
    issuer: x509.Certificate | None,
    signer: EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Sign one certificate; without ``issuer`` it is the authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(both, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read, from its first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def peer_role(certificate: dict[str, Any] | None) -> ControlRole | None:
    """Read the role from a verified peer certificate (`ssl.SSLSocket.getpeercert`); None if it has none."""
    for part in (certificate or {}).get("subject", ()):
        for field, value in part:
            if field == "commonName" and value in {role.value for role in ControlRole}:
                return ControlRole(value)
    return None
