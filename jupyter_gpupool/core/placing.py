"""Where a request would be granted now.

Rules of this module: it finds a place and takes nothing. The node on which a holder has a lease already, or
runs as it says itself, comes first; then the best by the score; of equals, one that the owner has a device of
already. All shares of a request are found at once, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from jupyter_gpupool.core.asks import ask_of
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.field import Field
from jupyter_gpupool.core.fields import Fields
from jupyter_gpupool.core.leases import Holder, HostPart, Lease, Share, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.placement.rooms import Room, fits, taken
from jupyter_gpupool.core.policies.score import ScorePolicy
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import Part, Together, is_counted_once, other_way

_NOBODY: Set[str] = frozenset()


class Choice(NamedTuple):
    """Where a request is granted, and what it gets.

    Attributes
    ----------
    node_id : str
        The node to which its holder belongs.
    kind : DeviceKind
        What the devices are.
    shares : tuple of Share
        One for each device.
    beside : tuple of HostPart
        What it takes of each node beside them, where it asks for that.
    """

    node_id: str
    kind: DeviceKind
    shares: tuple[Share, ...]
    beside: tuple[HostPart, ...] = ()


class _Found(NamedTuple):
    """A node, what is free there for the request, and the devices that it would be."""

    node_id: str
    room: Room
    devices: tuple[int, ...]


class Placer:
    """Finds places."""

    def __init__(self, ledger: Ledger, fields: Fields, policy: ScorePolicy) -> None:
        self._ledger = ledger
        self._fields = fields
        self._policy = policy

    def choose(
        self,
        want: Want,
        owner: str,
        holder: Holder,
        *,
        lifted: Set[str] = _NOBODY,
        gone: Set[str] = _NOBODY,
    ) -> Choice | None:
        """Find the best place for a request; None when there is no room for all of it.

        Parameters
        ----------
        want, owner, holder
            What is asked for, by whom, for whom.
        lifted : set of str
            Requests for which nothing is kept that this one may not take.
        gone : set of str
            Leases that are looked upon as if they had ended.
        """
        homes = [it.node_id for it in self._ledger.of_holder(owner, holder.key) if it.shares]
        if not homes and holder.hostname in self._ledger.hostnames:
            homes = [self._ledger.hostnames[holder.hostname]]
        mine = self._mine(want, owner, holder, gone)
        for field in self._fields.of(want):
            own = self._own_rooms(field, owner, homes, lifted, gone, mine)
            found = self._on_one_node(field, want, own, homes)
            if found is not None:
                return self._choice(field, want, [found])
            if want.spread and want.count > 1 and (across := self._across(field, want, own)):
                return self._choice(field, want, across)
        return None

    def elsewhere(self, lease: Lease, want: Want) -> Choice | None:
        """Find the best place for what a lease is to have, on another node than its own; None without room.

        Parameters
        ----------
        lease : Lease
            Whose holder would move there.
        want : Want
            What it is to have, on one node.
        """
        for field in self._fields.of(want):
            ask, demand = self._fields.ask(want), field.index.demand
            places = []
            for node_id in sorted(field.members.keys() - {lease.node_id}):
                room = self._fields.room(field, node_id, lease.owner)
                if fits(ask, room):
                    scored = self._policy(ask, room, demand)
                    places.append((scored.score, _Found(node_id, room, scored.devices)))
            if places:
                return self._choice(field, want, [max(places, key=lambda it: it[0])[1]])
        return None

    def _mine(self, want: Want, owner: str, holder: Holder, gone: Set[str]) -> dict[str, Part]:
        """Say what of CPU devices is not counted anew, because the holder has it already in the other way."""
        if not is_counted_once(want):
            return {}
        found: dict[str, Part] = {}
        for lease in self._ledger.of_holder(owner, holder.key):
            for device_id in other_way(want, lease) if lease.id not in gone else ():
                account = self._ledger.account(device_id)
                if account.device is not None:
                    staying = (it for it in account.all_leases() if it.id not in gone)
                    together = Together(account.device, staying)
                    found[device_id] = together.uncounted(owner, holder.key, beside=want.asks_host)
        return found

    def _own_rooms(
        self,
        field: Field,
        owner: str,
        homes: list[str],
        lifted: Set[str],
        gone: Set[str],
        mine: Mapping[str, Part],
    ) -> dict[str, Room]:
        """Look at the nodes on which there may be other room for this request than for anybody."""
        leases = [self._ledger.leases[it] for it in gone]
        if self._fields.any_one_owner:
            leases += self._ledger.of_owner(owner)
        devices = [*mine, *(share.device_id for lease in leases for share in lease.shares)]
        if lifted:
            devices += [it for it, kept in self._fields.kept.items() if kept.lease_id in lifted]
        nodes = {*homes, *(node_id for it in devices for node_id in self._ledger.node_of(it))}
        return {
            it: self._fields.room(field, it, owner, lifted, gone, mine)
            for it in sorted(nodes)
            if it in field.members
        }

    def _on_one_node(
        self, field: Field, want: Want, own: Mapping[str, Room], homes: list[str]
    ) -> _Found | None:
        ask, demand = self._fields.ask(want), field.index.demand
        scores = {
            node_id: self._policy(ask, room, demand) for node_id, room in own.items() if fits(ask, room)
        }
        for node_id in homes:
            if node_id in scores:
                return _Found(node_id, own[node_id], scores[node_id].devices)
        best = field.index.best(ask)
        if scores:
            node_id = max(scores, key=lambda it: scores[it].score)
            if best is None or scores[node_id].score >= best.score:
                return _Found(node_id, own[node_id], scores[node_id].devices)
        if best is None:
            return None
        return _Found(best.node, field.index.room(best.node), best.devices)

    def _across(self, field: Field, want: Want, own: Mapping[str, Room]) -> list[_Found]:
        """Find devices on several nodes, one after the other; none unless there are enough."""
        ask, index = self._fields.ask(want, devices=1), field.index
        before = {node_id: index.room(node_id) for node_id in own}
        for node_id, room in own.items():
            index.set_room(node_id, room)
        found: list[_Found] = []
        while len(found) < want.count and (best := index.best(ask)) is not None:
            room = index.room(best.node)
            before.setdefault(best.node, room)
            found.append(_Found(best.node, room, best.devices))
            used = set(best.devices)
            left = tuple(0 if place in used else free for place, free in enumerate(room.devices))
            host = (room.cpu_milli - ask.cpu_milli, room.memory_bytes - ask.memory_bytes)
            index.set_room(best.node, Room(room.model, *host, left, room.device_bytes, room.frame))
        for node_id, room in before.items():
            index.set_room(node_id, room)
        return found if len(found) == want.count else []

    def _choice(self, field: Field, want: Want, found: list[_Found]) -> Choice:
        ask = self._fields.ask(want)
        shares = []
        kind = DeviceKind.CPU
        for node_id, room, devices in found:
            for place in devices:
                account = field.members[node_id][place]
                assert account.device is not None and room.frame is not None  # noqa: S101, PT018 - it fits there
                kind = account.device.kind
                size = taken(ask, room, place)[1]
                milli = WHOLE_MILLI if room.frame.whole[place] else want.compute_milli
                shares.append(Share(device_id=account.device_id, compute_milli=milli, memory_bytes=size))
        beside = self._beside(want, found) if want.asks_host else ()
        return Choice(found[0].node_id, kind, tuple(shares), beside)

    def _beside(self, want: Want, found: list[_Found]) -> tuple[HostPart, ...]:
        """Say what falls to each node of what is asked for beside the shares."""
        devices: dict[str, int] = {}
        for it in found:
            devices[it.node_id] = devices.get(it.node_id, 0) + len(it.devices)
        parts = []
        for node_id, count in devices.items():
            account, ask = self._ledger.host_of(node_id), ask_of(want, devices=count)
            assert account is not None  # noqa: S101 - it fits there
            part = HostPart(
                device_id=account.device_id, cpu_milli=ask.cpu_milli, memory_bytes=ask.memory_bytes
            )
            parts.append(part)
        return tuple(parts)
