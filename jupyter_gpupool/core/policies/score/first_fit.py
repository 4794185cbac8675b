"""Take the first node on which a request fits."""

from __future__ import annotations

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room, able
from jupyter_gpupool.core.policies.score import Scored


def first_fit(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score all nodes alike, and take the lowest device that fits."""
    return Scored(0, tuple(able(ask, room)[: ask.devices]))
