"""The ledger: live leases, devices and nodes, and every index that is derived from them.

Rules of this module: a lease changes only through `Ledger.put`, which keeps all indexes in step; nothing here
decides anything, and every method either completes or changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.deadlines import DeadlineHeap, due_ms
from jupyter_gpupool.core.devices import Device, DeviceKind, Health, Withheld
from jupyter_gpupool.core.drained import Drain, Drains
from jupyter_gpupool.core.estimates import History
from jupyter_gpupool.core.hooks import NoStandings, StandingsBook, activity_book
from jupyter_gpupool.core.leases import HOLDING, OCCUPYING, Lease, LeaseState, Share
from jupyter_gpupool.core.nodes import Node, NodeRecord
from jupyter_gpupool.core.parts import Parts
from jupyter_gpupool.core.reservations import Reservations
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import is_counted_once, other_way, reserved_by
from jupyter_gpupool.core.waiting import Waiting

_Key = TypeVar("_Key")


#: Lease id and generation of a holder.
Process = tuple[str, int]


class Watcher(Protocol):
    """What is told of nodes that change."""

    def device_changed(self, node_id: str, device_id: str) -> None:
        """Note that what is taken of one device of a node has changed, and nothing else there."""

    def node_changed(self, node_id: str) -> None:
        """Note that what is taken of a node, or whether it is offered, has changed."""

    def node_described(self, node_id: str) -> None:
        """Note that the devices of a node are others, or are described anew."""


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
    hostnames : dict of str to str
        Nodes by what people call them; the one that joined last of several of one name.
    topology : int
        Grows whenever a device comes, goes, or is described anew.
    standings : StandingsBook
        How owners stand.
    activity : ActivityBook
        What holders do.
    history : History
        For how long leases have been held.
    reservations : Reservations
        What is reserved for groups at some times.
    waitlist : Waiting
        The requests that wait.
    parts : Parts
        Which processes have joined leases on other nodes than their holders'.
    drains : Drains
        Which nodes take no new leases because an administrator wants that.
    """

    def __init__(self, standings: StandingsBook | None = None) -> None:
        self.standings = standings or NoStandings()
        self.activity = activity_book()
        self.history = History()
        self.reservations = Reservations()
        self.leases: dict[str, Lease] = {}
        self.accounts: dict[str, Account] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.deadlines = DeadlineHeap()
        self.accepting = True
        self.topology = 0
        self.hostnames: dict[str, str] = {}
        self.waitlist = Waiting()
        self.parts = Parts()
        self.drains = Drains()
        self._watchers: list[Watcher] = []
        #: Nodes whose leases end unless their agents are back, and those that have not joined.
        self._away: dict[str, None] = {}
        self._strangers: dict[str, None] = {}
        self._fenced: dict[Process, dict[str, None]] = {}
        self._capacity: dict[str, Counter[DeviceKind]] = {}
        self._capacities: Counter[DeviceKind] = Counter()
        self._by_node: dict[str, dict[str, None]] = {}
        self._by_owner: dict[str, dict[str, None]] = {}
        self._by_holder: dict[tuple[str, str], dict[str, None]] = {}

    # --- leases ---------------------------------------------------------------------------------

    def put(self, lease: Lease) -> None:
        """Make ``lease`` the current value of its id; an ENDED one is dropped."""
        before = self.leases.get(lease.id)
        if before is not None:
            self._unindex(before)
        if lease.state is LeaseState.ENDED:
            self.leases.pop(lease.id, None)
            self.parts.forget(lease.id)
        else:
            self.leases[lease.id] = lease
            self._index(lease)
        others = self._by_holder.get((lease.owner, lease.holder.key), ())
        if len(others) > 1 or (others and lease.id not in others):
            self._set_apart([self.leases[it] for it in others])
        due = due_ms(lease)
        if due is not None and (before is None or due != due_ms(before)):
            self.deadlines.push(due, lease.id)
        self.standings.note(before, lease)
        self.activity.follow(before, lease)
        self.history.note(before, lease)
        self.deadlines.trim(self.leases)
        for share in before.shares if before is not None else ():
            self._changed(share.device_id)
            self._tidy(share.device_id)
        for part in before.beside if before is not None else ():
            self._changed(part.device_id)
            self._tidy(part.device_id)
        came = before is None or before.node_id != lease.node_id
        for part in lease.beside if came else ():
            self._changed(part.device_id)
        for share in lease.shares if came else ():
            self._changed(share.device_id)

    def _set_apart(self, leases: Sequence[Lease]) -> None:
        """See that requests are looked at by themselves that count together with what their holder has."""
        for lease in leases:
            if lease.state is LeaseState.QUEUED and is_counted_once(lease.want):
                apart = any(other_way(lease.want, it) for it in leases if it is not lease)
                self.waitlist.set_apart(lease, apart=apart)

    def watch(self, watcher: Watcher) -> None:
        """Have somebody told of every node that changes."""
        self._watchers.append(watcher)

    def _changed(self, device_id: str) -> None:
        account = self.accounts.get(device_id)
        if account is not None and account.device is not None:
            for watcher in self._watchers:
                watcher.device_changed(account.device.node_id, device_id)

    def _node_changed(self, node_id: str) -> None:
        for watcher in self._watchers:
            watcher.node_changed(node_id)

    def waiting(self) -> Sequence[Lease]:
        """List the requests in the order of arrival."""
        return self.waitlist.all()

    def any_waiting(self) -> bool:
        """Whether there is any request in the queue."""
        return len(self.waitlist) > 0

    def on_node(self, node_id: str) -> list[Lease]:
        """Leases whose shares are on a node."""
        return [self.leases[lease_id] for lease_id in self._by_node.get(node_id, ())]

    def touching(self, node_id: str) -> list[Lease]:
        """Leases that belong to a node, and those that have a share of one of its devices."""
        known = (self.accounts.get(it) for it in self.nodes[node_id].devices)
        ids = dict.fromkeys(self._by_node.get(node_id, ()))
        for account in known:
            if account is not None and account.device is not None and account.device.node_id == node_id:
                ids.update(dict.fromkeys(account.leases))
        return [self.leases[lease_id] for lease_id in ids]

    def shares_on(self, lease: Lease, node_id: str) -> tuple[Share, ...]:
        """Those shares of a lease that are on a node, as far as it is known where devices are."""
        if len(lease.shares) == 1:
            return lease.shares
        return tuple(it for it in lease.shares if self.node_of(it.device_id) in ((), (node_id,)))

    def nodes_of(self, lease: Lease) -> tuple[str, ...]:
        """Return the nodes that a lease has shares on, that of its holder first, as far as they are known."""
        if len(lease.shares) < 2:
            return (lease.node_id,) if lease.node_id else ()
        found = dict.fromkeys((lease.node_id,))
        for share in lease.shares:
            found.update(dict.fromkeys(self.node_of(share.device_id)))
        return tuple(found)

    def unconfirmed(self, lease: Lease) -> tuple[str, ...]:
        """Return the nodes of a lease where something of it may be left."""
        done = self.parts.confirmed(lease.id)
        return tuple(it for it in self.nodes_of(lease) if it not in done)

    def part(self, lease_id: str, generation: int, node_id: str) -> Lease | None:
        """Return the lease that a process on a node may have joined; None if that is not another's node."""
        lease = self.leases.get(lease_id)
        if lease is None or lease.generation != generation or node_id in ("", lease.node_id):
            return None
        return lease if node_id in self.nodes_of(lease) else None

    def of_holder(self, owner: str, key: str) -> list[Lease]:
        """Leases that a holder has or waits for; not those that are ending."""
        return [self.leases[lease_id] for lease_id in self._by_holder.get((owner, key), ())]

    def of_owner(self, owner: str) -> list[Lease]:
        """Leases of an owner whose shares are taken."""
        return [self.leases[lease_id] for lease_id in self._by_owner.get(owner, ())]

    def node_of(self, device_id: str) -> tuple[str, ...]:
        """Return the node that a device is part of; empty when no agent has reported it."""
        account = self.accounts.get(device_id)
        return (account.device.node_id,) if account is not None and account.device is not None else ()

    def _index(self, lease: Lease) -> None:
        if lease.state is LeaseState.QUEUED:
            self.waitlist.add(lease)
        if lease.state in HOLDING:
            self._by_node.setdefault(lease.node_id, {})[lease.id] = None
            self._by_owner.setdefault(lease.owner, {})[lease.id] = None
            for share in reserved_by(lease):
                self.account(share.device_id).take(lease, share)
            for part in lease.beside:
                self.account(part.device_id).take_beside(lease, part)
        if lease.state in OCCUPYING:
            self._by_holder.setdefault((lease.owner, lease.holder.key), {})[lease.id] = None

    def _unindex(self, lease: Lease) -> None:
        if lease.state is LeaseState.QUEUED:
            self.waitlist.remove(lease)
        if lease.state in HOLDING:
            _discard(self._by_node, lease.node_id, lease.id)
            _discard(self._by_owner, lease.owner, lease.id)
            for share in reserved_by(lease):
                self.accounts[share.device_id].give_back(lease, share)
            for part in lease.beside:
                self.accounts[part.device_id].give_back_beside(lease, part)
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

    def host_of(self, node_id: str, *, ever: bool = False) -> Account | None:
        """Return the account of a node's CPU device, of which leases take what they ask for beside shares.

        None where the agent reports none, it is another pool's, or it has failed; and, but for who asks what
        there ever is, where the node is drained.
        """
        record = self.nodes.get(node_id)
        if not ever and self.drains.of(node_id) is not None:
            return None
        for device_id in record.devices if record is not None else ():
            account = self.accounts.get(device_id)
            device = account.device if account is not None else None
            if device is None or device.kind is not DeviceKind.CPU or device.node_id != node_id:
                continue
            if not device.taken_by and device.health is not Health.FAILED:
                return account
        return None

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
        if self.drains.of(device.node_id) is not None:
            return Withheld.DRAINED
        if device.health is Health.FAILED:
            return Withheld.FAILED
        if account.overdue:
            return Withheld.QUARANTINED
        return Withheld.FENCING if record.fencing else None

    def is_up(self, record: NodeRecord) -> bool:
        """Whether a node takes leases, as far as it is about the node and not about its devices."""
        drained = self.drains.of(record.node.id) is not None
        return record.node.connected and not record.fencing and not drained

    def connected(self, node_id: str) -> bool:
        """Whether the agent of a node is connected."""
        record = self.nodes.get(node_id)
        return record is not None and record.node.connected

    def settled(self) -> bool:
        """Whether all known nodes have reported their devices, so that no device can be still to come."""
        return bool(self.nodes) and not self._strangers

    def expect_node(self, node_id: str, until_ms: int) -> None:
        """Note a node that leases are on, whose agent has not joined yet."""
        if node_id not in self.nodes:
            node = Node(id=node_id, hostname=node_id, connected=False)
            self.nodes[node_id] = NodeRecord(node=node, grace_until_ms=until_ms)
            self._away[node_id] = self._strangers[node_id] = None

    @property
    def any_away(self) -> bool:
        """Whether the agent of any node is expected back."""
        return bool(self._away)

    def away(self) -> list[str]:
        """List the nodes whose leases end unless their agents are back in time."""
        return list(self._away)

    def adopt_nodes(self, other: Ledger) -> None:
        """Take over what another ledger knows of nodes and their devices."""
        for node_id, record in other.nodes.items():
            self.nodes[node_id] = replace(record, fencing=set())
            self.fence(node_id, record.fencing)
        self._away, self._strangers = dict(other._away), dict(other._strangers)
        self.hostnames = dict(other.hostnames)
        for device in other.devices().values():
            self.account(device.id).report(device)
        for node_id in self.nodes:
            self._described(node_id)

    def join(self, node_id: str, hostname: str, devices: Iterable[Device]) -> None:
        """Note that a node's agent is connected, with these devices."""
        node = Node(id=node_id, hostname=hostname or node_id, connected=True)
        self.hostnames[node.hostname] = node_id
        record = self.nodes.setdefault(node_id, NodeRecord(node=node))
        record.node, record.joined, record.grace_until_ms = node, True, None
        self._away.pop(node_id, None)
        self._strangers.pop(node_id, None)
        if not self.report_devices(node_id, devices):
            self._node_changed(node_id)

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
        if changed:
            self._described(node_id)
        return changed

    def _described(self, node_id: str) -> None:
        """Take over that the devices of a node are others."""
        self.topology += 1
        for watcher in self._watchers:
            watcher.node_described(node_id)
        self._capacities.subtract(self._capacity.pop(node_id, Counter()))
        known = (self.accounts.get(it) for it in self.nodes[node_id].devices)
        own = [it.device for it in known if it is not None and it.device is not None]
        counts = self._capacity[node_id] = Counter()
        for device in own:
            if device.node_id == node_id:
                part = device.parent_milli if device.whole_only else 0
                counts[device.kind] += part or WHOLE_MILLI
        self._capacities.update(counts)
        self.standings.capacity(dict(self._capacities))

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
        self._away[node_id] = None
        self.fence(node_id, ())
        self._node_changed(node_id)

    def fence(self, node_id: str, holders: Iterable[Process]) -> bool:
        """Note which holders must be gone before a node is offered; return whether they are others."""
        record = self.nodes[node_id]
        before, record.fencing = record.fencing, set(holders)
        for process in before - record.fencing:
            _discard(self._fenced, process, node_id)
        for process in record.fencing - before:
            self._fenced.setdefault(process, {})[node_id] = None
        if before != record.fencing:
            self._node_changed(node_id)
        return before != record.fencing

    def unfence(self, process: Process, node_id: str = "") -> bool:
        """Note that a holder without a lease is gone, from one node or all; return whether one was known."""
        nodes = [it for it in self._fenced.get(process, ()) if node_id in ("", it)]
        for node_id in nodes:
            self.fence(node_id, self.nodes[node_id].fencing - {process})
        return bool(nodes)

    def drain(self, drain: Drain) -> None:
        """Take no new leases on a node."""
        self.drains.put(drain)
        if drain.node_id in self.nodes:
            self._node_changed(drain.node_id)

    def undrain(self, node_id: str) -> None:
        """Take leases on a node again."""
        self.drains.remove(node_id)
        if node_id in self.nodes:
            self._node_changed(node_id)

    def give_up(self, node_id: str) -> None:
        """Stop expecting the agent of a node soon; forget a node that never joined."""
        record = self.nodes[node_id]
        record.grace_until_ms = None
        self._away.pop(node_id, None)
        if not record.joined:
            del self.nodes[node_id]
            self._strangers.pop(node_id, None)


def _discard(index: dict[_Key, dict[str, None]], key: _Key, value: str) -> None:
    inner = index[key]
    del inner[value]
    if not inner:
        del index[key]
