"""How a blocked request could be served by taking leases back: the fewest, and the best to take.

Rules of this module: it plans and changes nothing. What was planned for earlier requests counts as done, and
what has been told already that it is taken back goes before all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.entitlement import Ground
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.planned import Plan, Rooms, Taken, devices_of

#: At how many devices is looked for one request.
_TRIED = 64
#: Devices that are offered and large enough for a request.
Usable = Sequence[tuple[Account, Device]]
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
            for device_id in devices_of(lease):
                self.there.setdefault(device_id, []).append(lease)


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
