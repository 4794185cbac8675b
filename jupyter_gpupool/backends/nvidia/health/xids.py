"""Listens for XID errors.

Rules of this module: waiting is bounded to a moment, so that it can be done between two samples; where the
driver has no events, that is said, and everything else goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reason
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.health.vitals import Xid

#: ``nvmlEventTypeXidCriticalError``.
_XID_EVENT = 0x8
#: How long one look waits, milliseconds.
_WAIT_MS = 1
#: Most events that one look takes, so that a storm does not keep it.
_MOST_EVENTS = 64
#: So many of each GPU are remembered.
_MOST_REMEMBERED = 64
#: No MIG instance.
_WHOLE = 2**32 - 1


class XidListener:
    """XID errors of all GPUs of a node.

    Parameters
    ----------
    nvml : NVML
        The door.
    """

    def __init__(self, nvml: NVML) -> None:
        self._nvml = nvml
        self._generation = -1
        self._set: Any = None
        self._problem = ""
        self._watched: dict[str, bool] = {}
        self._seen: dict[str, deque[Xid]] = {}
        self._counts: dict[str, int] = {}
        #: Why there are no events, by GPU, one clause.
        self.missing: dict[str, str] = {}

    def watch(self, gpus: Iterable[GPU]) -> None:
        """Listen to GPUs (MIG instances come with theirs); cheap for those that are listened to."""
        if self._generation != self._nvml.generation:
            self._begin()
        for gpu in gpus:
            if not gpu.is_mig and gpu.uuid not in self._watched:
                self._watched[gpu.uuid] = self._register(gpu.uuid)

    def _begin(self) -> None:
        """Make an event set; the one of an earlier generation is gone with it."""
        self._generation, self._watched, self.missing = self._nvml.generation, {}, {}
        made = self._nvml.read("nvmlEventSetCreate")
        self._set = made.value
        self._problem = made.reason

    def _register(self, uuid: str) -> bool:
        handle = self._nvml.handle(uuid)
        if self._set is None or handle.value is None:
            self.missing[uuid] = self._problem or handle.reason
            return False
        supported = self._nvml.read("nvmlDeviceGetSupportedEventTypes", handle.value)
        if supported.value is None or not supported.value & _XID_EVENT:
            self.missing[uuid] = supported.reason or Reason.NOT_SUPPORTED
            return False
        done = self._nvml.read("nvmlDeviceRegisterEvents", handle.value, _XID_EVENT, self._set)
        if done.reason:
            self.missing[uuid] = done.reason
        return not done.reason

    def listen(self, seconds: float) -> None:
        """Take what has happened since the last look, as of ``seconds``."""
        if self._set is None or self._generation != self._nvml.generation or not any(self._watched.values()):
            return
        for _ in range(_MOST_EVENTS):
            event = self._nvml.read("nvmlEventSetWait_v2", self._set, _WAIT_MS)
            if event.value is None:
                return
            self._take(event.value, seconds)

    def _take(self, event: Any, seconds: float) -> None:
        uuid = self._nvml.read("nvmlDeviceGetUUID", event.device).value
        if not uuid or not event.eventType & _XID_EVENT:
            return
        instance = None if event.gpuInstanceId == _WHOLE else int(event.gpuInstanceId)
        self.note(uuid, Xid(number=int(event.eventData), seconds=seconds, gpu_instance_id=instance))

    def note(self, uuid: str, xid: Xid) -> None:
        """Remember an XID of a GPU."""
        self._seen.setdefault(uuid, deque(maxlen=_MOST_REMEMBERED)).append(xid)
        self._counts[uuid] = self._counts.get(uuid, 0) + 1

    def of(self, gpu: GPU) -> tuple[Xid, ...]:
        """Return what concerns a device alone: of a GPU all but its instances', of an instance its own."""
        seen = self._seen.get(gpu.parent_uuid or gpu.uuid, ())
        return tuple(it for it in seen if it.gpu_instance_id == gpu.gpu_instance_id)

    def count(self, gpu: GPU) -> int:
        """Return how many XIDs a GPU has had."""
        return self._counts.get(gpu.parent_uuid or gpu.uuid, 0)

    def close(self) -> None:
        """Free the event set."""
        if self._set is not None and self._generation == self._nvml.generation:
            self._nvml.read("nvmlEventSetFree", self._set)
        self._set, self._generation, self._watched = None, -1, {}
