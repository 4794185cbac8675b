"""The pool as its clients see it.

Rule of this module: it only reads; what belongs to other owners is shown without who they are.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib

from jupyter_gpupool._version import version
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.core.queue import QueueEntry
from jupyter_gpupool.protocol.messages import (
    AttachDoc,
    DeviceDoc,
    HolderDoc,
    IsolationDoc,
    LeaseDoc,
    NodeDoc,
    PoolDoc,
    QueueEntryDoc,
    ShareDoc,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.tickets import TicketBook
from jupyter_gpupool.service.words import ENDED


class Views:
    """Makes documents for one principal at a time.

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
    embedded : bool
        Whether this is a user's own pool.
    """

    def __init__(
        self, *, host: PoolHost, book: NodeBook, tickets: TicketBook, clock: PoolClock, embedded: bool
    ) -> None:
        self._host = host
        self._book = book
        self._tickets = tickets
        self._clock = clock
        self._embedded = embedded
        self._version = version()
        self._secret = secrets.token_bytes(16)
        self._queue: list[QueueEntry] = []
        self._positions: dict[str, int] = {}
        self._queue_revision = -1

    # --- one lease ------------------------------------------------------------------------------

    def lease(self, lease: Lease, who: Principal) -> LeaseDoc:
        """Show one lease."""
        if not who.may_touch(lease):
            return self._lease_doc(lease, owner="", mine=False)
        isolation = [
            IsolationDoc(
                resource=it.resource,
                strength=it.strength,
                mechanism=it.mechanism,
                limit=it.limit,
                verified=it.verified,
                note=it.note,
            )
            for it in lease.isolation
        ]
        doc = self._lease_doc(lease, owner=lease.owner, mine=True)
        doc.id = lease.id
        doc.holder = HolderDoc(
            key=lease.holder.key,
            kernel_id=lease.holder.kernel_id,
            label=lease.holder.label,
            pid=lease.pid,
            restartable=lease.holder.restartable,
        )
        doc.isolation = isolation
        doc.reason = self.reason(lease)
        doc.memory_used_bytes = self._book.lease_memory.get(lease.id)
        doc.end_detail = lease.end_detail
        doc.attach = self._attach(lease)
        doc.tag = _tag(doc)
        return doc

    def _lease_doc(self, lease: Lease, *, owner: str, mine: bool) -> LeaseDoc:
        now_ms = self._clock.now_ms()
        share = lease.shares[0] if lease.shares else None
        shares = [
            ShareDoc(
                device_id=it.device_id,
                device_name=self._device_name(it.device_id),
                compute_milli=it.compute_milli,
                memory_bytes=it.memory_bytes,
            )
            for it in lease.shares
        ]
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
            waited_seconds=_seconds(
                (granted_ms if granted_ms is not None else until_ms) - lease.requested_ms
            ),
            held_seconds=_seconds(until_ms - granted_ms) if granted_ms is not None else 0.0,
            expires_seconds=_left(granted_ms, lease.hold_ms, until_ms),
            wait_left_seconds=_left(lease.requested_ms, lease.wait_ms, now_ms) if queued else None,
            memory_used_bytes=None,
            end_reason=lease.end_reason,
            end_detail="",
            resizing=bool(lease.pending),
            tag=lease.state.value,
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

    def position(self, lease_id: str) -> int | None:
        """Return the place of a request in the queue; None when it is not there any more."""
        self._look_at_queue()
        return self._positions.get(lease_id)

    def _look_at_queue(self) -> None:
        if self._queue_revision != self._host.revision:
            self._queue_revision = self._host.revision
            self._queue = self._host.pool.queue(self._clock.now_ms())
            self._positions = {entry.lease.id: entry.position for entry in self._queue}

    # --- the pool -------------------------------------------------------------------------------

    def pool(self, who: Principal) -> PoolDoc:
        """Show everything."""
        return PoolDoc(
            revision=self._host.revision,
            version=self._version,
            me=who.owner,
            embedded=self._embedded,
            nodes=self.nodes(),
            devices=self.devices(who),
            leases=self.leases(who),
            queue=self.queue(who),
            warnings=self.warnings(),
        )

    def leases(self, who: Principal) -> list[LeaseDoc]:
        """Show all live leases, oldest first."""
        return [self.lease(lease, who) for _, lease in sorted(self._host.leases.items())]

    def nodes(self) -> list[NodeDoc]:
        """Show all nodes."""
        found = sorted(self._host.pool.nodes.values(), key=lambda node: (node.hostname, node.id))
        return [NodeDoc(id=node.id, hostname=node.hostname, connected=node.connected) for node in found]

    def devices(self, who: Principal) -> list[DeviceDoc]:
        """Show all devices, by node and name."""
        found = sorted(self._host.pool.devices.values(), key=lambda it: (it.node_id, _natural(it.name)))
        return [self._device(device, who) for device in found]

    def _device(self, device: Device, who: Principal) -> DeviceDoc:
        pool = self._host.pool
        free = pool.free(device.id)
        leases = [self._lease_name(lease_id, who) for lease_id in pool.leases_on(device.id)]
        return DeviceDoc(
            id=device.id,
            name=device.name,
            node_id=device.node_id,
            kind=device.kind,
            model=device.model,
            emulated=device.emulated,
            memory_bytes=device.memory_bytes,
            compute_units=device.compute_units,
            free_compute_milli=free.compute_milli,
            free_memory_bytes=free.memory_bytes,
            unmanaged_bytes=device.unmanaged_bytes,
            health=device.health,
            offered=pool.withheld(device.id) is None,
            withheld=pool.withheld_reason(device.id),
            readings=self._book.reading(device),
            leases=[name for name in leases if name],
        )

    def _lease_name(self, lease_id: str, who: Principal) -> str:
        lease = self._host.leases.get(lease_id)
        if lease is None:
            return ""
        return lease_id if who.may_touch(lease) else self.opaque(lease_id)

    def _device_name(self, device_id: str) -> str:
        device = self._host.pool.device(device_id)
        return device.name if device is not None else device_id

    def queue(self, who: Principal) -> list[QueueEntryDoc]:
        """Show the requests that wait."""
        self._look_at_queue()
        return [self._entry(entry, who) for entry in self._queue]

    def _entry(self, entry: QueueEntry, who: Principal) -> QueueEntryDoc:
        lease = entry.lease
        mine = who.may_touch(lease)
        return QueueEntryDoc(
            position=entry.position,
            lease_id=lease.id if mine else self.opaque(lease.id),
            mine=mine,
            kind=lease.want.kind,
            compute_milli=lease.want.compute_milli,
            memory_bytes=lease.want.memory_bytes,
            reason=entry.reason if mine else "",
            waited_seconds=_seconds(self._clock.now_ms() - lease.requested_ms),
        )

    def warnings(self) -> list[str]:
        """Say what a person should know about the pool as a whole."""
        warnings = []
        if self._host.failure is not None:
            warnings.append(f"Nothing is granted now. {self._host.failure}")
        nodes = self._host.pool.nodes.values()
        away = sorted(node.hostname for node in nodes if not node.connected)
        if away:
            warnings.append(f"The agent of {', '.join(away)} is away; its devices are not offered.")
        return warnings


def _tag(doc: LeaseDoc) -> str:
    """Make a tag that differs whenever something does that a waiting client should show."""
    waits = doc.reason if doc.state is LeaseState.QUEUED else ""
    seen = (
        *(doc.state.value, doc.generation, doc.position, waits, doc.resizing, doc.end_reason, doc.holder.pid),
        *(doc.compute_milli, doc.memory_bytes, len(doc.isolation), doc.attach.ticket if doc.attach else ""),
    )
    return f"{doc.state.value}-{zlib.crc32(repr(seen).encode()):08x}"


def _natural(name: str) -> tuple[str, int]:
    """Sort ``cuda2`` before ``cuda10``."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _first(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _seconds(milliseconds: int) -> float:
    return max(0, milliseconds) / 1000


def _left(since_ms: int | None, length_ms: int | None, now_ms: int) -> float | None:
    if since_ms is None or length_ms is None:
        return None
    return _seconds(since_ms + length_ms - now_ms)
