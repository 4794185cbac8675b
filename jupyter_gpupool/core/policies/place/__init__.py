"""Placement: on which device a request is granted.

Rule of this package: one pure function a file, all with the signature `PlacePolicy`. A policy is shown only
devices on which the share fits; it chooses, and never refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jupyter_gpupool.core.devices import Device


class Candidate(NamedTuple):
    """A device on which a request fits now, and what the request would take of it.

    Attributes
    ----------
    device : Device
        The device.
    compute_milli, memory_bytes : int
        What the request takes.
    left_milli, left_bytes : int
        What the grant leaves: of a device that is shared, what is free afterwards; of one that is granted
        whole, what the request did not ask for (compute in thousandths of the GPU that it is part of).
    """

    device: Device
    compute_milli: int
    memory_bytes: int
    left_milli: int
    left_bytes: int


#: ``candidates (at least one) -> the chosen one``.
PlacePolicy = Callable[[Sequence[Candidate]], Candidate]
