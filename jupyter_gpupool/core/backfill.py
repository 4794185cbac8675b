"""What is kept for the request that is first in line, so that later ones do not delay it.

The first request of each kind that fits nowhere gets one reservation (EASY backfill): some devices, and the
time at which they are expected to have room. Others may take what will be left beside it then, and those that
end before that time may take all of it.

Rules of this module: it chooses by what is known (holds that end, announced ends, an owner's history); of
what is unknown it expects nothing, and keeps the devices on which least is missing. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.accounts import Account, after_ends
from jupyter_gpupool.core.asks import Kept, ask_of
from jupyter_gpupool.core.deadlines import hold_ends_ms
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.field import Field
from jupyter_gpupool.core.fields import Fields
from jupyter_gpupool.core.fitting import large_enough, memory_for
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.placement.rooms import Ask
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import Part, Together, reserved_by

#: How many nodes are compared: those that come nearest to having room, and those where leases end soon.
_NEAREST, _SOONEST = 8, 16
#: On how many of the nearest all devices are compared; on the others the nearest device.
_WHOLE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Devices that are kept for a request.

    Attributes
    ----------
    lease_id : str
        The request.
    kept : dict of str to Kept
        By device: what others may take of it.
    nodes : tuple of str
        Where they are.
    ready_ms : int or None
        Pool time at which they are expected to have room; None when that is unknown.
    missing_milli : int
        What is missing now, thousandths of devices.
    """

    lease_id: str
    kept: dict[str, Kept]
    nodes: tuple[str, ...]
    ready_ms: int | None
    missing_milli: int


class _Ready(NamedTuple):
    """When one device is expected to have room for a request, and what is left beside it then."""

    unknown: bool
    ready_ms: int
    missing_milli: int
    left_milli: int
    left_bytes: int
    device_id: str
    node_id: str


def reserve(ledger: Ledger, fields: Fields, lease: Lease, now_ms: int) -> Reservation | None:
    """Choose devices for a request that fits nowhere; None when nothing on offer is large enough."""
    want = lease.want
    for field in fields.of(want):
        places = _places(ledger, field, want)
        by_node = [_devices(ledger, field, node_id, lease, now_ms, only) for node_id, only in places.items()]
        if want.spread and want.count > 1:
            by_node = [[it for of_node in by_node for it in of_node]]
        sets = [sorted(it)[: want.count] for it in by_node if len(it) >= want.count]
        if want.asks_host:
            sets = [hosts for it in sets if (hosts := _with_hosts(ledger, it, lease, now_ms))]
        if sets:
            return _reservation(lease.id, min(sets, key=_cost))
    return None


def renewed(
    ledger: Ledger, fields: Fields, lease: Lease, before: Reservation, now_ms: int
) -> Reservation | None:
    """Look at the devices of a reservation anew; None when they cannot be kept any more."""
    for field in fields.of(lease.want):
        found = [
            it
            for node_id in before.nodes
            if node_id in field.members
            for it in _devices(ledger, field, node_id, lease, now_ms)
            if it.device_id in before.kept
        ]
        if len(found) == lease.want.count:
            kept = _with_hosts(ledger, found, lease, now_ms) if lease.want.asks_host else found
            return _reservation(lease.id, kept) if kept else None
    return None


def _cost(devices: list[_Ready]) -> tuple[bool, int, int]:
    """Sort what is ready soonest first; where that is unknown, what needs least."""
    return (
        any(it.unknown for it in devices),
        max(it.ready_ms for it in devices),
        sum(it.missing_milli for it in devices),
    )


def _reservation(lease_id: str, devices: list[_Ready]) -> Reservation:
    unknown = any(it.unknown for it in devices)
    return Reservation(
        lease_id=lease_id,
        kept={it.device_id: Kept(lease_id, it.left_milli, it.left_bytes) for it in devices},
        nodes=tuple(dict.fromkeys(it.node_id for it in devices)),
        ready_ms=None if unknown else max(it.ready_ms for it in devices),
        missing_milli=sum(it.missing_milli for it in devices),
    )


def _places(ledger: Ledger, field: Field, want: Want) -> dict[str, set[str] | None]:
    """List the nodes that are compared, with the devices to look at there; None for all of them."""
    ask = ask_of(want, devices=1 if want.spread else None)
    near = field.near.first(ask, max(_NEAREST, want.count if want.spread else 0))
    whole = len(near) if want.count > 1 else _WHOLE
    found: dict[str, set[str] | None] = dict.fromkeys(it.node for it in near[:whole])
    for it in near[whole:]:
        found[it.node] = {field.members[it.node][place].device_id for place in it.devices}
    for lease_id in ledger.deadlines.soon(_SOONEST):
        lease = ledger.leases.get(lease_id)
        for share in lease.shares if lease is not None else ():
            for node_id in ledger.node_of(share.device_id):
                if node_id not in field.members:
                    continue
                some = found.setdefault(node_id, None if want.count > 1 else set())
                if some is not None:
                    some.add(share.device_id)
    return found


def _devices(
    ledger: Ledger, field: Field, node_id: str, lease: Lease, now_ms: int, only: Set[str] | None = None
) -> list[_Ready]:
    """Look at those devices of a node that are large enough."""
    frame = field.index.room(node_id).frame
    found = []
    for place, account in enumerate(field.members[node_id]):
        device = account.device
        if (
            device is None
            or frame is None
            or not frame.memory[place]
            or (only is not None and device.id not in only)
        ):
            continue
        if large_enough(lease.want, device):
            found.append(_ready(ledger, account, device, lease, now_ms))
    return found


def _size(want: Want, device: Device) -> int:
    """Return the memory that a request needs at least."""
    if device.whole_only:
        return max(1, want.memory_bytes or 0)
    return memory_for(device, want.compute_milli, want.memory_bytes)


def _ready(ledger: Ledger, account: Account, device: Device, lease: Lease, now_ms: int) -> _Ready:
    """Let the leases on a device end one after the other, until there is room."""
    left = _Left(account, device, lease)
    missing, at_ms = left.missing_milli(), now_ms
    ends = ((expected_end_ms(ledger, it, now_ms), it) for it in account.all_leases())
    for end_ms, other in sorted(
        ((end, it) for end, it in ends if end is not None), key=lambda it: (it[0], it[1].id)
    ):
        if left.fits():
            break
        left.end(other)
        at_ms = max(at_ms, end_ms)
    known = left.fits()
    shared = known and not (device.whole_only or device.one_owner or device.most_leases is not None)
    return _Ready(
        not known,
        at_ms if known else 0,
        missing,
        max(0, left.milli - lease.want.compute_milli) if shared else 0,
        max(0, left.size - left.needed) if shared else 0,
        account.device_id,
        device.node_id,
    )


def _with_hosts(ledger: Ledger, devices: list[_Ready], lease: Lease, now_ms: int) -> list[_Ready]:
    """Add the nodes of some devices, for what is asked for beside those; nothing where one is too small."""
    found = list(devices)
    for node_id, count in Counter(it.node_id for it in devices).items():
        account = ledger.host_of(node_id)
        device = account.device if account is not None else None
        if account is None or device is None:
            return []
        ask = ask_of(lease.want, devices=count)
        if ask.cpu_milli > device.compute_units * WHOLE_MILLI or ask.memory_bytes > device.memory_bytes:
            return []
        found.append(_host_ready(ledger, account, device, ask, now_ms))
    return found


def _host_ready(ledger: Ledger, account: Account, device: Device, ask: Ask, now_ms: int) -> _Ready:
    """Let the leases on a node end one after the other, until there is room beside its devices."""
    units = max(1, device.compute_units)
    cores = account.free_cpu_milli - ask.cpu_milli
    size = account.free_memory_bytes - ask.memory_bytes
    missing = max(0, -cores // units, -size * WHOLE_MILLI // max(1, device.memory_bytes))
    ends = [
        (end, lease)
        for lease in account.all_leases()
        if (end := expected_end_ms(ledger, lease, now_ms)) is not None
    ]
    (cores, size), at_ms = after_ends(account, device, Part(cores, size), ends, now_ms)
    known = cores >= 0 and size >= 0
    left = (cores // units, size) if known else (0, 0)
    return _Ready(not known, at_ms if known else 0, missing, *left, account.device_id, device.node_id)


class _Left:
    """What is left of a device while leases on it end."""

    def __init__(self, account: Account, device: Device, lease: Lease) -> None:
        self._device = device
        self._want = lease.want
        self._owner = lease.owner
        self._account = account
        self._owners = dict(account.owners)
        self._count = len(account.leases)
        self.milli = account.free_compute_milli
        self.size = account.left_memory_bytes
        self.needed = _size(lease.want, device)
        self._together = Together(device, account.all_leases()) if account.beside else None

    def end(self, lease: Lease) -> None:
        """Let a lease end."""
        if lease.id in self._account.leases:
            self._count -= 1
            self._owners[lease.owner] -= 1
        if self._together is not None:
            freed = self._together.remove(lease)
            self.milli += freed.cpu_milli // max(1, self._device.compute_units)
            self.size += freed.memory_bytes
            return
        for share in reserved_by(lease):
            if share.device_id == self._account.device_id:
                self.milli += share.compute_milli
                self.size += share.memory_bytes

    def fits(self) -> bool:
        """Whether there is room now."""
        return self.missing_milli() == 0

    def missing_milli(self) -> int:
        """Return what is missing, thousandths of the device."""
        wanted = self._want.compute_milli
        if self._barred():
            return wanted
        lacking = (self.needed - self.size) * WHOLE_MILLI
        return max(0, wanted - self.milli, -(-lacking // max(1, self._device.memory_bytes)))

    def _barred(self) -> bool:
        device = self._device
        if device.whole_only:
            return self._count > 0
        if device.most_leases is not None and self._count >= device.most_leases:
            return True
        others = any(count for owner, count in self._owners.items() if owner != self._owner)
        return device.one_owner and others


def expected_end_ms(ledger: Ledger, lease: Lease, now_ms: int) -> int | None:
    """Pool time at which a lease is expected to end; None when nobody can tell."""
    if lease.state is LeaseState.ENDING:
        return None if lease.overdue else now_ms
    times = [it for it in (lease.notice_ms, hold_ends_ms(lease)) if it is not None]
    end_ms = min(times) if times else hooks.expected_end_ms(ledger, lease, now_ms)
    return None if end_ms is None else max(now_ms, end_ms)
