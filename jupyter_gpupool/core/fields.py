"""The devices that a kind of request means, and what is free on their nodes, kept up to date by each change.

A field is all devices of one kind, or of one name, real or emulated ones. It knows the room on each of its
nodes, and finds the best node for a request without looking at the others. What changes is noted node by
node, and looked at when the field is asked for next.

Rule of this module: a room says what anybody may take. What is kept for a request that is first in line, and
what only the owner of a device may take, is not in it; both are looked at device by device, for the few nodes
that they are about.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.asks import FieldKey, Kept, ask_of, is_model
from jupyter_gpupool.core.devices import Device, DeviceKind, Health
from jupyter_gpupool.core.field import Field
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.nodes import NodeRecord
from jupyter_gpupool.core.placement.demand import Demand, DemandBook, Shape
from jupyter_gpupool.core.placement.rooms import Ask, Frame, Room
from jupyter_gpupool.core.policies.score import ScorePolicy
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import NO_PART, Part, reserved_by

#: How many fields are kept.
_MOST_FIELDS = 64


class _Host(NamedTuple):
    """What is free of a node beside its accelerators, and what it has."""

    cpu_milli: int
    memory_bytes: int
    all_milli: int
    all_bytes: int


_NO_HOST = _Host(0, 0, 0, 0)
#: Nothing that a holder has already.
_NOTHING: Mapping[str, Part] = MappingProxyType({})


class Fields:
    """All fields of a ledger.

    Parameters
    ----------
    ledger : Ledger
        Tells of every node that changes.
    policy : callable
        Scores nodes.
    """

    def __init__(self, ledger: Ledger, policy: ScorePolicy) -> None:
        self._ledger = ledger
        self._policy = policy
        self._fields: OrderedDict[FieldKey, Field] = OrderedDict()
        self._demand = Demand()
        #: What accelerators were asked for.
        self.book = DemandBook({})
        #: By device: what of it others may take while the rest is kept.
        self.kept: dict[str, Kept] = {}
        #: Devices by kind, whether emulated, and whether well; instances of unknown size count apart.
        self._census: Counter[tuple[DeviceKind, bool]] = Counter()
        self._special: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._described: dict[str, tuple[Device, ...]] = {}
        #: Kind, name and whether memory is named -> the fields, as long as no device is described anew.
        self._found: dict[tuple[DeviceKind | None, str, bool, str], list[Field]] = {}
        #: Words of a model's name -> the models that are there and meant.
        self._meant: dict[str, tuple[str, ...]] = {}
        #: By node: the fields that have devices of it, as far as somebody has looked since there were others.
        self._on: dict[str, list[Field]] = {}
        #: Whether anybody has asked for processor or memory beside a share: before that no room tells of it.
        self._hosts = False
        ledger.watch(self)
        for node_id in ledger.nodes:
            self.node_described(node_id)

    # --- what the ledger tells --------------------------------------------------------------------

    def device_changed(self, node_id: str, device_id: str) -> None:
        """Note that what is taken of one device of a node has changed."""
        fields = self._on.get(node_id)
        if fields is None:
            fields = self._on[node_id] = [it for it in self._fields.values() if node_id in it.members]
        for field in fields:
            changed = field.stale.setdefault(node_id, set())
            if changed is not None:
                changed.add(device_id)

    def node_changed(self, node_id: str) -> None:
        """Note that what is taken of a node, or whether it is offered, has changed."""
        for field in self._fields.values():
            field.stale[node_id] = None

    def node_described(self, node_id: str) -> None:
        """Note that the devices of a node are others, or are described anew."""
        self._found.clear()
        self._meant.clear()
        self._count(self._described.pop(node_id, ()), -1)
        devices = tuple(it.device for it in self._accounts(node_id) if it.device is not None)
        if devices:
            self._described[node_id] = devices
            self._count(devices, 1)
        for field in self._fields.values():
            field.stale[node_id] = None
            field.described.add(node_id)

    def _accounts(self, node_id: str) -> Iterator[Account]:
        record = self._ledger.nodes.get(node_id)
        for device_id in record.devices if record is not None else ():
            account = self._ledger.accounts.get(device_id)
            if account is not None and account.device is not None and account.device.node_id == node_id:
                yield account

    def _count(self, devices: tuple[Device, ...], step: int) -> None:
        for device in devices:
            self._census[device.kind, device.emulated] += step
            self._models[device.model] += step * (device.kind is not DeviceKind.CPU)
            self._special["degraded"] += step * (device.health is Health.DEGRADED)
            self._special["one_owner"] += step * device.one_owner
            self._special["unsized"] += step * (device.whole_only and not device.parent_milli)

    @property
    def any_one_owner(self) -> bool:
        """Whether there are devices that take leases of one owner at a time."""
        return self._special["one_owner"] > 0

    def sharing(self, nodes: Iterable[str]) -> set[str]:
        """Return the owners who have devices on some nodes that take leases of one owner at a time."""
        return {
            owner
            for node_id in nodes
            for account in self._accounts(node_id)
            if account.device is not None and account.device.one_owner
            for owner in account.owners
        }

    # --- fields -------------------------------------------------------------------------------------

    def default_kind(self) -> DeviceKind | None:
        """Return the kind of a request that names none: CUDA where there is any, else CPU.

        Real devices count before emulated ones. None while no device is known.
        """
        real = {kind for (kind, emulated), count in self._census.items() if count and not emulated}
        kinds = real or {kind for (kind, _), count in self._census.items() if count}
        if DeviceKind.CUDA in kinds:
            return DeviceKind.CUDA
        return DeviceKind.CPU if kinds else None

    def models(self) -> dict[str, int]:
        """Return how many accelerators of each model there are."""
        return {model: count for model, count in self._models.items() if count}

    def of(self, want: Want) -> list[Field]:
        """Return the fields that a request may use, the first one first: those that are not well come last.

        Where real devices match, emulated ones do not, unless one is meant by name or id alone.
        """
        if want.asks_host and not self._hosts:
            self._tell_of_hosts()
        key = (want.kind, want.device, want.memory_bytes is None, want.model)
        found = self._found.get(key)
        if found is None:
            if len(self._found) > _MOST_FIELDS:
                self._found.clear()
            found = self._found[key] = self._find(want)
        for field in found:
            if field.stale:
                self._catch_up(field)
        return found

    def _find(self, want: Want) -> list[Field]:
        kind = want.kind or (None if want.device else self.default_kind())
        sized = bool(self._special["unsized"]) and (bool(want.device) or want.memory_bytes is not None)
        for emulated in (False, True):
            key = FieldKey(kind, want.device, emulated, sized, degraded=False, model=want.model)
            if not self._may_have(key):
                continue
            field = self._up_to_date(key)
            if field.members:
                if not self._special["degraded"]:
                    return [field]
                return [field, self._up_to_date(key._replace(degraded=True))]
        return []

    def ask(self, want: Want, *, devices: int | None = None) -> Ask:
        """Write what a request takes of one node, with the models that it means."""
        if not want.model:
            return ask_of(want, devices=devices)
        models = self._meant.get(want.model)
        if models is None:
            models = tuple(sorted(it for it in self.models() if is_model(it, want.model)))
            self._meant[want.model] = models
        return ask_of(want, devices=devices, models=models)

    def _tell_of_hosts(self) -> None:
        """Let rooms tell from now on what is free of nodes beside their accelerators."""
        self._hosts = True
        for field in self._fields.values():
            field.stale.update(dict.fromkeys(self._ledger.nodes))

    def _may_have(self, key: FieldKey) -> bool:
        if key.kind is not None:
            return self._census[key.kind, key.emulated] > 0
        return any(count for (_, emulated), count in self._census.items() if emulated is key.emulated)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields.values())

    def count(self, want: Want) -> None:
        """Count a request; prices are worked out anew after so many."""
        if want.kind is not DeviceKind.CPU and self.book.count(self.ask(want)):
            self.reprice()

    def restore(self, rows: Iterable[tuple[Shape, int]]) -> None:
        """Take over what was asked for before."""
        self.book.restore(rows)
        known = self.book.rows()
        if known:
            self.reprice()
        if any(shape.cpu_milli for shape, _ in known):
            self._tell_of_hosts()

    def reprice(self) -> None:
        """Work the prices out anew."""
        self.book.set_capacity(self.models())
        self._demand = self.book.demand()
        for field in self._fields.values():
            if field.key.kind is not DeviceKind.CPU:
                field.index.set_demand(self._demand)

    def _up_to_date(self, key: FieldKey) -> Field:
        field = self._fields.get(key)
        if field is None:
            demand = Demand() if key.kind is DeviceKind.CPU else self._demand
            field = self._fields[key] = Field(key, self._policy, demand)
            field.stale = dict.fromkeys(self._ledger.nodes)
            field.described = set(self._ledger.nodes)
            if len(self._fields) > _MOST_FIELDS:
                self._fields.popitem(last=False)
                self._found.clear()
                self._on.clear()
        else:
            self._fields.move_to_end(key)
        if field.stale:
            self._catch_up(field)
        return field

    def _catch_up(self, field: Field) -> None:
        stale, field.stale = field.stale, {}
        for node_id, device_ids in stale.items():
            if node_id in field.described:
                field.set_members(node_id, self._members(field.key, node_id))
                self._on.pop(node_id, None)
            if node_id in field.members:
                room = None if device_ids is None else self._room_after(field, node_id, device_ids)
                field.set_room(node_id, room or self.room(field, node_id))
        field.described.clear()

    def _room_after(self, field: Field, node_id: str, device_ids: set[str]) -> Room | None:
        """Return what is free on a node after some of its devices changed; None where that is not enough."""
        before = field.index.room(node_id)
        frame = before.frame
        if frame is None:
            return None
        cpu_milli, memory_bytes = before.cpu_milli, before.memory_bytes
        if self._hosts:
            record = self._ledger.nodes[node_id]
            beside = self._beside(record, field, frozenset(), frozenset(), _NOTHING)
            if (beside.all_milli, beside.all_bytes) != (frame.cpu_milli, frame.memory_bytes):
                return None
            cpu_milli, memory_bytes = beside.cpu_milli, beside.memory_bytes
        free, free_bytes = list(before.devices), list(before.device_bytes)
        for place, account in enumerate(field.members[node_id]):
            if account.device_id in device_ids:
                device = account.device
                offered = device is not None and _is_offered(account, device, degraded=field.key.degraded)
                if not (offered and frame.memory[place]):
                    return None
                milli, size = account.open_to("")
                free[place], free_bytes[place] = self._not_kept(account, milli, size)
        return Room(before.model, cpu_milli, memory_bytes, tuple(free), tuple(free_bytes), frame)

    def _not_kept(
        self, account: Account, milli: int, size: int, lifted: Set[str] = frozenset()
    ) -> tuple[int, int]:
        """Return what of that is free of a device is not kept for a request."""
        kept = self.kept.get(account.device_id)
        if kept is None or kept.lease_id in lifted:
            return milli, size
        return min(milli, kept.compute_milli), min(size, kept.memory_bytes)

    def _members(self, key: FieldKey, node_id: str) -> tuple[Account, ...]:
        return tuple(it for it in self._accounts(node_id) if it.device is not None and key.has(it.device))

    def contradiction(self) -> str:
        """Work every room out anew: say which one is wrong; empty when none is."""
        for key in list(self._fields):
            field = self._up_to_date(key)
            for node_id in self._ledger.nodes:
                members = self._members(key, node_id)
                if members != field.members.get(node_id, ()):
                    return f"the devices of {node_id} are not those that are known"
                if members and field.index.room(node_id) != self.room(field, node_id):
                    return f"the room on {node_id} is not what is free there"
        return ""

    # --- rooms --------------------------------------------------------------------------------------

    def room(
        self,
        field: Field,
        node_id: str,
        owner: str = "",
        lifted: Set[str] = frozenset(),
        gone: Set[str] = frozenset(),
        mine: Mapping[str, Part] = _NOTHING,
    ) -> Room:
        """Return what is free on a node: for anybody, or for an owner.

        Parameters
        ----------
        field : Field
            Whose devices.
        node_id : str
            A node that has some.
        owner : str
            Who may share devices that have one owner; empty for anybody.
        lifted : set of str
            Requests for which nothing is kept.
        gone : set of str
            Leases that are looked upon as if they had ended.
        mine : mapping of str to Part
            By CPU device: what of it is not counted anew, because the holder has it in the other way.
        """
        record = self._ledger.nodes[node_id]
        up = self._ledger.is_up(record)
        free: list[int] = []
        free_bytes: list[int] = []
        sizes: list[int] = []
        memory: list[int] = []
        parts: list[int] = []
        whole: list[bool] = []
        model = ""
        for account in field.members[node_id]:
            device = account.device
            part, size, all_bytes, milli, room_bytes = WHOLE_MILLI, 0, 0, 0, 0
            if device is not None:
                part = (device.parent_milli or WHOLE_MILLI) if device.whole_only else WHOLE_MILLI
                if up and _is_offered(account, device, degraded=field.key.degraded):
                    all_bytes = device.memory_bytes
                    size = max(0, device.leasable_bytes)
                    account = self._without(account, gone) if gone else account
                    milli, room_bytes = account.open_to(owner)
                    if account.device_id in mine:
                        milli, room_bytes = account.open_beside(mine[account.device_id])
                    model = model or device.model
            whole.append(device is not None and device.whole_only)
            milli, room_bytes = self._not_kept(account, milli, room_bytes, lifted)
            free.append(milli)
            free_bytes.append(room_bytes)
            sizes.append(size)
            memory.append(all_bytes)
            parts.append(part)
        beside = self._beside(record, field, lifted, gone, mine) if self._hosts and up else _NO_HOST
        frame = Frame(
            tuple(sizes), tuple(memory), tuple(parts), tuple(whole), beside.all_milli, beside.all_bytes
        )
        return Room(model, beside.cpu_milli, beside.memory_bytes, tuple(free), tuple(free_bytes), frame)

    def _beside(
        self, record: NodeRecord, field: Field, lifted: Set[str], gone: Set[str], mine: Mapping[str, Part]
    ) -> _Host:
        """Look at what is free of a node beside its accelerators."""
        account = self._ledger.host_of(record.node.id)
        device = account.device if account is not None else None
        if account is None or device is None or field.key.kind is DeviceKind.CPU:
            return _NO_HOST
        account = self._without(account, gone) if gone else account
        own = mine.get(account.device_id, NO_PART)
        cpu_milli = max(0, account.free_cpu_milli + own.cpu_milli)
        size = max(0, account.left_memory_bytes + own.memory_bytes)
        kept = self.kept.get(account.device_id)
        if kept is not None and kept.lease_id not in lifted:
            cpu_milli = min(cpu_milli, kept.compute_milli * device.compute_units)
            size = min(size, kept.memory_bytes)
        return _Host(cpu_milli, size, device.compute_units * WHOLE_MILLI, device.memory_bytes)

    def _without(self, account: Account, gone: Set[str]) -> Account:
        """Return what the account of a device would be without some leases."""
        if gone.isdisjoint(account.leases) and gone.isdisjoint(account.beside):
            return account
        other = Account(account.device_id)
        other.report(account.device)
        for lease in account.leases.values():
            if lease.id not in gone:
                for share in reserved_by(lease):
                    if share.device_id == account.device_id:
                        other.take(lease, share)
        for lease in account.beside.values():
            if lease.id not in gone:
                for part in lease.beside:
                    if part.device_id == account.device_id:
                        other.take_beside(lease, part)
        return other

    def keep(self, kept: Mapping[str, Kept]) -> None:
        """Keep the rest of some devices for a request.

        What is kept for another request stays its own: the first in line for GPUs may need cores of a node
        that are kept for the first in line for CPUs.
        """
        for device_id, it in kept.items():
            known = self.kept.get(device_id)
            if known is None or (known != it and known.lease_id == it.lease_id):
                self.kept[device_id] = it
                self._device_changed(device_id)

    def release(self, kept: Mapping[str, Kept]) -> None:
        """Keep nothing of some devices for a request any more."""
        for device_id, it in kept.items():
            known = self.kept.get(device_id)
            if known is not None and known.lease_id == it.lease_id:
                del self.kept[device_id]
                self._device_changed(device_id)

    def _device_changed(self, device_id: str) -> None:
        account = self._ledger.accounts.get(device_id)
        if account is not None and account.device is not None:
            self.node_changed(account.device.node_id)


def _is_offered(account: Account, device: Device, *, degraded: bool) -> bool:
    """Whether a device on a node that is well takes leases."""
    if device.taken_by or account.overdue or device.health is Health.FAILED:
        return False
    return degraded or device.health is not Health.DEGRADED
