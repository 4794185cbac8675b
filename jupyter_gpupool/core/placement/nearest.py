"""Which node comes nearest to having room for a request that fits nowhere now.

Rule of this module: it looks at rooms alone, and has the signatures of a policy and of `fits`, so that an
index can answer for all nodes at once.
"""

from __future__ import annotations

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Frame, Room, least_bytes
from jupyter_gpupool.core.policies.score import Scored
from jupyter_gpupool.core.shares import WHOLE_MILLI


def could_fit(ask: Ask, room: Room) -> bool:
    """Whether a request would fit on a node if nothing were taken of it."""
    frame = room.frame
    if frame is None or not ask.devices:
        return False
    if ask.cpu_milli > frame.cpu_milli or ask.memory_bytes > frame.memory_bytes:
        return False
    return sum(_large(ask, frame, index) for index in range(len(frame.sizes))) >= ask.devices


def _large(ask: Ask, frame: Frame, index: int) -> bool:
    size = frame.memory[index]
    return size > 0 and ask.milli <= frame.parts[index] and least_bytes(ask, frame, index) <= size


def nearest(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score a node by what is missing there, thousandths of devices: of memory where more of that is."""
    assert room.frame is not None  # noqa: S101 - such a node does not come into question
    gaps = sorted(
        (_gap(ask, room, room.frame, index), index)
        for index in range(len(room.devices))
        if _large(ask, room.frame, index)
    )[: ask.devices]
    missing = sum(gap for gap, _ in gaps)
    if ask.cpu_milli or ask.memory_bytes:
        missing = max(missing, _beside(ask, room, room.frame))
    return Scored(-missing, tuple(sorted(index for _, index in gaps)))


def _beside(ask: Ask, room: Room, frame: Frame) -> int:
    """Return what is missing of the node beside the devices, as thousandths of those."""
    cores = (ask.cpu_milli - room.cpu_milli) * WHOLE_MILLI // max(1, frame.cpu_milli)
    size = (ask.memory_bytes - room.memory_bytes) * WHOLE_MILLI // max(1, frame.memory_bytes)
    return max(0, cores, size)


def _gap(ask: Ask, room: Room, frame: Frame, index: int) -> int:
    """Return what is missing on one device."""
    milli = ask.milli - room.devices[index]
    size = least_bytes(ask, frame, index) - room.device_bytes[index]
    return max(0, milli, -(-size * WHOLE_MILLI // frame.memory[index]))
