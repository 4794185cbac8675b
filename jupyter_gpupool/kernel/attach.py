"""How this process gets under its limits: it shows its ticket to the agent, and applies what it is told.

Rules of this module: every wait is bounded; what is applied here (environment, thread counts) is remembered
and put back; the limits themselves are the agent's work.
"""

from __future__ import annotations

import os
import socket

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, NotOnNode
from jupyter_gpupool.kernel.threads import ThreadCap
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import BadMessage, decode, encode
from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.protocol.messages import AttachReply, AttachRequest

#: How long the agent may take to put a process under its limits, seconds.
REPLY_SECONDS = 15.0
#: Longest reply that is read, bytes.
_REPLY_BYTES = 2**20


def show_ticket(attach: AttachDoc, *, reply_seconds: float = REPLY_SECONDS) -> AttachReply:
    """Show a ticket to the agent, which takes this process from the socket.

    Raises
    ------
    NotOnNode
        If the lease's node is another machine.
    AgentSilent
        If the agent does not take the ticket, or does not answer in time.
    AttachRefused
        If it answers that this process cannot be attached.
    """
    line = _exchange(attach, reply_seconds)
    try:
        reply = decode(line, AttachReply)
    except BadMessage as error:
        raise AgentSilent(f"The agent of {attach.hostname} gave an answer that cannot be read.") from error
    if reply.error is not None:
        refused = AttachRefused(reply.error.message, hint=reply.error.hint)
        refused.code = reply.error.code
        raise refused
    return reply


def _exchange(attach: AttachDoc, reply_seconds: float) -> bytes:
    """Send one line and read one line."""
    request = encode(AttachRequest(ticket=attach.ticket, format=names.FORMAT)) + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(reply_seconds)
            stream.connect(attach.socket)
            stream.sendall(request)
            with stream.makefile("rb") as lines:
                return lines.readline(_REPLY_BYTES)
    except OSError as error:
        raise _unreachable(attach, error) from error


def _unreachable(attach: AttachDoc, error: OSError) -> GPUPoolError:
    """Say why the agent's socket cannot be used: mostly because it is on another machine."""
    here = socket.gethostname()
    if attach.hostname and attach.hostname != here:
        return NotOnNode(
            f"The lease is on node {attach.hostname}, and this process runs on {here}.",
            hint="Run the kernel on that node, or name a device of this one with --device.",
        )
    return AgentSilent(
        f"The agent of {here} does not take the ticket at {attach.socket} ({error.strerror or error}).",
        hint="Try again; `jupyter gpupool status` shows whether the agent runs.",
    )


class AppliedSettings:
    """What was changed in this process for a lease, and how to change it back."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}
        self._set: dict[str, str] = {}
        self._threads = ThreadCap()

    @property
    def threads(self) -> int | None:
        """The thread count in force; None when the libraries were left alone."""
        return self._threads.threads

    def apply(self, reply: AttachReply) -> None:
        """Apply what the agent asked this process to do to itself."""
        for name, value in reply.environment.items():
            self._before.setdefault(name, os.environ.get(name))
            self._set[name] = os.environ[name] = value
        self._threads.apply(reply.threads)

    def resize(self, threads: int) -> None:
        """Follow a resize: variables that carried the old thread count carry the new one."""
        old = self._threads.threads
        if old is None or old == threads:
            return
        for name, value in self._set.items():
            if value == str(old) and os.environ.get(name) == value:
                self._set[name] = os.environ[name] = str(threads)
        self._threads.apply(threads)

    def undo(self) -> None:
        """Put back what is still as it was applied; what the user changed since stays."""
        for name, before in self._before.items():
            if os.environ.get(name) != self._set[name]:
                continue
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
        self._before, self._set = {}, {}
        self._threads.restore()
