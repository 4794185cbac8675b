"""Devices as they would be with some leases gone and some requests granted: where plans are tried out.

Rule of this module: it counts what is planned, and plans and changes nothing itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
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


class _Sum(NamedTuple):
    """What is taken of one device in all, thousandths and bytes, and what of that by each lease."""

    milli: int
    memory_bytes: int
    leases: dict[str, tuple[int, int]]


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
        #: What is taken of a device, and by whom, as long as nothing more is planned there.
        self._taken: dict[str, _Sum] = {}
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
        for device_id in devices_of(lease):
            self.touched[device_id] = None
            self._taken.pop(device_id, None)

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
                self._taken.pop(device_id, None)
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

    def _staying(self, leases: Iterable[Lease], going: Set[str]) -> list[Lease]:
        """List those of some leases that are there when further ones are gone."""
        return [it for it in leases if it.id not in self.gone and it.id not in going]

    def fits_beside(self, account: Account, ask: Ask, request: Lease, gone: Iterable[str]) -> bool:
        """Whether a node has room for what a request takes beside its devices, with further leases gone."""
        device, going = account.device, {*gone}
        if device is None or account.device_id in self.kept:
            return False
        together = Together(device, self._staying(account.all_leases(), going))
        together.add(request, NO_PART, Part(ask.cpu_milli, ask.memory_bytes))
        cores, size = together.cpu_milli, together.memory_bytes
        for more, more_bytes in self._beside.get(account.device_id, ()):
            cores, size = cores + more, size + more_bytes
        for _, milli, more_bytes in self._promised.get(account.device_id, ()):
            cores, size = cores + milli * device.compute_units, size + more_bytes
        return cores <= device.compute_units * WHOLE_MILLI and size <= device.leasable_bytes

    def fits(self, account: Account, device: Device, request: Lease, gone: Iterable[str] = ()) -> bool:
        """Whether a request fits on a device with further leases gone."""
        if device.id in self.kept:
            return False
        if device.whole_only or device.one_owner or device.most_leases is not None or account.beside:
            return self._fits_special(account, device, request, gone)
        taken = self._taken.get(device.id) or self._note_taken(account)
        milli, memory_bytes = _size(device, request.want)
        milli, memory_bytes = milli + taken.milli, memory_bytes + taken.memory_bytes
        for lease_id in gone:
            own = taken.leases.get(lease_id, NO_PART)
            milli, memory_bytes = milli - own[0], memory_bytes - own[1]
        return milli <= WHOLE_MILLI and memory_bytes <= device.leasable_bytes

    def _note_taken(self, account: Account) -> _Sum:
        """Add up what is taken of a device that many share."""
        leases = {
            lease.id: (share.compute_milli, share.memory_bytes)
            for lease in account.leases.values()
            if lease.id not in self.gone
            for share in reserved_by(lease)
            if share.device_id == account.device_id
        }
        parts = [*leases.values(), *(it[1:] for it in self._promised.get(account.device_id, ()))]
        taken = _Sum(sum(it for it, _ in parts), sum(it for _, it in parts), leases)
        self._taken[account.device_id] = taken
        return taken

    def _fits_special(self, account: Account, device: Device, request: Lease, gone: Iterable[str]) -> bool:
        """Do the same for a device of which more decides than how much of it is free."""
        promised, going = self._promised.get(device.id, []), {*gone}
        left = self._staying(account.leases.values(), going)
        if device.whole_only and (left or promised):
            return False
        owners = {it.owner for it in left} | {owner for owner, _, _ in promised} | {request.owner}
        if too_many(device, len(left) + len(promised) + 1, len(owners)):
            return False
        milli, memory_bytes = _size(device, request.want)
        if account.beside:
            units = max(1, device.compute_units)
            together = Together(device, self._staying(account.all_leases(), going))
            together.add(request, Part(milli * units, memory_bytes), NO_PART)
            milli, memory_bytes = -(-together.cpu_milli // units), together.memory_bytes
        else:
            for share in (share for lease in left for share in reserved_by(lease)):
                if share.device_id == device.id:
                    milli += share.compute_milli
                    memory_bytes += share.memory_bytes
        milli += sum(it for _, it, _ in promised)
        memory_bytes += sum(it for _, _, it in promised)
        return milli <= WHOLE_MILLI and memory_bytes <= device.leasable_bytes


def devices_of(lease: Lease) -> list[str]:
    """List the devices that a lease takes anything of."""
    return [*(it.device_id for it in lease.shares), *(it.device_id for it in lease.beside)]


def _size(device: Device, want: Want) -> tuple[int, int]:
    """Return what a request takes of a device that is large enough for it."""
    if device.whole_only:
        return WHOLE_MILLI, device.leasable_bytes
    return want.compute_milli, memory_for(device, want.compute_milli, want.memory_bytes)
