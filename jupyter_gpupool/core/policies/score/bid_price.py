"""Let a request pay for what it spoils, at prices learnt from what is asked for.

Three things cost, all in devices, so that each can be shown to a person: devices that lose the cores they
need, the worth of what is taken of a device (0.81 of a device leaves nothing that anybody asks for), and
models that others insist on.
"""

from __future__ import annotations

import math

from jupyter_gpupool.core.placement.demand import Demand, stranded
from jupyter_gpupool.core.placement.rooms import Ask, Room, able, take, taken
from jupyter_gpupool.core.policies.score import Scored
from jupyter_gpupool.core.policies.score.strand import strand

#: Steps to a device: nodes that differ by less tie.
_STEPS = 50
#: What a device costs for each device that is left on it: fuller devices first.
_LEFT_COST = 0.1


def bid_price(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score by the bill of a request; as `strand` does while there are no statistics."""
    if not demand.requests:
        return strand(ask, room, demand)
    devices, spoilt = _cheapest(ask, room, demand)
    after = take(ask, room, devices)
    cost = spoilt + stranded(after, demand.cores_per_device) - stranded(room, demand.cores_per_device)
    if ask.devices and not ask.models:
        cost += demand.pressure.get(room.model, 0.0) * ask.demand_milli / 1000
    # a bill of nothing must not become one step dearer by the last digit of a float
    return Scored(math.floor(round(-_STEPS * cost, 6)), devices)


def _cheapest(ask: Ask, room: Room, demand: Demand) -> tuple[tuple[int, ...], float]:
    """Choose the devices whose worth falls least, and return by how much."""
    if not ask.devices:
        return (), 0.0
    worth = demand.worth
    bills = []
    for index in able(ask, room):
        free = room.devices[index]
        bill = worth[free] - worth[free - taken(ask, room, index)[0]] + _LEFT_COST * (free - ask.milli) / 1000
        bills.append((bill, room.device_bytes[index] if room.device_bytes else 0, index))
    bills = sorted(bills)[: ask.devices]
    return tuple(sorted(index for _, _, index in bills)), sum(bill for bill, _, _ in bills)
