"""What is taken of each device: reservations, kept up to date lease by lease.

Rule of this module: until a resize is confirmed the larger of old and new counts, in each dimension. Nothing
here decides; `Ledger` is the only caller that changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_gpupool.core.devices import Device, Free
from jupyter_gpupool.core.leases import HostPart, Lease, LeaseState, Share
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import NO_PART, Part, Together


def after_ends(
    account: Account, device: Device, left: Part, ends: Iterable[tuple[int, Lease]], now_ms: int
) -> tuple[Part, int]:
    """Let the leases on a CPU device end one after the other, until nothing is lacking.

    Parameters
    ----------
    account, device
        The device, and who has what of it.
    left : Part
        What would be left of it now; negative where that is lacking.
    ends : iterable of (int, Lease)
        Pool time of each end that is known.
    now_ms : int
        Pool time.

    Returns
    -------
    tuple of (Part, int)
        What is left then (still negative when that does not help), and the pool time.
    """
    (cores, size), at_ms = left, now_ms
    together = Together(device, account.all_leases())
    for end_ms, lease in sorted(ends, key=lambda it: (it[0], it[1].id)):
        if cores >= 0 and size >= 0:
            break
        freed = together.remove(lease)
        cores, size, at_ms = cores + freed.cpu_milli, size + freed.memory_bytes, max(at_ms, end_ms)
    return Part(cores, size), at_ms


def too_many(device: Device, leases: int, owners: int) -> bool:
    """Whether a device does not take so many leases, of so many owners, at once."""
    most = 1 if device.whole_only else device.most_leases
    return (most is not None and leases > most) or (device.one_owner and owners > 1)


class Account:
    """The running account of one device.

    Attributes
    ----------
    device_id : str
        The device.
    device : Device or None
        As its agent last reported it; None when no agent has since this pool was made.
    compute_milli, memory_bytes : int
        What is reserved.
    leases : dict of str to Lease
        The leases that hold a part of it by id, in the order of their grants.
    overdue : dict of str to None
        Ids of the leases that should be gone from it, but are not confirmed to be.
    owners : dict of str to int
        How many leases on it each owner has.
    host_cpu_milli, host_memory_bytes : int
        What leases of other devices take of this one beside their shares: thousandths of a core, and bytes.
    beside : dict of str to Lease
        Those leases by id.
    twice : Part
        What of that is counted twice: of what a holder has both ways only the larger is taken.
    shrunk : bool
        True while the device was reported smaller than what is reserved on it.
    crowded : bool
        True while more leases or owners are on it than it was reported to take together.
    """

    __slots__ = (
        *("beside", "host_cpu_milli", "host_memory_bytes"),
        *("compute_milli", "crowded", "device", "device_id", "leases"),
        *("memory_bytes", "overdue", "owners", "shrunk", "twice"),
    )

    def __init__(self, device_id: str) -> None:
        self.device_id = device_id
        self.device: Device | None = None
        self.compute_milli = 0
        self.memory_bytes = 0
        self.leases: dict[str, Lease] = {}
        self.overdue: dict[str, None] = {}
        self.owners: dict[str, int] = {}
        self.host_cpu_milli = 0
        self.host_memory_bytes = 0
        self.beside: dict[str, Lease] = {}
        self.twice = NO_PART
        self.shrunk = False
        self.crowded = False

    @property
    def free_compute_milli(self) -> int:
        """Thousandths of the device's compute that nobody has."""
        if self.device is None:
            return 0
        if self.host_cpu_milli:
            return max(0, self.free_cpu_milli) // max(1, self.device.compute_units)
        return WHOLE_MILLI - self.compute_milli

    @property
    def free_cpu_milli(self) -> int:
        """Thousandths of a core of a CPU that nobody has; negative while more are taken than it has."""
        units = self.device.compute_units if self.device is not None else 0
        return units * (WHOLE_MILLI - self.compute_milli) - self.host_cpu_milli + self.twice.cpu_milli

    @property
    def free_memory_bytes(self) -> int:
        """Bytes that neither a lease nor an unmanaged process has; never negative."""
        return max(0, self.left_memory_bytes)

    @property
    def left_memory_bytes(self) -> int:
        """The same; negative while more is taken than there is."""
        if self.device is None:
            return 0
        there, taken = self.device.leasable_bytes, self.memory_bytes + self.host_memory_bytes
        return there - taken + self.twice.memory_bytes

    @property
    def free(self) -> Free:
        """What is left of the device, in both dimensions."""
        return Free(compute_milli=self.free_compute_milli, memory_bytes=self.free_memory_bytes)

    def open_to(self, owner: str) -> tuple[int, int]:
        """Return what of the device an owner may take, or anybody where the owner is empty.

        Returns
        -------
        tuple of (int, int)
            Thousandths (of a device that is granted whole: the part of its GPU that it is) and bytes.
        """
        device = self.device
        if device is None:
            return 0, 0
        if device.whole_only:
            if self.leases:
                return 0, 0
            return device.parent_milli or WHOLE_MILLI, self.free_memory_bytes
        if device.most_leases is not None and len(self.leases) >= device.most_leases:
            return 0, 0
        if device.one_owner and self.owners and self.owners.keys() != {owner}:
            return 0, 0
        return self.free_compute_milli, self.free_memory_bytes

    def open_beside(self, own: Part) -> tuple[int, int]:
        """Return what of a CPU device a holder may take that has such a part of it beside other shares."""
        units = self.device.compute_units if self.device is not None else 0
        cores = max(0, self.free_cpu_milli + own.cpu_milli)
        return cores // max(1, units), max(0, self.left_memory_bytes + own.memory_bytes)

    @property
    def unused(self) -> bool:
        """True when neither a device nor a lease stands behind this account."""
        return self.device is None and not self.leases and not self.beside

    def all_leases(self) -> Iterator[Lease]:
        """Yield the leases that have a share of it, and those that take of it beside other shares."""
        yield from self.leases.values()
        yield from self.beside.values()

    def report(self, device: Device | None) -> None:
        """Take over what an agent says of the device; None when it is gone."""
        self.device = device
        self._note_twice()
        self._note_size()

    def take(self, lease: Lease, share: Share) -> None:
        """Reserve what a lease takes."""
        self.compute_milli += share.compute_milli
        self.memory_bytes += share.memory_bytes
        self.leases[lease.id] = lease
        self.owners[lease.owner] = self.owners.get(lease.owner, 0) + 1
        if lease.state is LeaseState.ENDING and lease.overdue:
            self.overdue[lease.id] = None
        if self.beside:
            self._note_twice()

    def give_back(self, lease: Lease, share: Share) -> None:
        """Undo `take`."""
        self.compute_milli -= share.compute_milli
        self.memory_bytes -= share.memory_bytes
        del self.leases[lease.id]
        self.owners[lease.owner] -= 1
        if not self.owners[lease.owner]:
            del self.owners[lease.owner]
        self.overdue.pop(lease.id, None)
        if self.beside:
            self._note_twice()

    def take_beside(self, lease: Lease, part: HostPart) -> None:
        """Reserve what a lease takes beside its shares."""
        self.host_cpu_milli += part.cpu_milli
        self.host_memory_bytes += part.memory_bytes
        self.beside[lease.id] = lease
        self._note_twice()

    def give_back_beside(self, lease: Lease, part: HostPart) -> None:
        """Undo `take_beside`."""
        self.host_cpu_milli -= part.cpu_milli
        self.host_memory_bytes -= part.memory_bytes
        del self.beside[lease.id]
        self._note_twice()

    def _note_twice(self) -> None:
        """Add up what holders have both ways."""
        self.twice = NO_PART
        if self.device is None or not (self.leases and self.beside):
            return
        units = self.device.compute_units
        together = Together(self.device, self.all_leases())
        self.twice = Part(
            units * self.compute_milli + self.host_cpu_milli - together.cpu_milli,
            self.memory_bytes + self.host_memory_bytes - together.memory_bytes,
        )

    def settle(self) -> None:
        """Look anew whether what is reserved is within the device, after `take` and `give_back`."""
        if self.shrunk or self.crowded:
            self._note_size()

    def _note_size(self) -> None:
        device = self.device
        self.shrunk = device is not None and (
            self.memory_bytes + self.host_memory_bytes - self.twice.memory_bytes > device.memory_bytes
            or (self.host_cpu_milli > 0 and self.free_cpu_milli < 0)
        )
        self.crowded = device is not None and too_many(device, len(self.leases), len(self.owners))
