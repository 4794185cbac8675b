"""What is taken of each device: reservations, kept up to date lease by lease.

Rule of this module: until a resize is confirmed the larger of old and new counts, in each dimension. Nothing
here decides; `Ledger` is the only caller that changes anything.
"""

from __future__ import annotations

from jupyter_gpupool.core.devices import Device, Free
from jupyter_gpupool.core.leases import HOLDING, HostPart, Lease, LeaseState, Share
from jupyter_gpupool.core.shares import WHOLE_MILLI


def reserved_by(lease: Lease) -> tuple[Share, ...]:
    """Return what a lease takes of devices: the larger of ``shares`` and ``pending``, by dimension."""
    if lease.state not in HOLDING:
        return ()
    if not lease.pending:
        return lease.shares
    wanted = {share.device_id: share for share in lease.pending}
    return tuple(
        Share(
            device_id=share.device_id,
            compute_milli=max(share.compute_milli, wanted[share.device_id].compute_milli),
            memory_bytes=max(share.memory_bytes, wanted[share.device_id].memory_bytes),
        )
        for share in lease.shares
    )


def taken_of_host(lease: Lease, device: Device) -> tuple[int, int]:
    """Return what a lease takes of a CPU device, in all ways: thousandths of a core, and bytes."""
    shares = [it for it in reserved_by(lease) if it.device_id == device.id]
    parts = [it for it in lease.beside if it.device_id == device.id]
    cores = sum(it.compute_milli for it in shares) * device.compute_units
    size = sum(it.memory_bytes for it in shares) + sum(it.memory_bytes for it in parts)
    return cores + sum(it.cpu_milli for it in parts), size


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
    leases : dict of str to None
        Ids of the leases that hold a part of it, in the order of their grants.
    overdue : dict of str to None
        Ids of the leases that should be gone from it, but are not confirmed to be.
    owners : dict of str to int
        How many leases on it each owner has.
    host_cpu_milli, host_memory_bytes : int
        What leases of other devices take of this one beside their shares: thousandths of a core, and bytes.
    beside : dict of str to None
        Ids of those leases.
    shrunk : bool
        True while the device was reported smaller than what is reserved on it.
    crowded : bool
        True while more leases or owners are on it than it was reported to take together.
    """

    __slots__ = (
        *("beside", "host_cpu_milli", "host_memory_bytes"),
        *("compute_milli", "crowded", "device", "device_id", "leases"),
        *("memory_bytes", "overdue", "owners", "shrunk"),
    )

    def __init__(self, device_id: str) -> None:
        self.device_id = device_id
        self.device: Device | None = None
        self.compute_milli = 0
        self.memory_bytes = 0
        self.leases: dict[str, None] = {}
        self.overdue: dict[str, None] = {}
        self.owners: dict[str, int] = {}
        self.host_cpu_milli = 0
        self.host_memory_bytes = 0
        self.beside: dict[str, None] = {}
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
        return units * (WHOLE_MILLI - self.compute_milli) - self.host_cpu_milli

    @property
    def free_memory_bytes(self) -> int:
        """Bytes that neither a lease nor an unmanaged process has; never negative."""
        if self.device is None:
            return 0
        unmanaged = self.device.unmanaged_bytes or 0
        return max(0, self.device.memory_bytes - unmanaged - self.memory_bytes - self.host_memory_bytes)

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

    @property
    def unused(self) -> bool:
        """True when neither a device nor a lease stands behind this account."""
        return self.device is None and not self.leases and not self.beside

    def report(self, device: Device | None) -> None:
        """Take over what an agent says of the device; None when it is gone."""
        self.device = device
        self._note_size()

    def take(self, lease: Lease, share: Share) -> None:
        """Reserve what a lease takes."""
        self.compute_milli += share.compute_milli
        self.memory_bytes += share.memory_bytes
        self.leases[lease.id] = None
        self.owners[lease.owner] = self.owners.get(lease.owner, 0) + 1
        if lease.state is LeaseState.ENDING and lease.overdue:
            self.overdue[lease.id] = None

    def give_back(self, lease: Lease, share: Share) -> None:
        """Undo `take`."""
        self.compute_milli -= share.compute_milli
        self.memory_bytes -= share.memory_bytes
        del self.leases[lease.id]
        self.owners[lease.owner] -= 1
        if not self.owners[lease.owner]:
            del self.owners[lease.owner]
        self.overdue.pop(lease.id, None)

    def take_beside(self, lease: Lease, part: HostPart) -> None:
        """Reserve what a lease takes beside its shares."""
        self.host_cpu_milli += part.cpu_milli
        self.host_memory_bytes += part.memory_bytes
        self.beside[lease.id] = None

    def give_back_beside(self, lease: Lease, part: HostPart) -> None:
        """Undo `take_beside`."""
        self.host_cpu_milli -= part.cpu_milli
        self.host_memory_bytes -= part.memory_bytes
        del self.beside[lease.id]

    def settle(self) -> None:
        """Look anew whether what is reserved is within the device, after `take` and `give_back`."""
        if self.shrunk or self.crowded:
            self._note_size()

    def _note_size(self) -> None:
        device = self.device
        self.shrunk = device is not None and (
            self.memory_bytes + self.host_memory_bytes > device.memory_bytes
            or (self.host_cpu_milli > 0 and self.free_cpu_milli < 0)
        )
        self.crowded = device is not None and too_many(device, len(self.leases), len(self.owners))
