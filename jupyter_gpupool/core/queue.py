"""Who is next, on which device, and at which position everybody else waits.

Rules of this module: it looks at the ledger and chooses, and changes nothing. A request that waits keeps the
devices that it could use for itself: later ones pass only where they do not compete with it. A request none
of whose devices is offered competes for nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.policies.order import OrderPolicy
from jupyter_gpupool.core.policies.place import Candidate, PlacePolicy
from jupyter_gpupool.core.shares import proportional_memory

#: How many different combinations of kind and name are remembered with the devices they mean.
_REMEMBERED = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueEntry:
    """One request that waits.

    Attributes
    ----------
    lease : Lease
        The request.
    position : int
        Place among those that compete for the same kind of device; 1 is next.
    reason : str
        What it waits for, one sentence.
    """

    lease: Lease
    position: int
    reason: str


def memory_for(device: Device, compute_milli: int, memory_bytes: int | None) -> int:
    """Return the memory that a share takes: as asked, else the same fraction as of compute; bytes."""
    if memory_bytes is not None:
        return memory_bytes
    leasable = device.memory_bytes - (device.unmanaged_bytes or 0)
    return max(1, proportional_memory(compute_milli, leasable))


class Queue:
    """The waiting requests of a ledger, seen through an order and a placement policy."""

    def __init__(self, ledger: Ledger, order: OrderPolicy, place: PlacePolicy) -> None:
        self._ledger = ledger
        self._order = order
        self._place = place
        #: Kind and name of a request -> the devices it means, as long as no device is described anew.
        self._matching: dict[tuple[DeviceKind | None, str], list[tuple[Account, Device]]] = {}
        self._topology = -1

    def default_kind(self) -> DeviceKind | None:
        """Return the kind of a request that names none: CUDA where there is any, else CPU.

        Real devices count before emulated ones. None while no device is known.
        """
        devices = [it.device for it in self._ledger.accounts.values() if it.device is not None]
        real = [it for it in devices if not it.emulated]
        kinds = {it.kind for it in real or devices}
        if DeviceKind.CUDA in kinds:
            return DeviceKind.CUDA
        return DeviceKind.CPU if kinds else None

    def matching(self, want: Want) -> list[tuple[Account, Device]]:
        """Return the devices that a request means, offered or not, large enough or not.

        Where real devices match, emulated ones do not, unless one is meant by name or id alone.
        """
        if self._topology != self._ledger.topology or len(self._matching) > _REMEMBERED:
            self._topology = self._ledger.topology
            self._matching.clear()
        key = (want.kind, want.device)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = self._match(want)
        return found

    def _match(self, want: Want) -> list[tuple[Account, Device]]:
        kind = want.kind or (None if want.device else self.default_kind())
        found = [
            (account, device)
            for account in self._ledger.accounts.values()
            if (device := account.device) is not None
            and (kind is None or device.kind is kind)
            and (not want.device or want.device in (device.name, device.id))
        ]
        real = [it for it in found if not it[1].emulated]
        return real or found

    def large_enough(self, want: Want, device: Device) -> bool:
        """Whether a request would fit on a device if nothing else were on it."""
        return want.memory_bytes is None or want.memory_bytes <= device.memory_bytes

    def offered(self) -> set[str]:
        """Return the ids of the devices that are offered now."""
        withheld = self._ledger.withheld
        return {key for key, account in self._ledger.accounts.items() if withheld(account) is None}

    def usable(self, want: Want, offered: Set[str]) -> list[tuple[Account, Device]]:
        """Return those of the ``offered`` devices that a request could use, whether or not there is room."""
        return [
            (account, device)
            for account, device in self.matching(want)
            if device.id in offered and self.large_enough(want, device)
        ]

    def fits(self, want: Want, usable: list[tuple[Account, Device]], claimed: set[str]) -> Candidate | None:
        """Choose among ``usable`` devices that nobody has claimed; None when there is no room."""
        candidates = []
        for account, device in usable:
            free_compute_milli = account.free_compute_milli
            if device.id in claimed or want.compute_milli > free_compute_milli:
                continue
            memory_bytes = memory_for(device, want.compute_milli, want.memory_bytes)
            free_memory_bytes = account.free_memory_bytes
            if memory_bytes <= free_memory_bytes:
                candidates.append(
                    Candidate(device, free_compute_milli, free_memory_bytes, want.compute_milli, memory_bytes)
                )
        return self._place(candidates) if candidates else None

    def grants(self, now_ms: int, newcomer: Lease | None = None) -> Iterator[tuple[Lease, Candidate]]:
        """Go through the queue once, and yield each request for which there is room.

        The caller grants what is yielded before it asks for the next: room is looked at anew each time.

        Parameters
        ----------
        now_ms : int
            Pool time.
        newcomer : Lease or None
            A request that is not in the queue yet, to be considered as if it were.
        """
        waiting = [*self._ledger.waiting(), newcomer] if newcomer is not None else self._ledger.waiting()
        offered = self.offered()
        claimed: set[str] = set()
        for lease in self._order(waiting, now_ms):
            if len(claimed) == len(offered):
                return
            usable = self.usable(lease.want, offered)
            choice = self.fits(lease.want, usable, claimed)
            if choice is not None:
                yield lease, choice
            else:
                claimed.update(device.id for _, device in usable)

    def place_for(self, newcomer: Lease, now_ms: int) -> Candidate | None:
        """Find room for a request that would be granted at once; None when it would have to wait."""
        for lease, choice in self.grants(now_ms, newcomer):
            if lease.id == newcomer.id:
                return choice
        return None

    def positions(self, now_ms: int) -> dict[str, int]:
        """Return the position of each request by lease id: 1 for the next of its device kind."""
        counts: dict[DeviceKind | None, int] = {}
        positions = {}
        for ahead, lease in enumerate(self._order(self._ledger.waiting(), now_ms)):
            kind = lease.want.kind
            competing = ahead if kind is None else counts.get(kind, 0) + counts.get(None, 0)
            positions[lease.id] = competing + 1
            counts[kind] = counts.get(kind, 0) + 1
        return positions
