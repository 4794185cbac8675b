"""What a node keeps of the pool that it joined, and how it keeps its certificate good.

Rules of this module: key and certificate lie in one private file, so that they are replaced together; whether
a certificate is due to be renewed the pool's clock decides, never this machine's.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jupyter_gpupool.cluster import certificates
from jupyter_gpupool.cluster.errors import LinkLost, NotJoined
from jupyter_gpupool.cluster.tls import ControlRole, ControlTLS
from jupyter_gpupool.cluster.whereabouts import PoolAPI, Signature, signature_of
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.join import CertificateAnswer, TrustAnswer
from jupyter_gpupool.protocol.paths import private_directory, write_private

logger = logging.getLogger(__name__)

#: Folder in the data directory of a node.
FOLDER = "joined"
#: How often a node asks whether its certificate is due, seconds.
ASK_SECONDS = 6 * 3600.0
#: How long the pool may take to answer, seconds.
ANSWER_SECONDS = 30.0
_NODE_FILE = "node.json"


class NodeRecord(msgspec.Struct, kw_only=True, frozen=True):
    """Which pool a node has joined, and as whom."""

    format: int
    #: The API of the pool, as the administrator of the node wrote it.
    url: str
    #: The control plane.
    control: str
    node_id: str
    node_name: str


@dataclass(frozen=True, slots=True)
class NodeTLS(ControlTLS):
    """The certificates of a node that joined."""

    def files(self, role: ControlRole) -> tuple[Path, Path]:
        """Return the one file that has certificate and key."""
        path = self.directory / f"{role.value}.pem"
        return path, path


class JoinedPool:
    """The pool that this node has joined.

    Parameters
    ----------
    directory : Path
        Private directory with what the pool gave to this node; it need not be there.
    scratch : Path
        A private directory that Dask asks for.
    """

    def __init__(self, directory: Path, scratch: Path) -> None:
        self._file = directory / _NODE_FILE
        self.directory = directory
        self.tls = NodeTLS(directory)
        self.scratch = scratch

    @property
    def record(self) -> NodeRecord | None:
        """What was written when it joined; None before.

        Raises
        ------
        NotJoined
            If another version wrote it.
        """
        try:
            record = codec.decode(self._file.read_bytes(), NodeRecord)
        except FileNotFoundError:
            return None
        except codec.BadMessage as error:
            raise NotJoined(f"{self._file} cannot be read: {error.message}", hint=self.leave_hint) from error
        if record.format != names.FORMAT:
            raise NotJoined(f"{self._file} is of another version.", hint=self.leave_hint)
        return record

    @property
    def leave_hint(self) -> str:
        """How to begin anew."""
        return f"Remove {self.directory}, and join again with a new token."

    @property
    def away_hint(self) -> str:
        """What a person can do when there is no connection for long."""
        return (
            "Is the pool's service up, and the clock of this machine right? If the certificate of this node"
            f" has ended or was revoked (`jupyter gpupool certs show` at the pool): remove {self.directory},"
            " and join again with a new token."
        )

    def keep(self, record: NodeRecord, key: Any, answer: CertificateAnswer) -> None:
        """Write down that this node has joined; the record comes last."""
        private_directory(self.directory, variable=names.ENV_DATA_DIR)
        self.keep_certificate(key, answer)
        write_private(self._file, codec.encode(record))

    def keep_certificate(self, key: Any, answer: CertificateAnswer) -> None:
        """Write down a certificate, and whom to trust."""
        write_private(self.tls.ca_file, answer.trust.encode())
        file, _ = self.tls.files(ControlRole.AGENT)
        write_private(file, answer.certificate.encode() + certificates.key_pem(key))

    # --- for the link ---------------------------------------------------------------------------

    def address(self) -> str:
        """Return where the control plane is."""
        record = self.record
        return record.control if record else ""

    def api(self) -> PoolAPI:
        """Return the address that this node has joined at, and whom to trust there."""
        record = self.record
        if record is None:
            return PoolAPI()
        return PoolAPI(url=record.url, ca=self.tls.ca_file.read_text())

    def signature(self) -> Signature:
        """Return what changes when this node joins anew."""
        return signature_of(self._file)

    async def mind(self, worker: Any) -> None:
        """Ask now and then whether the certificate is due; renew it then.

        Raises
        ------
        LinkLost
            When there is a new one: the next connection shows it.
        """
        while not await self._due(worker):  # noqa: ASYNC110 - time is what it waits for
            await asyncio.sleep(ASK_SECONDS)
        key = certificates.new_key()
        async with asyncio.timeout(ANSWER_SECONDS):
            data = await worker.scheduler.gpupool_renew(csr=certificates.make_request(key))
        answer = codec.decode(_bytes(data), CertificateAnswer)
        await asyncio.to_thread(self.keep_certificate, key, answer)
        logger.info("The certificate of this node was renewed")
        raise LinkLost("The certificate was renewed.")

    async def _due(self, worker: Any) -> bool:
        async with asyncio.timeout(ANSWER_SECONDS):
            data = await worker.scheduler.gpupool_trust()
        return codec.decode(_bytes(data), TrustAnswer).renew


def _bytes(data: object) -> bytes:
    """Take an answer; Dask answers None for handlers that do not exist.

    Raises
    ------
    LinkLost
        If it is none.
    """
    if not isinstance(data, bytes):
        raise LinkLost("The pool service does not answer about certificates.")
    return data
