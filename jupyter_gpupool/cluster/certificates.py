"""The door to `cryptography`: keys, certificates and requests for them.

Rules of this module: keys are on the curve P-256 and nothing else is signed; certificates begin a day before
they are made, since the clocks of two machines differ.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.cluster.errors import BadCertificateRequest

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

#: How long before it is made a certificate begins to be valid, days.
_BACKDATED_DAYS = 1
#: Begins the name, in a certificate, of the node that it was made for.
NODE_URI = "urn:jupyter-gpupool:node:"
_ORGANISATION = "jupyter_gpupool"


@dataclass(frozen=True, slots=True)
class Signer:
    """An authority: its certificate and its key."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hexadecimal digits."""
        return fingerprint(self.certificate)


def new_key() -> EllipticCurvePrivateKey:
    """Make a key."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def make_authority(name: str, days: int) -> Signer:
    """Make an authority, which vouches for itself."""
    key = new_key()
    return Signer(_sign(name, key.public_key(), None, key, days, [], ()), key)


def sign(
    signer: Signer,
    name: str,
    key: EllipticCurvePublicKey,
    *,
    days: int,
    node_id: str = "",
    hosts: Sequence[str] = (),
    serves_only: bool = False,
) -> x509.Certificate:
    """Make a certificate.

    Parameters
    ----------
    signer : Signer
        Who vouches for it.
    name : str
        Its common name: for peers of the control plane, their role.
    key : EllipticCurvePublicKey
        Whose it is.
    days : int
        How long it is valid.
    node_id : str
        The one node that it may speak for; empty for any.
    hosts : sequence of str
        Names and addresses of the server that shows it.
    serves_only : bool
        True if it proves a server only, never a client.
    """
    from cryptography.x509.oid import ExtendedKeyUsageOID

    purposes = [ExtendedKeyUsageOID.SERVER_AUTH]
    if not serves_only:
        purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    names = [*((f"{NODE_URI}{node_id}",) if node_id else ()), *hosts]
    return _sign(name, key, signer, signer.key, days, purposes, names)


def _sign(
    name: str,
    key: EllipticCurvePublicKey,
    issuer: Signer | None,
    signing: EllipticCurvePrivateKey,
    days: int,
    purposes: list[x509.ObjectIdentifier],
    names: Sequence[str],
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    subject = _subject(name)
    now = datetime.datetime.now(datetime.UTC)
    above = issuer.key.public_key() if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=_BACKDATED_DAYS))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(_usage(authority=issuer is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(above), critical=False)
    )
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(it) for it in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signing, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    if name.startswith("urn:"):
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def make_request(key: EllipticCurvePrivateKey) -> str:
    """Ask for a certificate for a key; what it will say is the authority's to decide."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    request = (
        x509.CertificateSigningRequestBuilder().subject_name(_subject("node")).sign(key, hashes.SHA256())
    )
    return pem(request).decode()


def read_request(text: str) -> EllipticCurvePublicKey:
    """Return the key that a request is for, once it has shown that it has the private one.

    Raises
    ------
    BadCertificateRequest
        If it cannot be read, proves nothing, or is for another kind of key.
    """
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        request = x509.load_pem_x509_csr(text.encode())
        key = request.public_key()
        good = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadCertificateRequest(f"This certificate request cannot be read: {error}.") from error
    if not good or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadCertificateRequest("This certificate request is not for a key on P-256 that its sender has.")
    return key


def certified_key(certificate: x509.Certificate) -> str:
    """Return the fingerprint of the key that a certificate of ours is for."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    data = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).hexdigest()


def fingerprint(certificate: x509.Certificate) -> str:
    """Return SHA-256 of a certificate, in hexadecimal digits."""
    from cryptography.hazmat.primitives import hashes

    return certificate.fingerprint(hashes.SHA256()).hex()


def read_certificates(data: bytes) -> list[x509.Certificate]:
    """Read all certificates of a file.

    Raises
    ------
    ValueError
        If there is none.
    """
    from cryptography import x509

    return x509.load_pem_x509_certificates(data)


def read_key(path: Path) -> EllipticCurvePrivateKey:
    """Read a private key.

    Raises
    ------
    OSError, ValueError
        If it cannot be read.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds another kind of key")
    return key


def pem(thing: Any) -> bytes:
    """Write a certificate, or a request for one."""
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = thing.public_bytes(Encoding.PEM)
    return data


def key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """Write a private key."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
