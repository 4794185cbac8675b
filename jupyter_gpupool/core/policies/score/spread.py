"""Put requests where most is free, so that they disturb each other least."""

from __future__ import annotations

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room, able, tightest
from jupyter_gpupool.core.policies.score import Scored


def spread(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Prefer the node, and on it the device, with the most free."""
    if not ask.devices:
        return Scored(room.cpu_milli, ())
    if not ask.fractional:
        return Scored(room.free_milli, tightest(ask, room))
    most, index = max((room.devices[index], -index) for index in able(ask, room))
    return Scored(most * 10_000 + room.free_milli, (-index,))
