"""A reading of a device: a value, or the reason why there is none.

Rule of this module: reasons are few and stable, one clause each, so that code may compare and people may
read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Reason(StrEnum):
    """Why there is no value: one clause, stable."""

    #: This GPU has no such thing.
    NOT_SUPPORTED = "not supported here"
    #: MIG instances, and GPUs in MIG mode, have no such thing.
    NOT_ON_MIG = "not supported on MIG"
    #: Our user may not read it.
    NO_PERMISSION = "no permission"
    #: The driver has no such function, or another form of it.
    DRIVER_TOO_OLD = "driver too old"
    #: The installed nvidia-ml-py has no such function.
    BINDINGS_TOO_OLD = "bindings too old"
    #: It fell off the bus, or must be reset.
    LOST = "the GPU is lost"
    #: There is no such thing now.
    NOT_FOUND = "nothing was found"
    #: Nothing happened in the time given.
    TIMEOUT = "nothing came in time"
    #: It has been opening for longer than anybody should wait.
    NO_ANSWER = "the driver does not answer"
    #: The library is there, the kernel's module is not.
    NO_DRIVER = "the driver is not loaded"
    #: There is no NVIDIA driver on this machine.
    NOT_INSTALLED = "NVML is not installed"
    #: A name that is no text.
    NOT_TEXT = "the driver's answer is no text"


#: What NVML's return values mean to us; others are said in the driver's words.
REASONS = {
    3: Reason.NOT_SUPPORTED,
    4: Reason.NO_PERMISSION,
    6: Reason.NOT_FOUND,
    9: Reason.NO_DRIVER,
    10: Reason.TIMEOUT,
    12: Reason.NOT_INSTALLED,
    13: Reason.DRIVER_TOO_OLD,
    15: Reason.LOST,
    25: Reason.DRIVER_TOO_OLD,
    28: Reason.LOST,
}


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
