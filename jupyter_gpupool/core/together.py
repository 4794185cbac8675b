"""What leases take of a node's CPU together: as shares of it, and beside shares of its other devices.

A kernel may hold both, and runs in the larger of the two: what one holder has both ways counts once, the
larger, in each dimension.

Rule of this module: it adds up, one node at a time, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import HOLDING, Lease, Share, Want


class Part(NamedTuple):
    """A part of a node: thousandths of a core, and bytes of its main memory."""

    cpu_milli: int
    memory_bytes: int


#: Nothing of a node.
NO_PART = Part(0, 0)


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


def share_of(lease: Lease, device: Device) -> Part:
    """Return what a lease takes of a CPU device as shares of it."""
    shares = [it for it in reserved_by(lease) if it.device_id == device.id]
    cores = sum(it.compute_milli for it in shares) * device.compute_units
    return Part(cores, sum(it.memory_bytes for it in shares))


def beside_of(lease: Lease, device_id: str) -> Part:
    """Return what a lease takes of a CPU device beside shares of others."""
    parts = [it for it in lease.beside if it.device_id == device_id]
    return Part(sum(it.cpu_milli for it in parts), sum(it.memory_bytes for it in parts))


def is_counted_once(want: Want) -> bool:
    """Whether a request asks for a part of a node that its holder may have already in the other way."""
    return want.asks_host or want.kind is DeviceKind.CPU


def other_way(want: Want, lease: Lease) -> tuple[str, ...]:
    """Return the CPU devices of which another lease of a request's holder has a part in the other way.

    A request for cores beside a GPU counts together with shares of CPUs, and the other way round.
    """
    if not want.asks_host:
        return tuple(it.device_id for it in lease.beside)
    return tuple(it.device_id for it in lease.shares) if lease.want.kind is DeviceKind.CPU else ()


class Together:
    """What some leases take of one CPU device.

    Parameters
    ----------
    device : Device
        The device.
    leases : iterable of Lease
        The first leases.

    Attributes
    ----------
    cpu_milli, memory_bytes : int
        Thousandths of a core, and bytes.
    """

    __slots__ = ("_device", "_held", "cpu_milli", "memory_bytes")

    def __init__(self, device: Device, leases: Iterable[Lease] = ()) -> None:
        self._device = device
        #: By holder: what it has as shares, and beside others.
        self._held: dict[tuple[str, str], tuple[Part, Part]] = {}
        self.cpu_milli = 0
        self.memory_bytes = 0
        for lease in leases:
            self.add(lease, share_of(lease, device), beside_of(lease, device.id))

    def add(self, lease: Lease, share: Part, beside: Part) -> None:
        """Let a lease take a share of the device, and a part of it beside other shares."""
        self._change(lease, share, beside, 1)

    def uncounted(self, owner: str, key: str, *, beside: bool) -> Part:
        """Return what a holder can take more, beside shares or as one, before any more is taken in all."""
        share, other = self._held.get((owner, key), (NO_PART, NO_PART))
        mine, theirs = (other, share) if beside else (share, other)
        return Part(max(0, theirs[0] - mine[0]), max(0, theirs[1] - mine[1]))

    def remove(self, lease: Lease) -> Part:
        """Let a lease end; return what is free because of that."""
        cores, size = self.cpu_milli, self.memory_bytes
        self._change(lease, share_of(lease, self._device), beside_of(lease, self._device.id), -1)
        return Part(cores - self.cpu_milli, size - self.memory_bytes)

    def _change(self, lease: Lease, share: Part, beside: Part, sign: int) -> None:
        holder = (lease.owner, lease.holder.key)
        old_share, old_beside = self._held.get(holder, (NO_PART, NO_PART))
        new_share, new_beside = _plus(old_share, share, sign), _plus(old_beside, beside, sign)
        self._held[holder] = (new_share, new_beside)
        self.cpu_milli += max(new_share[0], new_beside[0]) - max(old_share[0], old_beside[0])
        self.memory_bytes += max(new_share[1], new_beside[1]) - max(old_share[1], old_beside[1])


def _plus(one: Part, other: Part, sign: int) -> Part:
    return Part(one.cpu_milli + sign * other.cpu_milli, one.memory_bytes + sign * other.memory_bytes)
