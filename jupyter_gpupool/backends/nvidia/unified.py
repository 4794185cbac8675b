"""How much memory a device has, also where it has none of its own.

Rules of this module: numbers come from the driver, or from the system where the driver has none to tell
because the memory *is* the system's (GB10 and other chips with one memory for both); which of the two is in
the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.machine import Machine

#: What people are told about such a device.
UNIFIED_NOTICE = "It has no memory of its own: its memory is the system's, which everything on the node uses."
#: What marks the newer form of the answer, by the binding's name for it.
_NEWER_FORM = "nvmlMemory_v2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A device's memory.

    Attributes
    ----------
    total_bytes : int
        All of it.
    used_bytes : int or None
        In use, without what the driver keeps where it tells that apart; None when unknown.
    free_bytes : int or None
        Not in use; None when unknown.
    reserved_bytes : int
        What the driver and the firmware keep for themselves; 0 when the driver does not tell.
    unified : bool
        True when it is the system's memory.
    """

    total_bytes: int
    used_bytes: int | None
    free_bytes: int | None
    reserved_bytes: int = 0
    unified: bool = False


class DeviceMemory:
    """Reads the memory of GPUs and MIG instances.

    Parameters
    ----------
    nvml : NVML
        The door.
    machine : Machine or None
        Whose memory the system's is; None for this one.
    """

    def __init__(self, nvml: NVML, machine: Machine | None = None) -> None:
        self._nvml = nvml
        self._machine = machine

    def read(self, handle: Any) -> Reading[Memory]:
        """Read a device's memory; the system's where the driver says that the device has none."""
        found = self._of_device(handle)
        nothing = found.reason == Reason.NOT_SUPPORTED or (found.value and not found.value.total_bytes)
        return self._of_system() if nothing else found

    def _of_device(self, handle: Any) -> Reading[Memory]:
        version = self._nvml.constant(_NEWER_FORM)
        newer = self._nvml.read("nvmlDeviceGetMemoryInfo", handle, version=version)
        if newer.value is not None:
            info = newer.value
            reserved = int(info.reserved) if version else 0
            return Reading(
                Memory(
                    total_bytes=int(info.total),
                    used_bytes=int(info.used),
                    free_bytes=int(info.free),
                    reserved_bytes=reserved,
                )
            )
        older = self._nvml.read("nvmlDeviceGetMemoryInfo", handle)
        if older.value is None:
            return Reading(None, older.reason)
        info = older.value
        return Reading(
            Memory(total_bytes=int(info.total), used_bytes=int(info.used), free_bytes=int(info.free))
        )

    def _of_system(self) -> Reading[Memory]:
        if self._machine is None:
            self._machine = Machine()
        total, used = self._machine.memory_bytes(), self._machine.memory_used_bytes()
        if total is None:
            return Reading(None, Reason.NOT_SUPPORTED)
        free = None if used is None else max(0, total - used)
        return Reading(Memory(total_bytes=total, used_bytes=used, free_bytes=free, unified=True))
