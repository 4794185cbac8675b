"""From a request to limits in force: wait, show the ticket, apply; or leave nothing behind.

Rules of this module: whatever ends it early, an interrupt included, the request is cancelled before the
exception goes on; every single wait is bounded, and a service that dies meanwhile is found again by the
client.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, UnknownLease
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.core.shares import format_compute, format_duration
from jupyter_gpupool.kernel.attach import AppliedSettings, show_ticket
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, RequestEnded
from jupyter_gpupool.kernel.frameworks import installed
from jupyter_gpupool.kernel.progress import WaitingLine
from jupyter_gpupool.protocol.documents import AttachDoc, LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.messages import AttachReply

#: Longest single poll while waiting: the line shows the elapsed time at least this often, seconds.
POLL_SECONDS = 1.0
#: How long an agent that does not take tickets (it may be restarting) is tried again, seconds.
ATTACH_SECONDS = 30.0
#: What an agent answers to a ticket that it does not know (yet), or not any more.
_STALE = "stale_ticket"
#: How long the pool may take to answer a cancellation, seconds.
_CANCEL_SECONDS = 3.0

#: Why a request can end before its lease is in force, in words.
_ENDINGS = {
    EndReason.WAIT_EXPIRED: "was not granted within the time it was to wait",
    EndReason.CANCELLED: "was cancelled",
    EndReason.ABANDONED: "was dropped, because nobody had been waiting for it for a while",
    EndReason.ATTACH_REFUSED: "could not be put in force",
    EndReason.ATTACH_EXPIRED: "was granted, but this process did not take it in time",
    EndReason.AGENT_LOST: "ended, because its node was lost",
    EndReason.KERNEL_SHUTDOWN: "ended, because its kernel was shut down",
    EndReason.ADMIN_ENDED: "was ended by an administrator",
    EndReason.DRAINED: "ended, because an administrator drained its node",
}


class Acquisition:
    """One attempt to get a lease in force for this process.

    Parameters
    ----------
    client : PoolClient
        The pool.
    line : WaitingLine
        Where to show how the wait goes.
    """

    def __init__(self, client: PoolClient, line: WaitingLine) -> None:
        self._client = client
        self._line = line
        self._settings = AppliedSettings()
        self._frameworks: dict[str, str] = {}
        self._first_shown: float | None = None
        self._began = time.monotonic()
        self._deadline: float | None = None

    def request(self, body: LeaseRequest) -> tuple[LeaseDoc, AppliedSettings]:
        """Ask for a new lease and see it through until it is in force.

        Raises
        ------
        GPUPoolError
            If it is refused, or ends before it is in force.
        KeyboardInterrupt
            If the user stopped the wait; nothing is held or queued then.
        """
        key = uuid.uuid4().hex
        lease_id = ""
        try:
            doc = self._client.request(body, key=key)
            lease_id = doc.id
            return self._until_active(doc), self._settings
        except BaseException as error:
            refused = isinstance(error, GPUPoolError) and not isinstance(error, PoolUnreachable)
            if lease_id or not refused:
                self._cancel(body, key, lease_id)
            self._settings.undo()
            if isinstance(error, KeyboardInterrupt):
                self._line.end(f"Cancelled after {format_duration(self._elapsed())}.")
                raise KeyboardInterrupt("The request was cancelled; nothing is held or waits.") from None
            self._line.end(f"Ended after {format_duration(self._elapsed())}.")
            raise

    def resume(self, doc: LeaseDoc, deadline: float) -> tuple[LeaseDoc, AppliedSettings]:
        """See a lease through that was granted already (a kernel that restarted), until ``deadline``."""
        self._deadline = deadline
        return self._until_active(doc), self._settings

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _until_active(self, doc: LeaseDoc) -> LeaseDoc:
        """Follow the lease until it is in force."""
        while doc.state in (LeaseState.QUEUED, LeaseState.ATTACHING):
            reply = self._attach(doc, doc.attach) if doc.attach is not None else None
            if reply is not None:
                # the grant is in the journal and the limits are in force: the pool hears of it meanwhile
                doc = structs.replace(
                    doc, state=LeaseState.ACTIVE, isolation=reply.isolation, attach=None, reason="Held."
                )
                break
            self._line.show(doc, self._elapsed())
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise RequestEnded(f"The agent of {doc.node_id} did not take this process in time.")
            doc = self._client.lease(doc.id, since=doc.tag, wait_seconds=POLL_SECONDS)
        if doc.state is LeaseState.ACTIVE:
            self._line.end(f"Granted after {format_duration(self._elapsed())}.")
            return doc
        raise _ended(doc)

    def _attach(self, doc: LeaseDoc, attach: AttachDoc) -> AttachReply | None:
        """Show the ticket; None when the agent cannot take it now, and is asked again at the next poll."""
        now = time.monotonic()
        if doc.kind is DeviceKind.CUDA:
            self._frameworks = installed()
        self._first_shown = now if self._first_shown is None else self._first_shown
        try:
            reply = show_ticket(attach, frameworks=self._frameworks)
        except (AgentSilent, AttachRefused) as error:
            final = isinstance(error, AttachRefused) and error.code != _STALE
            if final or now - self._first_shown > ATTACH_SECONDS:
                raise
            return None
        self._settings.apply(reply, self._frameworks)
        return reply

    def _cancel(self, body: LeaseRequest, key: str, lease_id: str) -> None:
        """Leave nothing behind; a further interrupt does not get in the way."""
        brief = PoolClient(self._client.connection, answer_seconds=_CANCEL_SECONDS)
        with _interrupts_held():
            for _ in range(2):
                try:
                    # The answer to the request may have been lost; the same key gives it again.
                    lease_id = lease_id or brief.request(body, key=key).id
                    brief.release(lease_id, reason=EndReason.CANCELLED.value)
                    break
                except (UnknownLease, PoolUnreachable):
                    # Gone already; or the pool is, and drops what nobody waits for when it comes back.
                    continue
                except GPUPoolError:
                    break
            brief.close()


def _ended(doc: LeaseDoc) -> RequestEnded:
    """Say why a request ended before its lease was in force."""
    what = _ENDINGS.get(doc.end_reason, "ended") if doc.end_reason else "ended"
    share = format_compute(doc.compute_milli) + (f" x{doc.count}" if doc.count > 1 else "")
    detail = f": {doc.end_detail.rstrip('.')}" if doc.end_detail else ""
    hint = "`%gpupool` shows who holds what." if doc.end_reason is EndReason.WAIT_EXPIRED else "Try again."
    return RequestEnded(f"The request for a share of {share} {what}{detail}.", hint=hint)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep the stop button from ending a bounded clean-up half way; only the main thread gets it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
