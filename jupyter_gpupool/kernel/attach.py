"""How this process gets under its limits: it shows its ticket to the agent, and applies what it is told.

Rules of this module: every wait is bounded; what is applied here (environment, thread counts, caps of
frameworks) is remembered, follows a resize and is put back; the limits themselves are the agent's work.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping

from msgspec import structs

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.caps import FrameworkCaps
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, NotOnNode
from jupyter_gpupool.kernel.threads import ThreadCap
from jupyter_gpupool.kernel.variables import SIZED, scaled
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import BadMessage, decode, encode
from jupyter_gpupool.protocol.documents import AttachDoc, ShareDoc
from jupyter_gpupool.protocol.frameworks import applied
from jupyter_gpupool.protocol.messages import AttachReply, AttachRequest, DeviceCap

#: How long the agent may take to put a process under its limits, seconds.
REPLY_SECONDS = 15.0
#: Longest reply that is read, bytes.
_REPLY_BYTES = 2**20


def show_ticket(
    attach: AttachDoc,
    *,
    frameworks: Mapping[str, str] | None = None,
    reply_seconds: float = REPLY_SECONDS,
) -> AttachReply:
    """Show a ticket to the agent, which takes this process from the socket.

    Parameters
    ----------
    attach : AttachDoc
        The ticket, and where to show it.
    frameworks : mapping, optional
        Installed frameworks and their versions, for the rules of the node.
    reply_seconds : float
        How long the agent may take.

    Raises
    ------
    NotOnNode
        If the lease's node is another machine.
    AgentSilent
        If the agent does not take the ticket, or does not answer in time.
    AttachRefused
        If it answers that this process cannot be attached.
    """
    request = AttachRequest(ticket=attach.ticket, format=names.FORMAT, frameworks=dict(frameworks or {}))
    line = _exchange(attach, request, reply_seconds)
    try:
        reply = decode(line, AttachReply)
    except BadMessage as error:
        raise AgentSilent(f"The agent of {attach.hostname} gave an answer that cannot be read.") from error
    if reply.error is not None:
        refused = AttachRefused(reply.error.message, hint=reply.error.hint)
        refused.code = reply.error.code
        raise refused
    return reply


def _exchange(attach: AttachDoc, request: AttachRequest, reply_seconds: float) -> bytes:
    """Send one line and read one line."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(reply_seconds)
            stream.connect(attach.socket)
            stream.sendall(encode(request) + b"\n")
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
            hint="Name a device of this node with --device, or start a kernel that runs where its share is: "
            "`jupyter gpupool kernelspec install` adds it to the kernel picker.",
        )
    return AgentSilent(
        f"The agent of {here} does not take the ticket at {attach.socket} ({error.strerror or error}).",
        hint="Try again; `jupyter gpupool status` shows whether the agent runs.",
    )


class AppliedSettings:
    """What was changed in this process for a lease, and how to change it back.

    The companion thread undoes it when the pool ended the lease, so it is used by one thread at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._before: dict[str, str | None] = {}
        self._set: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._frameworks: dict[str, str] = {}
        self._threads = ThreadCap()
        self._caps = FrameworkCaps()
        self._given_caps: tuple[DeviceCap, ...] = ()
        self._given_notices: list[str] = []

    @property
    def threads(self) -> int | None:
        """The thread count in force; None when the libraries were left alone."""
        return self._threads.threads

    @property
    def notices(self) -> list[str]:
        """What the agent said at the attach, and what the frameworks did not take."""
        return [*self._given_notices, *self._caps.problems]

    @property
    def before(self) -> dict[str, str | None]:
        """What the variables were that were set for the lease; None for those that were not set."""
        with self._lock:
            return dict(self._before)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that were set for the lease, as they are now."""
        with self._lock:
            return dict(self._set)

    def apply(self, reply: AttachReply, frameworks: Mapping[str, str] | None = None) -> None:
        """Apply what the agent asked this process to do to itself.

        Parameters
        ----------
        reply : AttachReply
            What the agent asked for.
        frameworks : mapping, optional
            Installed frameworks and their versions: some variables mean something to some versions only.
        """
        with self._lock:
            self._given, self._frameworks = dict(reply.environment), dict(frameworks or {})
            for name, value in applied(self._given, self._without(), self._frameworks).items():
                if value == str(reply.threads) and _is_lower(os.environ.get(name, ""), value):
                    continue  # a count of threads that the user has set lower
                self._before.setdefault(name, os.environ.get(name))
                self._set[name] = os.environ[name] = value
            self._threads.apply(reply.threads)
            self._given_caps = tuple(reply.caps)
            self._given_notices = list(reply.notices)
            self._caps.put(self._given_caps)

    def settle(self) -> None:
        """Set the thread counts again: some libraries keep one for each thread that calls them."""
        with self._lock:
            self._threads.apply(self._threads.threads)

    def resize(self, threads: int) -> None:
        """Follow a resize: variables that carried the old thread count carry the new one."""
        with self._lock:
            old = self._threads.threads
            if old is None or old == threads:
                return
            for name, value in list(self._set.items()):
                if value == str(old):
                    self._change(name, str(threads))
            self._threads.apply(threads)

    def follow(self, first: ShareDoc, share: ShareDoc) -> None:
        """Follow a resize: what carries a size of ``first``, the share that it was made for, carries the new.

        Parameters
        ----------
        first : ShareDoc
            The share at the attach.
        share : ShareDoc
            The share now.
        """
        with self._lock:
            memory = share.memory_bytes / max(1, first.memory_bytes)
            compute = share.compute_milli / max(1, first.compute_milli)
            given = self._given | scaled(self._given, compute=compute, memory=memory)
            changed = applied(given, self._without(), self._frameworks)
            for name in SIZED & changed.keys() & self._set.keys():
                self._change(name, changed[name])
            if self._given_caps:
                self._caps.put([_resized(cap, first, share) for cap in self._given_caps])

    def undo(self) -> None:
        """Put back what is still as it was applied; what the user changed since stays."""
        with self._lock:
            for name, before in self._before.items():
                if os.environ.get(name) != self._set[name]:
                    continue
                if before is None:
                    del os.environ[name]
                else:
                    os.environ[name] = before
            self._before, self._set, self._given = {}, {}, {}
            self._given_caps, self._given_notices = (), []
            self._threads.restore()
            self._caps.take_off()

    def _without(self) -> dict[str, str]:
        """Return the environment as it was before us."""
        before = dict(os.environ)
        for name, value in self._before.items():
            if value is None:
                before.pop(name, None)
            else:
                before[name] = value
        return before

    def _change(self, name: str, value: str) -> None:
        """Change a variable of ours, unless the user has changed it."""
        if os.environ.get(name) == self._set[name]:
            self._set[name] = os.environ[name] = value


def _is_lower(theirs: str, ours: str) -> bool:
    """Tell whether a number that somebody wrote is lower than ours."""
    return theirs.isdigit() and 0 < int(theirs) < int(ours)


def _resized(cap: DeviceCap, first: ShareDoc, share: ShareDoc) -> DeviceCap:
    """Return the cap for another share of the same device; other devices' caps stay."""
    if cap.device_id != share.device_id:
        return cap
    spared = max(0, first.memory_bytes - cap.memory_bytes)  # for what no framework counts
    return structs.replace(cap, memory_bytes=max(1, share.memory_bytes - spared))
