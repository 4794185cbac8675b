"""How a machine becomes a node: it checks that the pool is the right one, and exchanges its token.

Rules of this module: the token's secret is sent only where the authority that it names vouches for the other
side; nothing of it is logged; whoever tries again after a broken connection uses the same key, and so the
token only once.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster import certificates
from jupyter_gpupool.cluster.errors import JoinRefused, NotJoined, WrongPool
from jupyter_gpupool.cluster.joined import JoinedPool, NodeRecord
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import ErrorDoc
from jupyter_gpupool.protocol.join import (
    API_PORT,
    CA_PATH,
    ENV_JOIN_TOKEN,
    JOIN_PATH,
    JoinAnswer,
    JoinRequest,
    JoinToken,
    read_token,
)
from jupyter_gpupool.protocol.paths import private_directory, write_private

#: How long the pool may take to answer, seconds.
ANSWER_SECONDS = 30.0
#: Largest answer that is read, bytes.
MOST_BYTES = 256 * 1024
#: OpenSSL's numbers for certificates of the future and of the past, and for those of another host.
_NOT_YET, _EXPIRED, _WRONG_NAMES = 9, 10, (62, 64)


@dataclass(frozen=True, slots=True)
class PoolAddress:
    """Where the HTTPS API of a pool is."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as a URL."""
        return names.origin("https", self.host, self.port)


def read_address(url: str) -> PoolAddress:
    """Read the URL that was typed.

    Raises
    ------
    NotJoined
        If a pool cannot be there.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or API_PORT
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    if parts.scheme != "https" or not host or parts.path.strip("/"):
        raise NotJoined(
            f"“{url[:200]}” is not the address of a pool for other machines.",
            hint=f"Give it as https://HOST or https://HOST:PORT (the usual port is {API_PORT}).",
        )
    return PoolAddress(host, port)


def obtain_token(file: str) -> JoinToken | None:
    """Read the join token from a file, from standard input (``-``) or from the environment.

    The variable is forgotten then, so that no child of the agent inherits it.

    Raises
    ------
    NotJoined, BadJoinToken
        If it cannot be read.
    """
    passed = os.environ.pop(ENV_JOIN_TOKEN, "")
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text() if file else passed
    except OSError as error:
        raise NotJoined(f"The join token cannot be read from {file}: {error.strerror}.") from error
    return read_token(text) if text.strip() else None


def ensure_joined(
    pool: JoinedPool, address: PoolAddress, token: JoinToken | None, *, node_id: str, node_name: str
) -> NodeRecord:
    """Return what this node has of the pool; join it if it has not yet.

    Raises
    ------
    NotJoined, WrongPool, JoinRefused
        See there.
    """
    record = pool.record
    if record is None:
        if token is None:
            raise NotJoined(
                f"This machine has not joined the pool at {address} yet.",
                hint="Run `jupyter gpupool token create --join` at the pool, and pass what it prints with"
                " --join-token-file FILE (or - for standard input).",
            )
        return join(pool, address, token, node_id=node_id, node_name=node_name)
    if record.node_id != node_id or record.url != str(address):
        raise NotJoined(
            f"This machine has joined {record.url} as {record.node_name}, and not {address} as {node_name}.",
            hint=pool.leave_hint,
        )
    return record


def join(
    pool: JoinedPool, address: PoolAddress, token: JoinToken, *, node_id: str, node_name: str
) -> NodeRecord:
    """Exchange a token for a certificate.

    Raises
    ------
    NotJoined
        If the pool does not answer.
    WrongPool
        If what answers is not the pool that the token is for.
    JoinRefused
        If it says no.
    """
    context = ssl.create_default_context(cadata=_authority(address, token))
    key = _pending_key(pool)
    request = JoinRequest(
        format=names.FORMAT,
        version=version(),
        token=str(token),
        node_id=node_id,
        node_name=node_name,
        csr=certificates.make_request(key),
    )
    answer = codec.decode(_ask(address, context, "POST", JOIN_PATH, codec.encode(request)), JoinAnswer)
    control = PoolAddress(address.host, answer.control_port)
    record = NodeRecord(
        format=names.FORMAT,
        url=str(address),
        control=str(control).replace("https", "tls", 1),
        node_id=node_id,
        node_name=node_name,
    )
    pool.keep(record, key, answer)
    _pending(pool).unlink()
    return record


def _pending(pool: JoinedPool) -> Path:
    return pool.directory / "pending.key"


def _pending_key(pool: JoinedPool) -> Any:
    """Return the key that this node asks with, also when it asks again."""
    private_directory(pool.directory, variable=names.ENV_DATA_DIR)
    path = _pending(pool)
    if not path.exists():
        write_private(path, certificates.key_pem(certificates.new_key()))
    return certificates.read_key(path)


def _authority(address: PoolAddress, token: JoinToken) -> str:
    """Fetch the authority that the token names; the way there need not be safe, since its hash is known."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    data = _ask(address, context, "GET", CA_PATH)
    try:
        found = {certificates.fingerprint(it): it for it in certificates.read_certificates(data)}
    except ValueError:
        found = {}
    if token.pool_sha256 not in found:
        shown = " and ".join(f"{it[:16]}…" for it in found) or "none"
        raise WrongPool(
            f"What answers at {address} is not the pool that this token is for: the token names the authority"
            f" {token.pool_sha256[:16]}…, and it has {shown}.",
            hint="Check the address; if the pool's authority was made anew, ask for a new token.",
        )
    return certificates.pem(found[token.pool_sha256]).decode()


def _ask(
    address: PoolAddress, context: ssl.SSLContext, method: str, path: str, body: bytes | None = None
) -> bytes:
    """Send one request, and return the body of its answer."""
    connection = http.client.HTTPSConnection(
        address.host, address.port, context=context, timeout=ANSWER_SECONDS
    )
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        data = answer.read(MOST_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise WrongPool(f"{address} cannot be trusted: {_reason(error, address)}") from error
    except (OSError, http.client.HTTPException) as error:
        raise NotJoined(
            f"The pool at {address} does not answer: {error}.",
            hint="Check the address, and that the pool runs with --listen.",
        ) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise _refusal(address, answer.status, data)
    return data


def _refusal(address: PoolAddress, status: int, data: bytes) -> JoinRefused:
    try:
        doc = codec.decode(data, ErrorDoc)
    except codec.BadMessage:
        return JoinRefused(f"{address} answered HTTP {status}, as no pool does.", hint="Check the address.")
    return JoinRefused(doc.message, hint=doc.hint)


def _reason(error: ssl.SSLCertVerificationError, address: PoolAddress) -> str:
    """Say what is wrong with the pool's certificate, and what to do."""
    if error.verify_code in (_NOT_YET, _EXPIRED):
        return (
            f"its {error.verify_message}, by the clock of this machine. Set this clock right (NTP), or, if it"
            " is right, restart the pool's service, which then makes a new one."
        )
    if error.verify_code in _WRONG_NAMES:
        return (
            f"its certificate is not for “{address.host}”. Use the name that the pool listens on, or add this"
            " one to PoolService.allowed_hosts there."
        )
    return f"{error.verify_message}. Ask for a new join token."


def address_towards(address: PoolAddress) -> str:
    """Return the address of this machine that packets to the pool leave from.

    Raises
    ------
    NotJoined
        If there is no way there.
    """
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise NotJoined(
            f"There is no way from this machine to {address}: {error.strerror or error}.",
            hint="Check the network, or name the address that the agent shall listen on with --host.",
        ) from error
