"""What is free on a node, what a request takes of one, and whether it fits.

Rule of this module: integers only (thousandths of a core and of a device, bytes); values never change. Of a
device that is granted whole (a MIG instance) a request takes all, however little it asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jupyter_gpupool.core.shares import WHOLE_MILLI

#: For how many sizes of requests, on nodes with how many sorts of devices, it is remembered what they need.
_MOST_NEEDS = 4096


class Frame(NamedTuple):
    """What the devices of a node are when nothing is taken of them; all tuples go device by device.

    Attributes
    ----------
    sizes : tuple of int
        Memory that can be leased, bytes; 0 for a device that is not offered.
    memory : tuple of int
        The same with what is used without a lease, for the time being.
    parts : tuple of int
        Thousandths: 1000 for a whole device, less for a part of one.
    whole : tuple of bool
        Whether it is granted whole or not at all.
    cpu_milli : int
        Thousandths of a core that the node has; 0 where nobody asks for any.
    memory_bytes : int
        Its main memory that can be leased, bytes; 0 where nobody asks for any.
    """

    sizes: tuple[int, ...]
    memory: tuple[int, ...]
    parts: tuple[int, ...]
    whole: tuple[bool, ...]
    cpu_milli: int = 0
    memory_bytes: int = 0


class Room(NamedTuple):
    """What is free on one node: two nodes with equal rooms are as good for every request.

    Attributes
    ----------
    model : str
        Model of its devices.
    cpu_milli : int
        Free thousandths of a core.
    memory_bytes : int
        Free main memory, bytes.
    devices : tuple of int
        Free thousandths of each of its devices.
    device_bytes : tuple of int
        Free memory of each of its devices, bytes; empty where that does not limit.
    frame : Frame or None
        What its devices are; None for whole ones that are shared, whose memory does not limit.
    """

    model: str
    cpu_milli: int
    memory_bytes: int
    devices: tuple[int, ...]
    device_bytes: tuple[int, ...] = ()
    frame: Frame | None = None

    @property
    def free_milli(self) -> int:
        """Free thousandths of devices in all."""
        return sum(self.devices)


class Ask(NamedTuple):
    """What one request takes of one node.

    Attributes
    ----------
    cpu_milli : int
        Thousandths of a core.
    memory_bytes : int
        Main memory, bytes.
    devices : int
        How many devices; 0 for none.
    milli : int
        Thousandths of each.
    models : tuple of str
        Models that will do; empty for any.
    device_bytes : int or None
        Memory of each device, bytes; None for the same fraction as of compute.
    """

    cpu_milli: int
    memory_bytes: int
    devices: int
    milli: int
    models: tuple[str, ...] = ()
    device_bytes: int | None = None

    @property
    def demand_milli(self) -> int:
        """Thousandths of devices in all."""
        return self.devices * self.milli

    @property
    def fractional(self) -> bool:
        """True for a part of one device."""
        return self.devices == 1 and self.milli < WHOLE_MILLI


def fits(ask: Ask, room: Room) -> bool:
    """Whether a node has room for a request."""
    if ask.cpu_milli > room.cpu_milli or ask.memory_bytes > room.memory_bytes:
        return False
    if not ask.devices:
        return True
    if ask.models and room.model not in ask.models:
        return False
    if room.frame is None or not room.device_bytes:
        return sum(free >= ask.milli for free in room.devices) >= ask.devices
    milli, left = ask.milli, ask.devices
    needs = _needs(milli, ask.device_bytes, room.frame.sizes, room.frame.whole)
    for free, free_bytes, need in zip(room.devices, room.device_bytes, needs, strict=True):
        if free >= milli and free_bytes >= need:
            left -= 1
            if not left:
                return True
    return False


def able(ask: Ask, room: Room) -> list[int]:
    """List the devices of a node that have room for the part of each that a request asks for."""
    milli = ask.milli
    if not room.device_bytes or room.frame is None:
        return [index for index, free in enumerate(room.devices) if free >= milli]
    needs = _needs(milli, ask.device_bytes, room.frame.sizes, room.frame.whole)
    free_bytes = room.device_bytes
    return [
        index
        for index, free in enumerate(room.devices)
        if free >= milli and free_bytes[index] >= needs[index]
    ]


@lru_cache(maxsize=_MOST_NEEDS)
def _needs(
    milli: int, device_bytes: int | None, sizes: tuple[int, ...], whole: tuple[bool, ...]
) -> tuple[int, ...]:
    """Return the memory that a request needs of each device of a node, bytes."""
    if device_bytes is not None:
        return (device_bytes,) * len(sizes)
    return tuple(
        1 if entire else max(1, milli * size // WHOLE_MILLI)
        for size, entire in zip(sizes, whole, strict=True)
    )


def least_bytes(ask: Ask, frame: Frame, index: int) -> int:
    """Return the memory that a request needs of a device, bytes."""
    return _needs(ask.milli, ask.device_bytes, frame.sizes, frame.whole)[index]


def taken(ask: Ask, room: Room, index: int) -> tuple[int, int]:
    """Return what a request takes of a device: thousandths and bytes, as rooms count them."""
    frame = room.frame
    if frame is None:
        return ask.milli, 0
    if frame.whole[index]:
        return room.devices[index], room.device_bytes[index]
    return ask.milli, least_bytes(ask, frame, index)


def tightest(ask: Ask, room: Room) -> tuple[int, ...]:
    """Choose devices on a node where a request fits: the fullest, in compute and then in memory."""
    found = able(ask, room)
    if room.device_bytes:
        found.sort(key=lambda index: (room.devices[index], room.device_bytes[index]))
    elif ask.milli < WHOLE_MILLI:
        found.sort(key=room.devices.__getitem__)
    return tuple(sorted(found[: ask.devices]))


def take(ask: Ask, room: Room, devices: tuple[int, ...]) -> Room:
    """Return what is left of a room after a request took its part of these devices."""
    free, free_bytes = list(room.devices), list(room.device_bytes)
    for index in devices:
        milli, size = taken(ask, room, index)
        free[index] -= milli
        if free_bytes:
            free_bytes[index] -= size
    return Room(
        room.model,
        room.cpu_milli - ask.cpu_milli,
        room.memory_bytes - ask.memory_bytes,
        tuple(free),
        tuple(free_bytes),
        room.frame,
    )
