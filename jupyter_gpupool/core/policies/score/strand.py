"""Strand the fewest devices: keep cores for the devices that are idle."""

from __future__ import annotations

import math

from jupyter_gpupool.core.placement.demand import Demand, stranded
from jupyter_gpupool.core.placement.rooms import Ask, Room, take, tightest
from jupyter_gpupool.core.policies.score import Scored

#: Steps to a device: nodes that differ by less tie.
_STEPS = 25


def strand(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score by the devices that lose their cores, and by what a single request leaves on its device."""
    devices = tightest(ask, room) if ask.devices else ()
    after = take(ask, room, devices)
    cost = stranded(after, demand.cores_per_device) - stranded(room, demand.cores_per_device)
    if ask.devices == 1:
        cost += (room.devices[devices[0]] - ask.milli) / 1000
    return Scored(math.floor(_STEPS * -cost), devices)
