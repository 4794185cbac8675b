"""The pool as its clients see it.

Rule of this module: it only reads; what belongs to other owners is shown without who they are.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool._version import version
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.nodes import Node
from jupyter_gpupool.core.queue import QueueEntry
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    LeaseDoc,
    NodeDoc,
    NodeState,
    PoolDoc,
    ProposalDoc,
    QueueEntryDoc,
    ReadingsDoc,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.concerns import device_warnings
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.lease_views import LeaseViews, seconds
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.reasons import proposal_docs


class Views:
    """Makes documents of the pool, for one principal at a time.

    Parameters
    ----------
    host : PoolHost
        The pool.
    leases : LeaseViews
        Makes documents of leases.
    book : NodeBook
        Readings.
    clock : PoolClock
        Both clocks.
    embedded : bool
        Whether this is a user's own pool.
    agent_log : Path
        Where the agent says why it does not start.
    """

    def __init__(
        self,
        *,
        host: PoolHost,
        leases: LeaseViews,
        book: NodeBook,
        clock: PoolClock,
        embedded: bool,
        agent_log: Path,
    ) -> None:
        self._host = host
        self._leases = leases
        self._book = book
        self._clock = clock
        self._embedded = embedded
        self._agent_log = agent_log
        self._version = version()

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
        return [self._leases.lease(lease, who) for _, lease in sorted(self._host.leases.items())]

    def nodes(self) -> list[NodeDoc]:
        """Show all nodes."""
        pool = self._host.pool
        known = dict(pool.nodes)
        for (
            drain
        ) in pool.drains:  # one that has not joined is shown all the same: somebody means to undrain it
            name = drain.hostname or drain.node_id
            known.setdefault(drain.node_id, Node(id=drain.node_id, hostname=name, connected=False))
        return [self._node(it) for it in sorted(known.values(), key=lambda node: (node.hostname, node.id))]

    def _node(self, node: Node) -> NodeDoc:
        drain, entry = self._host.pool.drain(node.id), self._book.nodes.get(node.id)
        doc = NodeDoc(
            id=node.id,
            hostname=node.hostname,
            connected=node.connected,
            version=entry.version if entry is not None else "",
            state=NodeState.READY if node.connected else NodeState.AWAY,
        )
        if drain is not None:
            left = self._host.pool.leases_of(node.id)
            doc.state = NodeState.DRAINING if left else NodeState.DRAINED
            doc.drain_message = drain.message
            if drain.until_ms is not None:
                doc.drain_seconds = seconds(max(0, drain.until_ms - self._clock.now_ms()))
        return doc

    def devices(self, who: Principal) -> list[DeviceDoc]:
        """Show all devices, by node and name."""
        found = sorted(self._host.pool.devices.values(), key=lambda it: (it.node_id, _natural(it.name)))
        return [self._device(device, who) for device in found]

    def _device(self, device: Device, who: Principal) -> DeviceDoc:
        pool = self._host.pool
        free, report, sample = pool.free(device.id), self._book.report(device), self._book.sample(device)
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
            readings=sample.readings if sample else ReadingsDoc(),
            leases=[name for name in leases if name],
            health_reason=device.health_reason,
            parent_id=device.parent_id,
            parent_milli=device.parent_milli,
            whole_only=device.whole_only,
            sharing=report.sharing if report else "",
            isolation=report.isolation if report else [],
            unmanaged=sample.unmanaged if sample else [],
            missing=sample.missing if sample else {},
        )

    def _lease_name(self, lease_id: str, who: Principal) -> str:
        lease = self._host.leases.get(lease_id)
        if lease is None:
            return ""
        return lease_id if who.may_touch(lease) else self._leases.opaque(lease_id)

    def queue(self, who: Principal) -> list[QueueEntryDoc]:
        """Show the requests that wait."""
        return [self._entry(entry, who) for entry in self._leases.queue()]

    def _entry(self, entry: QueueEntry, who: Principal) -> QueueEntryDoc:
        lease = entry.lease
        mine = who.may_touch(lease)
        return QueueEntryDoc(
            position=entry.position,
            lease_id=lease.id if mine else self._leases.opaque(lease.id),
            mine=mine,
            kind=lease.want.kind,
            compute_milli=lease.want.compute_milli,
            memory_bytes=lease.want.memory_bytes,
            reason=entry.reason if mine else "",
            waited_seconds=seconds(self._clock.now_ms() - lease.requested_ms),
            count=lease.want.count,
            priority=lease.want.priority,
        )

    def proposals(self) -> list[ProposalDoc]:
        """Show an administrator what would have to move for requests to fit."""
        return proposal_docs(self._host, self._clock.now_ms())

    def warnings(self) -> list[str]:
        """Say what a person should know about the pool as a whole."""
        warnings = []
        if self._host.failure is not None:
            warnings.append(f"Nothing is granted now. {self._host.failure}")
        nodes = self._host.pool.nodes.values()
        if not nodes:
            warnings.append(f"No agent has joined yet. If this lasts, see its log: {self._agent_log}.")
        away = sorted(node.hostname for node in nodes if not node.connected)
        if away:
            warnings.append(f"The agent of {', '.join(away)} is away; its devices are not offered.")
        return warnings + device_warnings(self._host.pool, self._book)


def _natural(name: str) -> tuple[str, int]:
    """Sort ``cuda2`` before ``cuda10``."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
