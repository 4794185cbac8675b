"""One lease as a principal sees it.

Rule of this module: it only reads; a lease of somebody else is shown without whose it is.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Sequence

from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import Lease, LeaseState, Share
from jupyter_gpupool.core.queue import QueueEntry
from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.protocol.documents import AttachDoc, HolderDoc, LeaseDoc, ShareDoc
from jupyter_gpupool.service.auth import Principal, Scope
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.convert import isolation_docs
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.idleness import Idleness
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.parts import parts_of
from jupyter_gpupool.service.tickets import TicketBook
from jupyter_gpupool.service.words import ENDED


class LeaseViews:
    """Makes documents of leases.

    Parameters
    ----------
    host : PoolHost
        The pool.
    book : NodeBook
        Sockets and readings.
    tickets : TicketBook
        The tickets that are good now.
    clock : PoolClock
        Both clocks.
    idleness : Idleness
        What holders do.
    show_owners : bool
        Whether everybody sees whose the leases of others are.
    """

    def __init__(
        self,
        *,
        host: PoolHost,
        book: NodeBook,
        tickets: TicketBook,
        clock: PoolClock,
        idleness: Idleness,
        show_owners: bool = False,
    ) -> None:
        self._host = host
        self._book = book
        self._tickets = tickets
        self._clock = clock
        self._idleness = idleness
        self._show_owners = show_owners
        self._secret = secrets.token_bytes(16)
        self._queue: list[QueueEntry] = []
        self._positions: dict[str, int] = {}
        self._queue_revision = -1

    def lease(self, lease: Lease, who: Principal) -> LeaseDoc:
        """Show one lease."""
        if not who.may_see(lease):
            return self._others(lease, who)
        doc = self._lease_doc(lease, owner=lease.owner, mine=True)
        doc.id = lease.id
        doc.holder = HolderDoc(
            key=lease.holder.key,
            kernel_id=lease.holder.kernel_id,
            label=lease.holder.label,
            pid=lease.pid,
            restartable=lease.holder.restartable,
        )
        doc.isolation = isolation_docs(lease.isolation)
        doc.reason = self.reason(lease)
        sample = self._book.lease_sample(lease)
        if sample is not None:
            doc.memory_used_bytes = sample.memory_used_bytes
            doc.utilization_percent = sample.utilization_percent
        doc.notices = self._book.notices(lease)
        doc.end_detail = lease.end_detail
        doc.attach = self._attach(lease) if who.may_touch(lease) else None
        doc.idle_seconds = self._idleness.idle_seconds(lease)
        doc.parts = parts_of(self._host.pool, lease, doc)
        doc.tag = _tag(doc, lease.notice_ms)
        # it counts down, which is no news: only that it is there is in the tag
        if doc.reclaim_seconds is not None:
            left = format_duration(doc.reclaim_seconds)
            doc.notices = [f"This lease is taken back in {left}: {lease.notice_detail}", *doc.notices]
        return doc

    def _others(self, lease: Lease, who: Principal) -> LeaseDoc:
        """Show a lease of somebody else; whose it is only administrators see, unless everybody shall."""
        doc = self._lease_doc(lease, owner=lease.owner if self._show_owners else "", mine=False)
        if Scope.ADMIN in who.scopes:
            doc.id, doc.owner = lease.id, lease.owner
            doc.holder = HolderDoc(label=lease.holder.label)
        return doc

    def _lease_doc(self, lease: Lease, *, owner: str, mine: bool) -> LeaseDoc:
        now_ms = self._clock.now_ms()
        share = lease.shares[0] if lease.shares else None
        shares = self._shares(lease.shares)
        until_ms = lease.ended_ms if lease.ended_ms is not None else now_ms
        granted_ms = lease.granted_ms
        queued = lease.state is LeaseState.QUEUED
        return LeaseDoc(
            id=lease.id if mine else self.opaque(lease.id),
            state=lease.state,
            mine=mine,
            owner=owner,
            compute_milli=share.compute_milli if share else lease.want.compute_milli,
            memory_bytes=share.memory_bytes if share else lease.want.memory_bytes,
            kind=lease.want.kind,
            device=shares[0].device_name if shares else lease.want.device,
            shares=shares,
            node_id=lease.node_id,
            holder=HolderDoc(),
            isolation=[],
            generation=lease.generation,
            position=self.position(lease.id) if queued else None,
            reason="",
            waited_seconds=seconds((granted_ms if granted_ms is not None else until_ms) - lease.requested_ms),
            held_seconds=seconds(until_ms - granted_ms) if granted_ms is not None else 0.0,
            expires_seconds=_left(granted_ms, lease.hold_ms, until_ms),
            wait_left_seconds=_left(lease.requested_ms, lease.wait_ms, now_ms) if queued else None,
            memory_used_bytes=None,
            end_reason=lease.end_reason,
            end_detail="",
            resizing=bool(lease.pending),
            tag=lease.state.value,
            asked_compute_milli=lease.want.compute_milli,
            asked_memory_bytes=lease.want.memory_bytes,
            priority=lease.want.priority,
            count=lease.want.count,
            host_cpu_milli=lease.want.host_cpu_milli,
            host_memory_bytes=lease.want.host_memory_bytes,
            model=lease.want.model,
            pinned=lease.pinned,
            reclaim_seconds=_reclaimed_in(lease, now_ms) if mine else None,
        )

    def reason(self, lease: Lease) -> str:
        """Say what a lease waits for, what happens next, or why it ended."""
        if lease.state is LeaseState.ENDED:
            return ENDED.get(lease.end_reason, "Ended.") if lease.end_reason else "Ended."
        try:
            return self._host.pool.reason(lease.id, self._clock.now_ms())
        except UnknownLease:
            return "Ending."  # decided, and being written down now

    def _attach(self, lease: Lease) -> AttachDoc | None:
        if lease.state is not LeaseState.ATTACHING:
            return None
        ticket, node = self._tickets.ready(lease), self._book.nodes.get(lease.node_id)
        if ticket is None or node is None:
            return None
        return AttachDoc(
            socket=node.socket,
            ticket=ticket.value,
            node_id=node.node_id,
            hostname=node.hostname,
            expires_seconds=self._tickets.left_seconds(ticket),
        )

    def opaque(self, lease_id: str) -> str:
        """Return a name for somebody else's lease: always the same, and good for nothing."""
        digest = hashlib.blake2s(lease_id.encode(), key=self._secret, digest_size=8).hexdigest()
        return f"other_{digest}"

    def _shares(self, shares: Sequence[Share]) -> list[ShareDoc]:
        docs = [self._share(it) for it in shares]
        if len(shares) > 1:
            devices = [self._host.pool.device(it.device_id) for it in shares]
            nodes = [device.node_id if device is not None else "" for device in devices]
            if len(set(nodes)) > 1:
                known = self._host.pool.nodes
                for doc, node in zip(docs, nodes, strict=True):
                    doc.hostname = known[node].hostname if node in known else ""
        return docs

    def _share(self, share: Share) -> ShareDoc:
        device = self._host.pool.device(share.device_id)
        doc = ShareDoc(
            device_id=share.device_id,
            device_name=share.device_id,
            compute_milli=share.compute_milli,
            memory_bytes=share.memory_bytes,
        )
        if device is not None:
            doc.device_name, doc.parent_milli = device.name, device.parent_milli
            doc.whole_only = device.whole_only
        return doc

    def position(self, lease_id: str) -> int | None:
        """Return the place of a request in the queue; None when it is not there any more."""
        self._look_at_queue()
        return self._positions.get(lease_id)

    def queue(self) -> list[QueueEntry]:
        """Return the requests that wait, looked up once for each revision."""
        self._look_at_queue()
        return self._queue

    def _look_at_queue(self) -> None:
        if self._queue_revision != self._host.revision:
            self._queue_revision = self._host.revision
            self._queue = self._host.pool.queue(self._clock.now_ms())
            self._positions = {entry.lease.id: entry.position for entry in self._queue}


def _tag(doc: LeaseDoc, notice_ms: int | None) -> str:
    """Make a tag that differs whenever something does that a waiting client should show."""
    waits = doc.reason if doc.state is LeaseState.QUEUED else ""
    seen = (
        *(doc.state.value, doc.generation, doc.position, waits, doc.resizing, doc.end_reason, doc.holder.pid),
        *(doc.compute_milli, doc.memory_bytes, doc.attach.ticket if doc.attach else ""),
        *(codec.encode(doc.isolation), codec.encode(doc.parts), *doc.notices, doc.pinned, notice_ms),
    )
    return f"{doc.state.value}-{zlib.crc32(repr(seen).encode()):08x}"


def seconds(milliseconds: int) -> float:
    """Return a duration as clients get it; one that would be negative is none."""
    return max(0, milliseconds) / 1000


def _reclaimed_in(lease: Lease, now_ms: int) -> float | None:
    held = lease.state is LeaseState.ACTIVE
    return seconds(lease.notice_ms - now_ms) if held and lease.notice_ms is not None else None


def _left(since_ms: int | None, length_ms: int | None, now_ms: int) -> float | None:
    if since_ms is None or length_ms is None:
        return None
    return seconds(since_ms + length_ms - now_ms)
