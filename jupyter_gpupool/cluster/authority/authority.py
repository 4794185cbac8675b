"""The pool's certificate authority: made once, kept, and rotated without losing a node.

Rules of this module: its key leaves this machine never; while it is rotated both the old and the new one are
trusted, the pool itself shows certificates of the old one, and nodes get theirs from the new one.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpupool.cluster import certificates
from jupyter_gpupool.cluster.authority.book import OWN, Audit, Book, CertificateRow, now_ms
from jupyter_gpupool.cluster.certificates import Signer
from jupyter_gpupool.cluster.errors import AuthorityFault
from jupyter_gpupool.cluster.tls import API_NAME, ControlRole, ControlTLS, Peer, locked, write_pair
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.join import CertificateAnswer, JoinToken, new_token
from jupyter_gpupool.protocol.paths import private_directory, write_private

if TYPE_CHECKING:
    from cryptography import x509

logger = logging.getLogger(__name__)

#: How long certificates are valid, days: the authority's, those that the service makes at each start, and
#: those of nodes.
AUTHORITY_DAYS, SERVICE_DAYS, NODE_DAYS = 3650, 730, 90
#: When less than this part of its time is left a node's certificate is renewed.
RENEW_PART = 1 / 3
#: Folder of the authority in the data directory.
FOLDER = "authority"


class Authority:
    """The authority of one pool.

    Parameters
    ----------
    directory : Path
        Where it lies; made, with a new authority in it, where it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = private_directory(directory, variable=names.ENV_DATA_DIR)
        self.book = Book(directory / "book.sqlite3")
        with locked(directory / "lock"):
            if not (directory / "ca.key").exists():
                self._save("ca", _make())
            self._read()

    # --- who vouches ----------------------------------------------------------------------------

    def _read(self) -> None:
        """Read who vouches.

        It is not read again while a service runs, which trusts whom it trusted when it started: a rotation
        that another process has begun counts from its next start on.
        """
        #: Whether there are two authorities.
        self.rotating = (self.directory / "old.key").exists()
        #: Who vouches for nodes.
        self.signer = self._load("ca")
        #: Who vouches for the pool itself: while the authority is rotated, the old one.
        self.anchor = self._load("old") if self.rotating else self.signer
        both = [self.signer, self.anchor] if self.rotating else [self.signer]
        #: Everybody who is trusted, as a file.
        self.trust = b"".join(certificates.pem(it.certificate) for it in both)

    def _load(self, name: str) -> Signer:
        try:
            (certificate,) = certificates.read_certificates((self.directory / f"{name}.pem").read_bytes())
            return Signer(certificate, certificates.read_key(self.directory / f"{name}.key"))
        except (OSError, ValueError) as error:
            raise AuthorityFault(
                f"The pool's authority in {self.directory} cannot be read: {error}.",
                hint="Restore it from a backup; without it nodes have to join again.",
            ) from error

    def _save(self, name: str, signer: Signer) -> None:
        # the key last: it marks that both are there; without it every node has to join again
        write_private(self.directory / f"{name}.pem", certificates.pem(signer.certificate), durable=True)
        write_private(self.directory / f"{name}.key", certificates.key_pem(signer.key), durable=True)

    # --- the pool's own -------------------------------------------------------------------------

    def equip(self, directory: Path, *, node_id: str, hosts: Sequence[str]) -> ControlTLS:
        """Write what the service and the agent of its own machine show, and return where.

        Parameters
        ----------
        directory : Path
            The private directory of the control plane's files.
        node_id : str
            This machine as a node; empty where no agent of it is started.
        hosts : sequence of str
            Names and addresses under which the API is reached.
        """
        private_directory(directory, variable=names.ENV_RUNTIME_DIR)
        tls, anchor = ControlTLS(directory), self.anchor
        write_private(tls.ca_file, self.trust)
        tls.write(ControlRole.SERVICE, anchor, days=SERVICE_DAYS)
        if node_id:
            own = tls.write(ControlRole.AGENT, anchor, days=SERVICE_DAYS, node_id=node_id)
            self.book.replace_own(_row(own, node_id, socket.gethostname(), anchor, OWN))
        write_pair(tls.api_files, API_NAME, anchor, days=SERVICE_DAYS, hosts=hosts, serves_only=True)
        return tls

    # --- nodes ----------------------------------------------------------------------------------

    def create_token(self, *, seconds: float, uses: int, note: str = "") -> JoinToken:
        """Make a join token."""
        token = new_token(self.anchor.fingerprint)
        self.book.add_token(token, seconds=seconds, uses=uses, note=note)
        return token

    def join(self, token: JoinToken, node_id: str, node_name: str, csr: str) -> CertificateAnswer:
        """Exchange a token for a certificate.

        Raises
        ------
        JoinRefused, BadCertificateRequest
            If that cannot be.
        """
        row, certificate = self._make(csr, node_id, node_name, token.id)
        self.book.redeem(token, row)
        logger.info("Node %s (%s) joined with token %s", node_name, node_id, token.id)
        return CertificateAnswer(certificate=certificate, trust=self.trust.decode())

    def due(self, peer: Peer) -> bool:
        """Tell whether a node's certificate should be renewed: it ends soon, or its authority does."""
        row = self.book.certificate(peer.serial)
        if row is None:
            return False
        late = row.expires_ms - now_ms() < (row.expires_ms - row.issued_ms) * RENEW_PART
        return late or row.signer_sha256 != self.signer.fingerprint

    def renew(self, peer: Peer, csr: str) -> CertificateAnswer:
        """Give a node that is connected its next certificate.

        Raises
        ------
        BadCertificateRequest
            If the request cannot be granted.
        AuthorityFault
            If the one that it has is void.
        """
        old = self.book.certificate(peer.serial)
        if old is None:
            raise AuthorityFault(f"The certificate {peer.serial:x} is not one of this pool's nodes.")
        row, certificate = self._make(csr, peer.node_id, old.node_name, old.token_id)
        self.book.renewed(row, after=peer.serial)
        logger.info("Node %s (%s) renewed its certificate", old.node_name, peer.node_id)
        return CertificateAnswer(certificate=certificate, trust=self.trust.decode())

    def _make(self, csr: str, node_id: str, node_name: str, token_id: str) -> tuple[CertificateRow, str]:
        """Make a node's certificate, and how it is written down."""
        signer = self.signer
        key = certificates.read_request(csr)
        made = certificates.sign(signer, ControlRole.AGENT.value, key, days=NODE_DAYS, node_id=node_id)
        return _row(made, node_id, node_name, signer, token_id), certificates.pem(made).decode()

    # --- rotation -------------------------------------------------------------------------------

    def begin_rotation(self) -> None:
        """Make a new authority beside the one there is.

        Raises
        ------
        AuthorityFault
            If there are two already.
        """
        with locked(self.directory / "lock"):
            self._read()
            if self.rotating:
                raise AuthorityFault(
                    "The authority is being rotated already.",
                    hint="Run `jupyter gpupool certs rotate --finish` when all nodes have renewed.",
                )
            self._save("old", self.signer)
            self._save("ca", _make())
            self._read()
        self.book.note(Audit.ROTATION_BEGAN, new=self.signer.fingerprint, old=self.anchor.fingerprint)

    def behind(self) -> list[CertificateRow]:
        """Return the nodes whose newest certificate the old authority made."""
        new, at_ms = self.signer.fingerprint, now_ms()
        return [
            row
            for row in self.book.newest()
            if row.token_id != OWN
            and row.signer_sha256 != new
            and not row.revoked_ms
            and row.expires_ms > at_ms
        ]

    def end_rotation(self, *, force: bool) -> None:
        """Trust the old authority no more.

        Raises
        ------
        AuthorityFault
            If there is none, or a node would be cut off and ``force`` was not given.
        """
        with locked(self.directory / "lock"):
            self._read()
            if not self.rotating:
                raise AuthorityFault(
                    "The authority is not being rotated.", hint="Begin with `jupyter gpupool certs rotate`."
                )
            behind = ", ".join(row.node_name for row in self.behind())
            if behind and not force:
                raise AuthorityFault(
                    f"These nodes have not renewed yet, and would be cut off: {behind}.",
                    hint="Restart the service, wait until they are back, or use --force and join them anew.",
                )
            old = self.anchor.fingerprint
            (self.directory / "old.key").unlink()
            (self.directory / "old.pem").unlink(missing_ok=True)
            self._read()
        self.book.note(Audit.ROTATION_ENDED, old=old, forced=behind)


def _make() -> Signer:
    # a name of its own: clients choose between two authorities by their names, too
    return certificates.make_authority(f"authority {secrets.token_hex(4)}", AUTHORITY_DAYS)


def _row(
    made: x509.Certificate, node_id: str, node_name: str, signer: Signer, token_id: str
) -> CertificateRow:
    """Write down a certificate."""
    return CertificateRow(
        serial=made.serial_number,
        node_id=node_id,
        node_name=node_name,
        key_sha256=certificates.certified_key(made),
        token_id=token_id,
        signer_sha256=signer.fingerprint,
        issued_ms=now_ms(),
        expires_ms=round(made.not_valid_after_utc.timestamp() * 1000),
    )
