"""Fill nodes and devices that are in use already."""

from __future__ import annotations

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room, tightest
from jupyter_gpupool.core.policies.score import Scored


def pack(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Prefer the node with the least free on its devices, counted in tenths of a device."""
    if not ask.devices:
        return Scored(-(room.cpu_milli // 1000), ())
    return Scored(-(room.free_milli // 100), tightest(ask, room))
