"""How a node joins a pool: the token that an administrator hands over, and the two messages.

Rule of this module: plain values. A token's secret appears in no ``repr``; whoever has the token can make one
node, and can tell the right pool from any other by the fingerprint in it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

import msgspec

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.names import FORMAT

#: HTTP paths of the door for nodes; it is open where the pool listens for other machines only.
CA_PATH = "/join/v1/ca.pem"
JOIN_PATH = "/join/v1"
#: Port of the HTTPS API and of the control plane, where nothing else is chosen.
API_PORT = 8750
CONTROL_PORT = 8751
#: Port on which the agent of a node takes orders, where nothing else is chosen.
AGENT_PORT = 8752
#: Variable that a join token may come in; argv shows to everybody on the machine, so it never does there.
ENV_JOIN_TOKEN = "JUPYTER_GPUPOOL_JOIN_TOKEN"  # noqa: S105 - the name of a variable, not a secret

_TOKEN = re.compile(r"gpj1\.([0-9a-f]{8})\.([\w-]{43})\.([0-9a-f]{64})")
_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class BadJoinToken(GPUPoolError):
    """Raised when a text is no join token. Copy all of what ``jupyter gpupool token create`` printed."""

    code = "bad_join_token"


class BadNodeName(GPUPoolError):
    """Raised when a node cannot be called so. Use letters, digits, dots and dashes."""

    code = "bad_node_name"


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinToken:
    """What lets one machine join.

    Attributes
    ----------
    id : str
        By which it is listed and revoked; no secret.
    secret : str
        The proof; the pool keeps only its hash.
    pool_sha256 : str
        Fingerprint of the certificate authority that vouches for the pool.
    """

    id: str
    secret: str = field(repr=False)
    pool_sha256: str

    def __str__(self) -> str:
        """Return what is handed over."""
        return f"gpj1.{self.id}.{self.secret}.{self.pool_sha256}"


def new_token(pool_sha256: str) -> JoinToken:
    """Make a token up."""
    return JoinToken(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32), pool_sha256=pool_sha256)


def read_token(text: str) -> JoinToken:
    """Read what was handed over.

    Raises
    ------
    BadJoinToken
        If it is none; the message does not repeat it.
    """
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise BadJoinToken(
            "This is no join token.",
            hint="Copy the whole line that `jupyter gpupool token create --join` printed.",
        )
    return JoinToken(id=match[1], secret=match[2], pool_sha256=match[3])


def check_node_name(name: str) -> str:
    """Return a name that a node can have.

    Raises
    ------
    BadNodeName
        If this is none.
    """
    if not _NODE_NAME.fullmatch(name):
        raise BadNodeName(
            f"A node cannot be called “{name[:80]}”.",
            hint="Give --node a name of at most 63 letters, digits, dots and dashes.",
        )
    return name


class JoinRequest(msgspec.Struct, kw_only=True):
    """What a node sends, on a connection that it has checked.

    The secret is in here, and not in a header, so that no proxy writes it to a log.
    """

    format: int
    version: str
    token: str
    node_id: str
    node_name: str
    #: Certificate signing request, PEM.
    csr: str


class CertificateAnswer(msgspec.Struct, kw_only=True):
    """A node's certificate, and whom it shall trust from now on; all PEM."""

    certificate: str
    trust: str


class JoinAnswer(CertificateAnswer, kw_only=True):
    """What a node gets that joined."""

    #: Where the control plane is, on the host that the node already speaks to.
    control_port: int
    version: str


class TrustAnswer(msgspec.Struct, kw_only=True):
    """Whether a node's certificate is due to be renewed, as the pool's own clock has it."""

    renew: bool


def mismatch(who: str, version: str, format: int, here: str) -> str:  # noqa: A002 - as the message has it
    """Say in one sentence that two versions do not understand each other."""
    return (
        f"{who} runs jupyter_gpupool {version}, which speaks format {format}; this pool runs {here} and"
        f" speaks format {FORMAT}: install the same version on both."
    )
