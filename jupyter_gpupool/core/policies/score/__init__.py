"""Placement: how good a node is for a request.

Rule of this package: one pure function a file, all with the signature `ScorePolicy`. A policy is shown a node
on which the request fits; it scores it in whole numbers, so that nodes that are about as good tie, and ties
go to the node that comes first in one fixed order: that keeps the last nodes empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room


class Scored(NamedTuple):
    """How good a node is for a request: higher is better; and which of its devices it would be."""

    score: int
    devices: tuple[int, ...]


#: ``(request, what is free on a node where it fits, statistics) -> how good that node is``.
ScorePolicy = Callable[[Ask, Room, Demand], Scored]
