"""NVML's handles of devices, by UUID.

Rule of this module: a device that cannot be opened hides no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_gpupool.backends.readings import Reading, Reason


class Handles:
    """Finds handles, and keeps them until they are void.

    Parameters
    ----------
    read : callable
        Calls a function of NVML by its name (`NVML.read`).
    """

    def __init__(self, read: Callable[..., Reading[Any]]) -> None:
        self._read = read
        self._known: dict[str, Any] = {}

    def forget(self) -> None:
        """Drop all handles: NVML is opened afresh."""
        self._known = {}

    def find(self, uuid: str) -> Reading[Any]:
        """Return the handle of a GPU or MIG instance."""
        handles = self._known  # those of now: what is found meanwhile may be void when it is kept
        if (known := handles.get(uuid)) is not None:
            return Reading(known)
        found = self._read("nvmlDeviceGetHandleByUUID", uuid)
        if found.reason == Reason.NOT_FOUND:
            return Reading(None, Reason.LOST)
        if found.value is None:  # documented to fail when *any* GPU is lost
            found = Reading(self._search(uuid), found.reason)
        if found.value is None:
            return found
        handles[uuid] = found.value
        return Reading(found.value)

    def _search(self, uuid: str) -> Any | None:
        """Open one device after the other."""
        for index in range(self._read("nvmlDeviceGetCount").value or 0):
            gpu = self._read("nvmlDeviceGetHandleByIndex", index).value
            if gpu is None:
                continue
            if self._read("nvmlDeviceGetUUID", gpu).value == uuid:
                return gpu
            if uuid.startswith("MIG-") and (instance := self._search_instance(gpu, uuid)) is not None:
                return instance
        return None

    def _search_instance(self, gpu: Any, uuid: str) -> Any | None:
        for place in range(self._read("nvmlDeviceGetMaxMigDeviceCount", gpu).value or 0):
            instance = self._read("nvmlDeviceGetMigDeviceHandleByIndex", gpu, place).value
            if instance is not None and self._read("nvmlDeviceGetUUID", instance).value == uuid:
                return instance
        return None
