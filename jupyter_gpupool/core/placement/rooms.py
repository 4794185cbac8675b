"""What is free on a node, what a request takes of one, and whether it fits.

Rule of this module: integers only (thousandths of a core and of a device, bytes); values never change.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.core.shares import WHOLE_MILLI


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
    """

    model: str
    cpu_milli: int
    memory_bytes: int
    devices: tuple[int, ...]

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
        Thousandths of each; whole devices where ``devices`` is more than 1.
    models : tuple of str
        Models that will do; empty for any.
    """

    cpu_milli: int
    memory_bytes: int
    devices: int
    milli: int
    models: tuple[str, ...] = ()

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
    return sum(free >= ask.milli for free in room.devices) >= ask.devices


def tightest(ask: Ask, room: Room) -> tuple[int, ...]:
    """Choose devices on a node where a request fits: the fullest for a part, the first idle for wholes."""
    able = [(free, index) for index, free in enumerate(room.devices) if free >= ask.milli]
    if ask.fractional:
        return (min(able)[1],)
    return tuple(index for _, index in able[: ask.devices])


def take(ask: Ask, room: Room, devices: tuple[int, ...]) -> Room:
    """Return what is left of a room after a request took its part of these devices."""
    free = list(room.devices)
    for index in devices:
        free[index] -= ask.milli
    return Room(room.model, room.cpu_milli - ask.cpu_milli, room.memory_bytes - ask.memory_bytes, tuple(free))


def give_back(ask: Ask, room: Room, devices: tuple[int, ...]) -> Room:
    """Undo `take`."""
    free = list(room.devices)
    for index in devices:
        free[index] += ask.milli
    return Room(room.model, room.cpu_milli + ask.cpu_milli, room.memory_bytes + ask.memory_bytes, tuple(free))
