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
from jupyter_gpupool.core.fitting import Obstacle, candidate, large_enough, obstacle
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.policies.order import OrderPolicy
from jupyter_gpupool.core.policies.place import Candidate, PlacePolicy

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

        Where real devices match, emulated ones do not, unless one is meant by name or id alone. The name or
        id of a GPU that is split means its instances.
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
            and (not want.device or _is_named(device, want.device))
        ]
        real = [it for it in found if not it[1].emulated]
        return real or found

    def offered(self) -> set[str]:
        """Return the ids of the devices that are offered now."""
        withheld = self._ledger.withheld
        return {key for key, account in self._ledger.accounts.items() if withheld(account) is None}

    def usable(self, want: Want, offered: Set[str]) -> list[tuple[Account, Device]]:
        """Return those of the ``offered`` devices that a request could use, whether or not there is room."""
        return [
            (account, device)
            for account, device in self.matching(want)
            if device.id in offered and large_enough(want, device)
        ]

    def fits(self, lease: Lease, usable: list[tuple[Account, Device]], claimed: Set[str]) -> Candidate | None:
        """Choose among ``usable`` devices that nobody has claimed; None when there is no room."""
        want, owner = lease.want, lease.owner
        candidates = []
        for account, device in usable:
            # most devices are full: this is looked at before anything is called
            if want.compute_milli > account.free_compute_milli or device.id in claimed:
                continue
            found = candidate(account, device, want, owner)
            if found is not None:
                candidates.append(found)
        return self._place(candidates) if candidates else None

    def nearest(
        self, want: Want, owner: str, usable: list[tuple[Account, Device]]
    ) -> tuple[Account, Device, Obstacle | None]:
        """Choose the ``usable`` device that comes nearest to having room; with what is in the way."""
        found = [(account, device, obstacle(account, device, want, owner)) for account, device in usable]
        return max(
            found,
            key=lambda it: (
                it[2] in (None, Obstacle.OWNER, Obstacle.LEASES),
                it[0].free_compute_milli,
                it[0].free_memory_bytes,
            ),
        )

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
        for lease in self._order(waiting, now_ms, {}):
            if len(claimed) == len(offered):
                return
            usable = self.usable(lease.want, offered)
            choice = self.fits(lease, usable, claimed)
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
        for ahead, lease in enumerate(self._order(self._ledger.waiting(), now_ms, {})):
            kind = lease.want.kind
            competing = ahead if kind is None else counts.get(kind, 0) + counts.get(None, 0)
            positions[lease.id] = competing + 1
            counts[kind] = counts.get(kind, 0) + 1
        return positions


def _is_named(device: Device, name: str) -> bool:
    """Whether a request means a device by its name or id, or by those of the GPU that it is part of."""
    if name in (device.name, device.id):
        return True
    return bool(device.parent_id) and name in (device.parent_id, device.name.rpartition("-")[0])
