"""The one door to NVML: the only module that imports ``pynvml`` (of the distribution ``nvidia-ml-py``).

Rules of this module: opened lazily, and again after a fault; whatever NVML says comes out as a value or as
the reason why there is none; nothing raises but `NVMLClosed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value, or why there is none.

    Attributes
    ----------
    value : T or None
        The value.
    reason : str
        Why there is none, one clause ("not supported on MIG", "no permission", "driver too old"); empty
        when there is a value.
    """

    value: T | None
    reason: str = ""
