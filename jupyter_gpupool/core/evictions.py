"""How a blocked request could be served by taking leases back: the fewest, and the best to take.

Rules of this module: it plans and changes nothing. What was planned for earlier requests counts as done, and
what has been told already that it is taken back goes before all others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account, reserved_by, too_many
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.entitlement import Ground
from jupyter_gpupool.core.fitting import memory_for
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.shares import WHOLE_MILLI

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


#: What may be taken back by device, best first.
_There = Mapping[str, Sequence[Taken]]


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
        #: Device -> owner, thousandths and bytes of what is granted there.
        self._promised: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
        #: Devices that an earlier request keeps for itself.
        self.kept: set[str] = set()

    @property
    def touched(self) -> set[str]:
        """Devices on which anything is different from how it is."""
        gone = (self._ledger.leases[it] for it in self.gone)
        return {share.device_id for lease in gone for share in lease.shares} | self._promised.keys()

    def do(self, plan: Plan, request: Lease, usable: Usable) -> None:
        """Count a plan as carried out."""
        self.gone.update(it.lease.id for it in plan.victims)
        devices = {device.id: device for _, device in usable}
        for device_id in plan.devices:
            device = devices[device_id]
            milli, memory_bytes = _size(device, request.want)
            self._promised[device_id].append((request.owner, milli, memory_bytes))

    def fits(self, account: Account, device: Device, request: Lease, gone: Iterable[str] = ()) -> bool:
        """Whether a request fits on a device with further leases gone."""
        if device.id in self.kept:
            return False
        promised = self._promised.get(device.id, [])
        leaving = self.gone.union(gone)
        left = [self._ledger.leases[it] for it in account.leases if it not in leaving]
        if device.whole_only and (left or promised):
            return False
        owners = {it.owner for it in left} | {owner for owner, _, _ in promised} | {request.owner}
        if too_many(device, len(left) + len(promised) + 1, len(owners)):
            return False
        milli, memory_bytes = _size(device, request.want)
        for lease in left:
            for share in reserved_by(lease):
                if share.device_id == device.id:
                    milli += share.compute_milli
                    memory_bytes += share.memory_bytes
        milli += sum(it for _, it, _ in promised)
        memory_bytes += sum(it for _, _, it in promised)
        return milli <= WHOLE_MILLI and memory_bytes <= device.memory_bytes - (device.unmanaged_bytes or 0)


def _size(device: Device, want: Want) -> tuple[int, int]:
    """Return what a request takes of a device that is large enough for it."""
    if device.whole_only:
        return WHOLE_MILLI, device.memory_bytes - (device.unmanaged_bytes or 0)
    return want.compute_milli, memory_for(device, want.compute_milli, want.memory_bytes)


def plan(rooms: Rooms, request: Lease, usable: Usable, may: Sequence[Taken]) -> Plan | None:
    """Plan how a request is served.

    Parameters
    ----------
    rooms : Rooms
        What is planned already.
    request : Lease
        The request.
    usable : sequence of (Account, Device)
        Where it could be granted.
    may : sequence of Taken
        What may be taken back for it.

    Returns
    -------
    Plan or None
        The one that interrupts the fewest holders; None when nothing that may be done would help.
    """
    want = request.want
    there: defaultdict[str, list[Taken]] = defaultdict(list)
    for taken in sorted(may, key=lambda it: it.key):
        for share in taken.lease.shares:
            there[share.device_id].append(taken)
    if want.count == 1:
        touched = rooms.touched | there.keys()
        found = [_on_device(rooms, request, *it, there) for it in usable if it[1].id in touched]
        return min((it for it in found if it is not None), key=_cost, default=None)
    if want.spread:
        return _gang(rooms, request, usable, there)
    by_node: dict[str, list[tuple[Account, Device]]] = {}
    for account, device in usable:
        by_node.setdefault(device.node_id, []).append((account, device))
    gangs = [_gang(rooms, request, it, there) for it in by_node.values() if len(it) >= want.count]
    return min((it for it in gangs if it is not None), key=_cost, default=None)


def _gang(rooms: Rooms, request: Lease, usable: Usable, there: _There) -> Plan | None:
    """Choose the devices on which the fewest are interrupted; None when there are not enough."""
    found = [_on_device(rooms, request, *it, there) for it in usable]
    plans = sorted((it for it in found if it is not None), key=_cost)[: request.want.count]
    if len(plans) < request.want.count:
        return None
    victims = {it.lease.id: it for plan in plans for it in plan.victims}
    return Plan(tuple(victims.values()), tuple(device for plan in plans for device in plan.devices))


def _on_device(rooms: Rooms, request: Lease, account: Account, device: Device, there: _There) -> Plan | None:
    """Take leases of one device back, best first, until the request fits; then spare who need not go."""
    chosen: list[Taken] = []
    waiting = list(there.get(device.id, ()))
    while not rooms.fits(account, device, request, [it.lease.id for it in chosen]):
        if not waiting:
            return None
        chosen.append(waiting.pop(0))
    for one in reversed(chosen.copy()):
        others = [it for it in chosen if it is not one]
        if rooms.fits(account, device, request, [it.lease.id for it in others]):
            chosen = others
    return Plan(tuple(chosen), (device.id,))


def _cost(one: Plan) -> tuple[int, int, tuple[int, ...]]:
    """Order plans: fewer interrupted in their work, fewer told anew, then the better victims."""
    fresh = [it for it in one.victims if it.lease.notice_ms is None]
    busy = sum(it.ground is not Ground.IDLE for it in fresh)
    return busy, len(fresh), max((it.key for it in fresh), default=())
