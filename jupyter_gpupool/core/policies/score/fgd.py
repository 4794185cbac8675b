"""Fragmentation gradient descent: grow fragmentation least (Weng et al., USENIX ATC 2023).

A node's fragmentation is what is idle on its devices and of no use to a typical request, in the mean over
the typical requests.
"""

from __future__ import annotations

import math
from functools import lru_cache

from jupyter_gpupool.core.placement.demand import Demand, Shape
from jupyter_gpupool.core.placement.rooms import Ask, Room, able, take, tightest
from jupyter_gpupool.core.policies.score import Scored


def fgd(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score by the change of fragmentation; a part of a device tries every device on which it fits."""
    before = fragmentation(room, demand.typical)
    choices: list[tuple[int, ...]] = [tightest(ask, room) if ask.devices else ()]
    if ask.fractional:
        choices = [(index,) for index in able(ask, room)]
    best = Scored(-1, ())
    for devices in choices:
        gained = round(before - fragmentation(take(ask, room, devices), demand.typical), 6)
        score = int(100 / (1 + math.exp(-gained / 1000)))
        if score > best.score:
            best = Scored(score, devices)
    return best


@lru_cache(maxsize=65536)
def fragmentation(room: Room, typical: tuple[tuple[Shape, float], ...]) -> float:
    """Return what is idle on a node's devices and of no use to typical requests, thousandths."""
    return sum(part * _useless(room, shape) for shape, part in typical)


def _useless(room: Room, shape: Shape) -> int:
    """Return what one typical request cannot use."""
    if not shape.devices or (shape.models and room.model not in shape.models):
        return room.free_milli
    if room.cpu_milli < shape.cpu_milli:
        return room.free_milli
    if sum(free >= shape.milli for free in room.devices) < shape.devices:
        return room.free_milli
    return sum(free for free in room.devices if free < shape.milli)
