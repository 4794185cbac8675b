"""Reading one GPU or MIG instance: fast groups and slow ones.

Rules of this module: every reading is a value or missing with a reason; nothing that one call cannot give
takes another along; whatever is read has a name of `protocol.telemetry.CATALOGUE`.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.nvidia import sources
from jupyter_gpupool.backends.nvidia.gpm import GPM
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.unified import DeviceMemory

#: Why a MIG instance has no reading that its GPU has.
WHOLE_GPU = "measured for the whole GPU only"
_MEMORY = ("memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_reserved_bytes")


@dataclass(slots=True)
class Group:
    """What was read together.

    Attributes
    ----------
    values : dict of str to float
        Readings that are there.
    missing : dict of str to str
        Those that are not, and why.
    """

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, reading: Reading[Any]) -> None:
        """Take one reading in."""
        value = reading.value
        if value is None or value == sources.NOT_AVAILABLE or not math.isfinite(value):
            self.missing[name] = str(reading.reason or Reason.NOT_SUPPORTED)
        else:
            self.values[name] = float(value)

    def miss(self, names: Iterable[str], reason: str) -> None:
        """Note that readings are missing."""
        self.missing |= dict.fromkeys(names, str(reason))


class Telemetry:
    """Reads one device.

    Parameters
    ----------
    nvml : NVML
        The door.
    gpu : GPU
        The device.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, nvml: NVML, gpu: GPU, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._gpu = gpu
        self._gpm = GPM(nvml, gpu, clock)
        self._device_memory = DeviceMemory(nvml)
        self._samples_since = 0

    def close(self) -> None:
        """Free what the driver keeps for us."""
        self._gpm.close()

    def fast(self, handle: Any) -> Group:
        """Read what moves quickly."""
        group = Group()
        self._memory(group, handle)
        if self._gpu.is_mig:
            self._instance(group, sources.FAST)
            owner = self._nvml.handle(self._gpu.parent_uuid)
            if owner.value is not None:  # the chip is the same
                group.missing.pop("temperature_celsius", None)
                group.take("temperature_celsius", self._nvml.read("nvmlDeviceGetTemperature", owner.value, 0))
        else:
            self._sources(group, sources.FAST, handle)
        self._multiprocessors(group)
        return group

    def slow(self, handle: Any) -> Group:
        """Read what moves slowly."""
        group = Group()
        if self._gpu.is_mig:
            self._instance(group, sources.SLOW)
            group.miss({one.name for one in sources.FIELDS} | {*sources.FABRIC, "nvlink_links"}, WHOLE_GPU)
            return group
        self._sources(group, sources.SLOW, handle)
        self._fields(group, handle)
        self._links(group, handle)
        self._fabric(group, handle)
        return group

    def busy(self, handle: Any) -> dict[int, float]:
        """Return how busy each process keeps the multiprocessors since the last call, percent by pid."""
        if self._gpu.is_mig or self._gpu.mig_enabled:
            return {}
        found = self._nvml.read("nvmlDeviceGetProcessUtilization", handle, self._samples_since)
        newest: dict[int, tuple[int, float]] = {}
        for sample in found.value or ():
            pid, stamp = int(sample.pid), int(sample.timeStamp)
            self._samples_since = max(self._samples_since, stamp)
            if pid and stamp >= newest.get(pid, (0, 0.0))[0]:
                newest[pid] = stamp, min(100.0, float(sample.smUtil))
        return {pid: use for pid, (_, use) in newest.items()}

    def _sources(self, group: Group, table: Iterable[sources.Source], handle: Any) -> None:
        read = self._nvml.read
        for source in table:
            reading = read(source.function, handle, *source.arguments)
            if reading.value is None and source.older:
                older = read(source.older, handle, *source.arguments)
                reading = older if older.value is not None else reading
            if reading.value is None:
                group.miss(source.names, reading.reason)
            else:
                group.values.update(zip(source.names, map(float, source.convert(reading.value)), strict=True))

    def _instance(self, group: Group, table: Iterable[sources.Source]) -> None:
        """Say which readings a MIG instance does not have."""
        for source in table:
            busy = source.function == "nvmlDeviceGetUtilizationRates"
            group.miss(source.names, Reason.NOT_ON_MIG if busy else WHOLE_GPU)

    def _memory(self, group: Group, handle: Any) -> None:
        """Read memory: the system's where the device has none of its own."""
        reading = self._device_memory.read(handle)
        memory = reading.value
        if memory is None:
            group.miss(_MEMORY, reading.reason)
            return
        group.take("memory_used_bytes", Reading(memory.used_bytes))
        group.take("memory_total_bytes", Reading(memory.total_bytes))
        group.take("memory_free_bytes", Reading(memory.free_bytes))
        group.take("memory_reserved_bytes", Reading(None if memory.unified else memory.reserved_bytes))

    def _multiprocessors(self, group: Group) -> None:
        """Read GPM's metrics; they are the only utilization of a MIG instance."""
        divided = self._gpu.is_mig or self._gpu.mig_enabled
        numbers = [*sources.GPM, sources.GPM_UTILIZATION] if divided else [*sources.GPM]
        found = self._gpm.read(numbers)
        for number, name in sources.GPM.items():
            group.take(name, found[number])
        if divided and found[sources.GPM_UTILIZATION].value is not None:
            group.missing.pop("utilization_percent", None)
            group.take("utilization_percent", found[sources.GPM_UTILIZATION])

    def _fields(self, group: Group, handle: Any) -> None:
        readings = self._nvml.fields(handle, sources.FIELD_IDS)
        for one, reading in zip(sources.FIELDS, readings, strict=True):
            if reading.value is None or reading.value == sources.NOT_AVAILABLE:
                if one.name not in group.values:
                    group.missing[one.name] = str(reading.reason or Reason.NOT_SUPPORTED)
            else:
                group.missing.pop(one.name, None)
                group.values[one.name] = group.values.get(one.name, 0.0) + reading.value * one.factor

    def _links(self, group: Group, handle: Any) -> None:
        """Count the NVLinks that are up."""
        up = 0
        for link in range(sources.MOST_LINKS):
            reading = self._nvml.read("nvmlDeviceGetNvLinkState", handle, link)
            if reading.value is None:
                if link == 0:
                    group.missing["nvlink_links"] = reading.reason
                    return
                break
            up += int(reading.value)
        group.values["nvlink_links"] = float(up)
        if group.missing.keys() & sources.LINK_FIELDS.values():
            self._errors_of_links(group, handle, link + 1)

    def _errors_of_links(self, group: Group, handle: Any, links: int) -> None:
        """Add the errors of single links up, for what is not counted of all together."""
        wanted = [(number, link) for number in sources.LINK_FIELDS for link in range(links)]
        sums: dict[str, float] = {}
        for (number, _), reading in zip(wanted, self._nvml.fields(handle, wanted), strict=True):
            name = sources.LINK_FIELDS[number]
            if name in group.missing and reading.value is not None:
                sums[name] = sums.get(name, 0.0) + reading.value
        for name, value in sums.items():
            group.missing.pop(name)
            group.values[name] = value

    def _fabric(self, group: Group, handle: Any) -> None:
        """Ask for the state of the NVSwitch fabric, by the newest form that the driver knows."""
        reason: str = Reason.BINDINGS_TOO_OLD
        for function, form in (
            ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t"),
            ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
        ):
            info = self._nvml.structure(form)
            if info is None:
                continue
            reading = self._nvml.read(function, handle, ctypes.byref(info))
            reason = reading.reason or Reason.NOT_SUPPORTED
            if reading.value is not None and info.state:  # 0 says that there is no fabric
                group.values.update(zip(sources.FABRIC, sources.fabric_values(info), strict=True))
                return
        group.miss(sources.FABRIC, reason)
