"""Evictions: which of the leases that may be taken back goes first.

Rule of this package: one pure function a file, all with the signature `EvictPolicy`. A policy never decides
whether a lease may be taken at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jupyter_gpupool.core.leases import Lease


class Victim(NamedTuple):
    """A lease that may be taken back.

    Attributes
    ----------
    lease : Lease
        It.
    idle_ms : int
        For how long it has done nothing; 0 while it does something, or when that is unknown.
    held_ms : int
        For how long it has been held.
    over_milli : int
        How much its owner holds beyond what the owner deserves, thousandths of devices.
    rank : int
        Its priority class after decay.
    memory_bytes : int
        Memory that it holds: as much may have to be saved.
    """

    lease: Lease
    idle_ms: int = 0
    held_ms: int = 0
    over_milli: int = 0
    rank: int = 100
    memory_bytes: int = 0


#: ``victim -> key``: the one with the smallest key goes first.
EvictPolicy = Callable[[Victim], tuple[int, ...]]
