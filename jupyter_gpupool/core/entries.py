"""What the queue says of requests, and what it remembers of what they ask for.

Rule of this module: values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.placement.rooms import Ask


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueEntry:
    """One request that waits.

    Attributes
    ----------
    lease : Lease
        The request.
    position : int
        Place among those that compete for the same kind of device; 1 is next.
    reason : str
        What it waits for, one sentence.
    """

    lease: Lease
    position: int
    reason: str


class Blocked(NamedTuple):
    """A request that waits, and what is kept for it.

    Attributes
    ----------
    lease : Lease
        The request.
    reserved : tuple of str
        Ids of the devices that are kept for it; empty unless it is first in line.
    expected_ms : int or None
        Pool time at which they are expected to have room; None when unknown, or nothing is kept.
    by_policy : bool
        True when there is room for it, and a quota keeps it from it.
    """

    lease: Lease
    reserved: tuple[str, ...]
    expected_ms: int | None
    by_policy: bool


class Known(NamedTuple):
    """What a shape means.

    Attributes
    ----------
    want : Want
        A request of that shape.
    least : Ask
        What it takes of one node at least.
    """

    want: Want
    least: Ask
