"""The ledger: live leases, devices and nodes, and every index that is derived from them.

Rules of this module: a lease changes only through `Ledger.put`, which keeps all indexes in step; nothing here
decides anything, and every method either completes or changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from jupyter_gpupool.core.accounts import Account, reserved_by
from jupyter_gpupool.core.deadlines import DeadlineHeap, due_ms
from jupyter_gpupool.core.devices import Device, Health, Withheld
from jupyter_gpupool.core.hooks import NoStandings, StandingsBook
from jupyter_gpupool.core.leases import HOLDING, OCCUPYING, Lease, LeaseState
from jupyter_gpupool.core.nodes import Node, NodeRecord

_Key = TypeVar("_Key")


class Ledger:
    """Mutable state of one `Pool`.

    Attributes
    ----------
    leases : dict of str to Lease
        Live leases by id.
    accounts : dict of str to Account
        Devices by id, with what is reserved on them.
    nodes : dict of str to NodeRecord
        Nodes by id.
    deadlines : DeadlineHeap
        When the next lease is due.
    accepting : bool
        False while the journal cannot be written.
    topology : int
        Grows whenever a device comes, goes, or is described anew.
    standings : StandingsBook
        How owners stand.
    """

    def __init__(self, standings: StandingsBook | None = None) -> None:
        self.standings = standings or NoStandings()
        self.leases: dict[str, Lease] = {}
        self.accounts: dict[str, Account] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.deadlines = DeadlineHeap()
        self.accepting = True
        self.topology = 0
        # Two lists in step: sort keys to search in, and the requests themselves.
        self._arrivals: list[tuple[int, str]] = []
        self._waiting: list[Lease] = []
        self._by_node: dict[str, dict[str, None]] = {}
        self._by_holder: dict[tuple[str, str], dict[str, None]] = {}

    # --- leases ---------------------------------------------------------------------------------

    def put(self, lease: Lease) -> None:
        """Make ``lease`` the current value of its id; an ENDED one is dropped."""
        before = self.leases.get(lease.id)
        if before is not None:
            self._unindex(before)
        if lease.state is LeaseState.ENDED:
            self.leases.pop(lease.id, None)
        else:
            self.leases[lease.id] = lease
            self._index(lease)
        due = due_ms(lease)
        if due is not None and (before is None or due != due_ms(before)):
            self.deadlines.push(due, lease.id)
        self.standings.note(before, lease if lease.state is not LeaseState.ENDED else None)
        self.deadlines.trim(self.leases)
        for share in before.shares if before is not None else ():
            self._tidy(share.device_id)

    def waiting(self) -> Sequence[Lease]:
        """List the requests in the order of arrival."""
        return self._waiting.copy()

    def any_waiting(self) -> bool:
        """Whether there is any request in the queue."""
        return bool(self._arrivals)

    def on_node(self, node_id: str) -> list[Lease]:
        """Leases whose shares are on a node."""
        return [self.leases[lease_id] for lease_id in self._by_node.get(node_id, ())]

    def of_holder(self, owner: str, key: str) -> list[Lease]:
        """Leases that a holder has or waits for; not those that are ending."""
        return [self.leases[lease_id] for lease_id in self._by_holder.get((owner, key), ())]

    def _index(self, lease: Lease) -> None:
        if lease.state is LeaseState.QUEUED:
            key = (lease.requested_ms, lease.id)
            place = bisect_left(self._arrivals, key)
            self._arrivals.insert(place, key)
            self._waiting.insert(place, lease)
        if lease.state in HOLDING:
            self._by_node.setdefault(lease.node_id, {})[lease.id] = None
            for share in reserved_by(lease):
                self.account(share.device_id).take(lease, share)
        if lease.state in OCCUPYING:
            self._by_holder.setdefault((lease.owner, lease.holder.key), {})[lease.id] = None

    def _unindex(self, lease: Lease) -> None:
        if lease.state is LeaseState.QUEUED:
            place = bisect_left(self._arrivals, (lease.requested_ms, lease.id))
            del self._arrivals[place], self._waiting[place]
        if lease.state in HOLDING:
            _discard(self._by_node, lease.node_id, lease.id)
            for share in reserved_by(lease):
                self.accounts[share.device_id].give_back(lease, share)
        if lease.state in OCCUPYING:
            _discard(self._by_holder, (lease.owner, lease.holder.key), lease.id)

    def _tidy(self, device_id: str) -> None:
        account = self.accounts.get(device_id)
        if account is None:
            return
        account.settle()
        if account.unused:
            del self.accounts[device_id]

    # --- devices and nodes ----------------------------------------------------------------------

    def account(self, device_id: str) -> Account:
        """Return the account of a device, made when there is none."""
        account = self.accounts.get(device_id)
        if account is None:
            account = self.accounts[device_id] = Account(device_id)
        return account

    def devices(self) -> dict[str, Device]:
        """Return devices by id, as last reported."""
        return {key: it.device for key, it in self.accounts.items() if it.device is not None}

    def withheld(self, account: Account) -> Withheld | None:
        """Say why a device is not offered; None when it is."""
        device = account.device
        if device is None:
            return Withheld.AGENT_AWAY
        record = self.nodes[device.node_id]
        if not record.node.connected:
            return Withheld.AGENT_AWAY
        if device.taken_by:
            return Withheld.TAKEN
        if device.health is Health.FAILED:
            return Withheld.FAILED
        if account.overdue:
            return Withheld.QUARANTINED
        return Withheld.FENCING if record.fencing else None

    def connected(self, node_id: str) -> bool:
        """Whether the agent of a node is connected."""
        record = self.nodes.get(node_id)
        return record is not None and record.node.connected

    def settled(self) -> bool:
        """Whether all known nodes have reported their devices, so that no device can be still to come."""
        return bool(self.nodes) and all(record.joined for record in self.nodes.values())

    def expect_node(self, node_id: str, until_ms: int) -> None:
        """Note a node that leases are on, whose agent has not joined yet."""
        node = Node(id=node_id, hostname=node_id, connected=False)
        self.nodes.setdefault(node_id, NodeRecord(node=node, grace_until_ms=until_ms))

    def adopt_nodes(self, other: Ledger) -> None:
        """Take over what another ledger knows of nodes and their devices."""
        for node_id, record in other.nodes.items():
            self.nodes[node_id] = replace(record, fencing=set(record.fencing))
        for device in other.devices().values():
            self.account(device.id).report(device)
        self.topology += 1

    def join(self, node_id: str, hostname: str, devices: Iterable[Device]) -> None:
        """Note that a node's agent is connected, with these devices."""
        node = Node(id=node_id, hostname=hostname or node_id, connected=True)
        record = self.nodes.setdefault(node_id, NodeRecord(node=node))
        record.node, record.joined, record.grace_until_ms = node, True, None
        self.report_devices(node_id, devices)

    def report_devices(self, node_id: str, devices: Iterable[Device]) -> bool:
        """Replace the devices of a node; return whether anything is different now.

        A device that another connected node has reported stays there: an id is one device.
        """
        record = self.nodes[node_id]
        ours = {it.id: it for it in devices if it.node_id == node_id and not self._elsewhere(it)}
        changed = record.devices != tuple(ours)
        for device_id in set(record.devices) - ours.keys():
            self._forget_device(node_id, device_id)
        for device in ours.values():
            account = self.account(device.id)
            changed = changed or account.device != device
            account.report(device)
        record.devices = tuple(ours)
        self.topology += changed
        return changed

    def _forget_device(self, node_id: str, device_id: str) -> None:
        account = self.accounts.get(device_id)
        if account is not None and account.device is not None and account.device.node_id == node_id:
            account.report(None)
            self._tidy(device_id)

    def _elsewhere(self, device: Device) -> bool:
        account = self.accounts.get(device.id)
        known = account.device if account is not None else None
        return known is not None and known.node_id != device.node_id and self.connected(known.node_id)

    def leave(self, node_id: str, grace_until_ms: int) -> None:
        """Note that the connection to a node's agent is lost."""
        record = self.nodes[node_id]
        record.node = Node(id=node_id, hostname=record.node.hostname, connected=False)
        record.grace_until_ms = grace_until_ms
        record.fencing.clear()

    def give_up(self, node_id: str) -> None:
        """Stop expecting the agent of a node soon; forget a node that never joined."""
        record = self.nodes[node_id]
        record.grace_until_ms = None
        if not record.joined:
            del self.nodes[node_id]


def _discard(index: dict[_Key, dict[str, None]], key: _Key, lease_id: str) -> None:
    inner = index[key]
    del inner[lease_id]
    if not inner:
        del index[key]
