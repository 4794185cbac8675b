"""What a request takes of one device, and what keeps it from a device that is large enough for it.

Rule of this module: it compares one request with one device, and knows nothing of the queue. Of a device that
is shared a request takes what it asked for; one that is granted whole (a MIG instance) it takes whole, where
a share of a GPU is at most the part of its GPU that the instance is.
"""

from __future__ import annotations

from enum import Enum

from jupyter_gpupool.core.accounts import Account, too_many
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.core.shares import proportional_memory


class Obstacle(Enum):
    """What keeps a request from a device that it could use."""

    #: Not as much of it is free.
    ROOM = "room"
    #: It is granted whole, and somebody has it.
    WHOLE = "whole"
    #: It takes leases of one owner at a time, and somebody else has some on it.
    OWNER = "owner"
    #: It carries as many leases as it can.
    LEASES = "leases"


def memory_for(device: Device, compute_milli: int, memory_bytes: int | None) -> int:
    """Return the memory that a share takes: as asked, else the same fraction as of compute; bytes."""
    if memory_bytes is not None:
        return memory_bytes
    return max(1, proportional_memory(compute_milli, device.leasable_bytes))


def large_enough(want: Want, device: Device) -> bool:
    """Whether a request would fit on a device if nothing else were on it."""
    return has_part(want, device) and (want.memory_bytes is None or want.memory_bytes <= device.memory_bytes)


def has_part(want: Want, device: Device) -> bool:
    """Whether a device is as large a part of a GPU as a request asks for.

    An instance of which that is unknown is for those who ask for memory, or for it by its name.
    """
    if not device.whole_only or want.compute_milli <= device.parent_milli:
        return True
    return not device.parent_milli and (want.memory_bytes is not None or bool(want.device))


def has_room(account: Account, device: Device, want: Want, owner: str) -> bool:
    """Whether a request fits now on a device that is `large_enough`."""
    if device.whole_only:
        return not account.leases and account.free_memory_bytes >= max(1, want.memory_bytes or 0)
    if want.compute_milli > account.free_compute_milli:
        return False
    memory_bytes = memory_for(device, want.compute_milli, want.memory_bytes)
    return memory_bytes <= account.free_memory_bytes and _barred(account, device, owner) is None


def _barred(account: Account, device: Device, owner: str) -> Obstacle | None:
    """Say what keeps an owner's lease from a device on which there is room for it."""
    if not (device.one_owner or device.most_leases is not None):
        return None
    if device.one_owner and account.owners and account.owners.keys() != {owner}:
        return Obstacle.OWNER
    return Obstacle.LEASES if too_many(device, len(account.leases) + 1, 1) else None


def obstacle(account: Account, device: Device, want: Want, owner: str) -> Obstacle | None:
    """Say what keeps a request from a device that is `large_enough`; None when it fits."""
    if has_room(account, device, want, owner):
        return None
    if device.whole_only and account.leases:
        return Obstacle.WHOLE
    memory_bytes = memory_for(device, want.compute_milli, want.memory_bytes)
    roomy = want.compute_milli <= account.free_compute_milli and memory_bytes <= account.free_memory_bytes
    barred = _barred(account, device, owner)
    return barred if roomy and barred is not None else Obstacle.ROOM
