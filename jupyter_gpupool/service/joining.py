"""HTTPS for other machines: the API, and the door through which nodes join.

Rules of this module: whoever reads the authority's certificate learns nothing secret; where the control plane
is only a node learns, after its token was good; refusals are sentences.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster.authority.authority import FOLDER, Authority
from jupyter_gpupool.cluster.authority.gate import Gate
from jupyter_gpupool.cluster.authority.renewals import RenewalDesk
from jupyter_gpupool.cluster.errors import JoinRefused
from jupyter_gpupool.cluster.identity import node_id
from jupyter_gpupool.cluster.tls import ControlTLS
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import ErrorDoc
from jupyter_gpupool.protocol.join import (
    CA_PATH,
    JOIN_PATH,
    JoinAnswer,
    JoinRequest,
    check_node_name,
    mismatch,
    read_token,
)
from jupyter_gpupool.protocol.paths import write_private
from jupyter_gpupool.service import http
from jupyter_gpupool.service.lifecycle import CannotListen, open_door
from jupyter_gpupool.service.settings import ServiceSettings
from jupyter_gpupool.service.web import ALWAYS, App, Message, Receive, Send, read_capped

_log = logging.getLogger(__name__)

#: Largest request to join, bytes.
MOST_BYTES = 16 * 1024


class _Format(msgspec.Struct):
    """What every version's request to join says."""

    format: int
    version: str = "unknown"
    node_name: str = "a node"


@dataclass(frozen=True, slots=True)
class Listening:
    """What a service has that listens for other machines.

    Attributes
    ----------
    authority : Authority
        The pool's.
    tls : ControlTLS
        The control plane's files; those of the API lie beside them.
    gate : Gate
        Which nodes' certificates count.
    desk : RenewalDesk
        What nodes may ask about theirs.
    hosts : tuple of str
        Names and addresses under which the API is reached.
    """

    authority: Authority
    tls: ControlTLS
    gate: Gate
    desk: RenewalDesk
    hosts: tuple[str, ...]

    def control_port(self, wanted: int) -> int:
        """Return where to listen for nodes: 0, which is any, becomes the port that they remember."""
        with contextlib.suppress(OSError, ValueError):
            return wanted or int(self._port_file.read_text())
        return 0

    def remember(self, control: str) -> None:
        """Keep the port of an address for the next start."""
        write_private(self._port_file, control.rpartition(":")[2].encode())

    @property
    def _port_file(self) -> Path:
        return self.authority.directory / "control-port"


def prepare(settings: ServiceSettings) -> Listening:
    """Make what is needed to listen for other machines.

    Raises
    ------
    AuthorityFault
        If the authority cannot be read.
    """
    authority = Authority(settings.data / FOLDER)
    hosts = own_names(settings)
    local = node_id() if settings.start_agent else ""
    tls = authority.equip(settings.runtime / names.TLS_DIR, node_id=local, hosts=hosts)
    return Listening(authority, tls, Gate(authority.book), RenewalDesk(authority), hosts)


def own_names(settings: ServiceSettings) -> tuple[str, ...]:
    """Return the names and addresses that the API's certificate is for."""
    given = ["localhost", "127.0.0.1", socket.gethostname(), settings.listen, *settings.allowed_hosts]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(settings.listen).is_unspecified:
            given.remove(settings.listen)
            given += _addresses()
    return tuple(dict.fromkeys(given))


def _addresses() -> list[str]:
    """Return the addresses of this machine's network interfaces."""
    import psutil

    found = (it for each in psutil.net_if_addrs().values() for it in each)
    return [it.address for it in found if it.family is socket.AF_INET]


@contextlib.asynccontextmanager
async def listening(
    settings: ServiceSettings, parts: Listening, api: App, control: str
) -> AsyncIterator[str]:
    """Serve HTTPS for the length of an ``async with`` block; gives the URL.

    Raises
    ------
    CannotListen
        If the port cannot be had.
    """
    parts.remember(control)
    door = _open(settings.listen, settings.listen_port)
    port = door.getsockname()[1]
    app = JoinDoor(api, parts.authority, int(control.rpartition(":")[2]))
    async with http.serving(app, [door], certificate=parts.tls.api_files):
        yield names.origin("https", settings.listen, port)


def _open(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return open_door(family, address)
    except OSError as error:
        raise CannotListen(
            f"The pool cannot listen on {host}:{port}: {error.strerror or error}.",
            hint="Check PoolService.listen, or free that port or set PoolService.listen_port.",
        ) from error


class JoinDoor:
    """The application that other machines see: joining, and for all else the API.

    Parameters
    ----------
    api : App
        The API.
    authority : Authority
        The pool's.
    control_port : int
        Where the control plane listens.
    """

    def __init__(self, api: App, authority: Authority, control_port: int) -> None:
        self._api = api
        self._authority = authority
        self._control_port = control_port

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match scope["method"], scope["path"]:
            case "GET", path if path == CA_PATH:
                await _send(send, 200, self._authority.trust, b"application/x-pem-file")
            case "POST", path if path == JOIN_PATH:
                # of one that is too long there is only the beginning, which is no JSON
                status, body = await self._join((await read_capped(receive, MOST_BYTES))[0])
                await _send(send, status, body)
            case _:
                await self._api(scope, receive, send)

    async def _join(self, data: bytes) -> tuple[int, bytes]:
        """Let a node in, or say why not."""
        try:
            return 200, codec.encode(await asyncio.to_thread(self._admit, data))
        except GPUPoolError as error:
            _log.warning("A machine could not join: %s", error)
            status = 403 if isinstance(error, JoinRefused) else 400
            return status, codec.encode(ErrorDoc(code=error.code, message=error.message, hint=error.hint))

    def _admit(self, data: bytes) -> JoinAnswer:
        said = codec.decode(data, _Format)
        if said.format != names.FORMAT:
            who = f"The agent of {said.node_name[:80]}"
            raise JoinRefused(mismatch(who, said.version[:40], said.format, version()))
        request = codec.decode(data, JoinRequest)
        token = read_token(request.token)
        name = check_node_name(request.node_name)
        answer = self._authority.join(token, check_node_name(request.node_id), name, request.csr)
        return JoinAnswer(
            certificate=answer.certificate,
            trust=answer.trust,
            control_port=self._control_port,
            version=version(),
        )


async def _send(send: Send, status: int, body: bytes, kind: bytes = b"application/json") -> None:
    headers: Sequence[tuple[bytes, bytes]] = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        *ALWAYS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
