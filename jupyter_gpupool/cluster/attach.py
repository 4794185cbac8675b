"""The agent's socket: where a process shows its ticket and is put under its limits.

Rules of this module: one line in, one line out, both bounded in size and time; who the process is comes from
the kernel; a refusal is told with a code, and says nothing about other leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from jupyter_gpupool.cluster.errors import AttachError, WrongUser
from jupyter_gpupool.cluster.launchers.accounts import Accounts
from jupyter_gpupool.cluster.peer import Peer, identify
from jupyter_gpupool.cluster.tickets import TicketBook
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import ErrorDoc
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.messages import AttachReply, AttachRequest, PrepareOrder

logger = logging.getLogger(__name__)

#: Longest line that a process may send, bytes.
MAX_LINE = 4096
#: How long it may take to send it, seconds.
LINE_SECONDS = 5.0
#: How many processes may be attaching at once; more wait in the socket's backlog.
MAX_CONNECTIONS = 64

Attach = Callable[[PrepareOrder, Peer, dict[str, str]], Awaitable[AttachReply]]


class AttachSocket:
    """Listens for holders.

    Parameters
    ----------
    path : Path
        Where; in a private directory.
    tickets : TicketBook
        What is expected.
    attach : callable
        Puts a process under its limits; owns the `Peer` from then on.
    use_peerpidfd : bool
        False to do without ``SO_PEERPIDFD``.
    accounts : Accounts or None
        Which account an owner's processes run as; None for the agent's own user only. It is a second check:
        the ticket is the proof.
    """

    def __init__(
        self,
        path: Path,
        *,
        tickets: TicketBook,
        attach: Attach,
        use_peerpidfd: bool = True,
        accounts: Accounts | None = None,
    ) -> None:
        self._path = path
        self._tickets = tickets
        self._attach = attach
        self._use_peerpidfd = use_peerpidfd
        self._accounts = accounts
        self._server: asyncio.Server | None = None
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def start(self) -> None:
        """Listen; a file left there by an agent that died is replaced (this one has the agents' lock)."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(os.fspath(self._path))
            self._path.chmod(0o600 if self._accounts is None else 0o666)
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one process."""
        try:
            async with self._places:
                reply = await self._answer(reader, writer)
            writer.write(codec.encode(reply) + b"\n")
            await writer.drain()
        except OSError:
            logger.debug("A process hung up while it was attached")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AttachReply:
        """Identify, read, redeem, attach."""
        try:
            only = os.geteuid() if self._accounts is None else None
            peer = identify(writer.get_extra_info("socket"), uid=only, use_peerpidfd=self._use_peerpidfd)
        except AttachError as error:
            with contextlib.suppress(GPUPoolError):
                await _read(reader)
            return refusal(error)
        try:
            request = await _read(reader)
            order = await self._tickets.redeem(request.ticket)
            self._check_account(order.owner, peer)
        except GPUPoolError as error:
            peer.close()
            return refusal(error)
        except BaseException:
            peer.close()
            raise
        return await self._attach(order, peer, request.frameworks)

    def _check_account(self, owner: str, peer: Peer) -> None:
        """Refuse a process that does not run as its lease's owner, where it is known who that is.

        Raises
        ------
        WrongUser, AccountRefused
            If it does not.
        """
        if self._accounts is None:
            return
        account = self._accounts.find(owner)
        if peer.uid != account.uid:
            raise WrongUser(
                f"The lease belongs to {printable(owner)}, whose processes run as {account.name} here; yours "
                f"runs as uid {peer.uid}.",
                hint="Use a lease of your own.",
            )


async def _read(reader: asyncio.StreamReader) -> AttachRequest:
    """Read the one line.

    Raises
    ------
    BadMessage
        If it is too long, too late, cut off, or not a request of this format.
    """
    try:
        async with asyncio.timeout(LINE_SECONDS):
            line = await reader.readuntil(b"\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, TimeoutError):
        raise codec.BadMessage(
            f"The agent expects one line of at most {MAX_LINE} bytes within {LINE_SECONDS:g} s."
        ) from None
    request = codec.decode(line, AttachRequest)
    if request.format != names.FORMAT:
        raise codec.BadMessage(
            f"The agent reads attach requests of format {names.FORMAT}, not {request.format}.",
            hint="Install the same version of jupyter_gpupool in the kernel's environment.",
        )
    return request


def refusal(error: GPUPoolError) -> AttachReply:
    """Tell a process why it was not attached."""
    return AttachReply(error=ErrorDoc(code=error.code, message=error.message, hint=error.hint))
