"""How a blocked request could be served by taking leases back: the fewest, and the best to take.

Rules of this module: it plans and changes nothing. What was planned for earlier requests counts as done, and
what has been told already that it is taken back goes before all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account, too_many
from jupyter_gpupool.core.asks import ask_of
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.entitlement import Ground
from jupyter_gpupool.core.fitting import memory_for
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.placement.rooms import Ask
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import NO_PART, Part, Together, reserved_by

#: At how many devices is looked for one request.
_TRIED = 64
#: Devices that are offered and large enough for a request.
Usable = Sequence[tuple[Account, Device]]


class Taken(NamedTuple):
    """A lease that may be taken back for a request.

    Attributes
    ----------
    lease : Lease
        It.
    ground : Ground
        Why it may.
    key : tuple of int
        Where it stands among others: what is taken first has the smallest.
    """

    lease: Lease
    ground: Ground
    key: tuple[int, ...]


class Plan(NamedTuple):
    """What serves one request.

    Attributes
    ----------
    victims : tuple of Taken
        Leases to take back; empty where the room is on its way.
    devices : tuple of str
        The devices that the request would get.
    """

    victims: tuple[Taken, ...]
    devices: tuple[str, ...]


#: Says on which ground, and in which place, a lease may be taken back; None when it may not.
May = Callable[[Lease], Taken | None]
#: Finds a device that a request could use; None when it could not.
Find = Callable[[str], tuple[Account, Device] | None]


class Shelf:
    """Leases that come into question, by device: the best first, and the devices with the best first.

    Parameters
    ----------
    leases : iterable of Lease
        The leases; each counts once.
    key : callable
        Where one stands: what is taken first has the smallest.
    """

    def __init__(self, leases: Iterable[Lease], key: Callable[[Lease], tuple[int, ...]]) -> None:
        self.there: dict[str, list[Lease]] = {}
        for lease in sorted({it.id: it for it in leases}.values(), key=lambda it: (*key(it), it.id)):
            for device_id in _devices_of(lease):
                self.there.setdefault(device_id, []).append(lease)


class Rooms:
    """Devices as they would be with some leases gone and some requests granted.

    Parameters
    ----------
    ledger : Ledger
        Devices and leases as they are.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: Leases that are on their way out, or are planned to be.
        self.gone: set[str] = set(ledger.activity.ending)
        #: Devices on which anything is different from how it is.
        self.touched: dict[str, None] = {}
        for lease_id in ledger.activity.ending:  # in its order: a set has another one each time
            self._touch(ledger.leases[lease_id])
        #: Device -> owner, thousandths and bytes of what is granted there.
        self._promised: dict[str, list[tuple[str, int, int]]] = {}
        #: CPU device of a node -> thousandths of a core and bytes of what is granted beside devices there.
        self._beside: dict[str, list[tuple[int, int]]] = {}
        #: Devices that an earlier request keeps for itself.
        self.kept: set[str] = set()

    def _touch(self, lease: Lease) -> None:
        self.touched.update(dict.fromkeys(_devices_of(lease)))

    def lose(self, lease: Lease) -> None:
        """Count a lease as gone."""
        self.gone.add(lease.id)
        self._touch(lease)

    def do(self, plan: Plan, request: Lease) -> None:
        """Count a plan as carried out."""
        for taken in plan.victims:
            self.lose(taken.lease)
        for device_id in plan.devices:
            device = self._ledger.accounts[device_id].device
            if device is not None:
                milli, memory_bytes = _size(device, request.want)
                self._promised.setdefault(device_id, []).append((request.owner, milli, memory_bytes))
                self.touched[device_id] = None
        for account, ask in self.hosts(plan.devices, request) if request.want.asks_host else ():
            if account is not None:
                self._beside.setdefault(account.device_id, []).append((ask.cpu_milli, ask.memory_bytes))

    def hosts(self, device_ids: Iterable[str], request: Lease) -> list[tuple[Account | None, Ask]]:
        """List what a request with these devices takes of their nodes beside them."""
        devices = (self._ledger.accounts[it].device for it in device_ids)
        nodes = Counter(it.node_id for it in devices if it is not None)
        return [
            (self._ledger.host_of(it), ask_of(request.want, devices=count)) for it, count in nodes.items()
        ]

    def _staying(self, account: Account, going: Set[str]) -> list[Lease]:
        """List who has anything of a device when further leases are gone."""
        return [it for it in account.all_leases() if it.id not in self.gone and it.id not in going]

    def fits_beside(self, account: Account, ask: Ask, request: Lease, gone: Iterable[str]) -> bool:
        """Whether a node has room for what a request takes beside its devices, with further leases gone."""
        device, going = account.device, {*gone}
        if device is None or account.device_id in self.kept:
            return False
        together = Together(device, self._staying(account, going))
        together.add(request, NO_PART, Part(ask.cpu_milli, ask.memory_bytes))
        cores, size = together.cpu_milli, together.memory_bytes
        for more, more_bytes in self._beside.get(account.device_id, ()):
            cores, size = cores + more, size + more_bytes
        for _, milli, more_bytes in self._promised.get(account.device_id, ()):
            cores, size = cores + milli * device.compute_units, size + more_bytes
        leasable = device.memory_bytes - (device.unmanaged_bytes or 0)
        return cores <= device.compute_units * WHOLE_MILLI and size <= leasable

    def fits(self, account: Account, device: Device, request: Lease, gone: Iterable[str] = ()) -> bool:
        """Whether a request fits on a device with further leases gone."""
        if device.id in self.kept:
            return False
        promised, going = self._promised.get(device.id, []), {*gone}
        staying = (it for it in account.leases if it not in self.gone and it not in going)
        left = [self._ledger.leases[it] for it in staying]
        if device.whole_only and (left or promised):
            return False
        owners = {it.owner for it in left} | {owner for owner, _, _ in promised} | {request.owner}
        if too_many(device, len(left) + len(promised) + 1, len(owners)):
            return False
        milli, memory_bytes = _size(device, request.want)
        if account.beside:
            together, units = Together(device, self._staying(account, going)), max(1, device.compute_units)
            together.add(request, Part(milli * units, memory_bytes), NO_PART)
            milli, memory_bytes = -(-together.cpu_milli // units), together.memory_bytes
        else:
            for share in (share for lease in left for share in reserved_by(lease)):
                if share.device_id == device.id:
                    milli += share.compute_milli
                    memory_bytes += share.memory_bytes
        milli += sum(it for _, it, _ in promised)
        memory_bytes += sum(it for _, _, it in promised)
        return milli <= WHOLE_MILLI and memory_bytes <= device.memory_bytes - (device.unmanaged_bytes or 0)


def _devices_of(lease: Lease) -> list[str]:
    """List the devices that a lease takes anything of."""
    return [*(it.device_id for it in lease.shares), *(it.device_id for it in lease.beside)]


def _size(device: Device, want: Want) -> tuple[int, int]:
    """Return what a request takes of a device that is large enough for it."""
    if device.whole_only:
        return WHOLE_MILLI, device.memory_bytes - (device.unmanaged_bytes or 0)
    return want.compute_milli, memory_for(device, want.compute_milli, want.memory_bytes)


def plan(rooms: Rooms, request: Lease, shelf: Shelf, find: Find, may: May) -> Plan | None:
    """Plan how a request for one device is served.

    Parameters
    ----------
    rooms : Rooms
        What is planned already.
    request : Lease
        The request.
    shelf : Shelf
        What comes into question.
    find : callable
        Finds devices that it could use.
    may : callable
        Says what may be taken back for it.

    Returns
    -------
    Plan or None
        The one that interrupts the fewest holders; None when nothing that may be done would help.
    """
    best: Plan | None = None
    tried = 0
    for device_id in dict.fromkeys((*rooms.touched, *shelf.there)):
        found = find(device_id)
        if found is None:
            continue
        one = _on_device(rooms, request, *found, shelf, may)
        if one is not None and (best is None or _cost(one) < _cost(best)):
            best = one
        tried += 1
        # the best lease of the next device is worse than that of this one
        if tried == _TRIED or (best is not None and not best.victims):
            break
        if best is not None and device_id not in rooms.touched and _cost(best)[:2] <= (0, 1):
            break
    return best


def plan_gang(rooms: Rooms, request: Lease, shelf: Shelf, usable: Usable, may: May) -> Plan | None:
    """Plan the same for a request for several devices; ``usable`` are those near it."""
    if request.want.spread:
        return _gang(rooms, request, usable, shelf, may)
    by_node: dict[str, list[tuple[Account, Device]]] = {}
    for account, device in usable:
        by_node.setdefault(device.node_id, []).append((account, device))
    gangs = [
        _gang(rooms, request, it, shelf, may) for it in by_node.values() if len(it) >= request.want.count
    ]
    return min((it for it in gangs if it is not None), key=_cost, default=None)


def _gang(rooms: Rooms, request: Lease, usable: Usable, shelf: Shelf, may: May) -> Plan | None:
    """Choose the devices on which the fewest are interrupted; None when there are not enough."""
    found = [_on_device(rooms, request, *it, shelf, may) for it in usable]
    plans = sorted((it for it in found if it is not None), key=_cost)[: request.want.count]
    if len(plans) < request.want.count:
        return None
    victims = {it.lease.id: it for plan in plans for it in plan.victims}
    devices = tuple(device for plan in plans for device in plan.devices)
    if request.want.asks_host and not _free_hosts(rooms, request, devices, victims, shelf, may):
        return None
    return Plan(tuple(victims.values()), devices)


def _free_hosts(
    rooms: Rooms, request: Lease, devices: tuple[str, ...], victims: dict[str, Taken], shelf: Shelf, may: May
) -> bool:
    """Take further leases of the devices' nodes back, until there is room beside the devices, too."""
    for account, ask in rooms.hosts(devices, request):
        waiting = iter(shelf.there.get(account.device_id, ())) if account is not None else iter(())
        while account is None or not rooms.fits_beside(account, ask, request, victims):
            taken = next(
                (it for lease in waiting if lease.id not in victims and (it := may(lease)) is not None), None
            )
            if taken is None:
                return False
            victims[taken.lease.id] = taken
    return True


def _on_device(
    rooms: Rooms, request: Lease, account: Account, device: Device, shelf: Shelf, may: May
) -> Plan | None:
    """Take leases of one device back, best first, until the request fits; then spare who need not go."""
    chosen: list[Taken] = []
    waiting = iter(shelf.there.get(device.id, ()))
    while not rooms.fits(account, device, request, [it.lease.id for it in chosen]):
        taken = next((it for lease in waiting if (it := may(lease)) is not None), None)
        if taken is None:
            return None
        chosen.append(taken)
    for one in reversed(chosen[:-1]):
        others = [it for it in chosen if it is not one]
        if rooms.fits(account, device, request, [it.lease.id for it in others]):
            chosen = others
    return Plan(tuple(chosen), (device.id,))


def _cost(one: Plan) -> tuple[int, int, tuple[int, ...]]:
    """Order plans: fewer interrupted in their work, fewer told anew, then the better victims."""
    fresh = [it for it in one.victims if it.lease.notice_ms is None]
    busy = sum(it.ground is not Ground.IDLE for it in fresh)
    return busy, len(fresh), max((it.key for it in fresh), default=())
