"""The CPU as a device: what it is, and how busy it is.

Rule of this module: it only reads, and says ``None`` for what cannot be read.
"""

from __future__ import annotations

import uuid

from jupyter_gpupool.backends.machine import Machine, reserve_bytes
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample
from jupyter_gpupool.protocol.paths import machine_id

#: Name of the device.
DEVICE_NAME = "cpu"
#: Makes the device's id from the machine's.
_NAMESPACE = uuid.UUID("6f1d3c1e-52a5-4c5c-9d0a-0c7a5f2b9e11")


class CPUDevice:
    """The processor and main memory of one machine.

    Parameters
    ----------
    machine : Machine
        Where to look.
    node_name : str
        What tells this node from others that have the same machine id.
    """

    def __init__(self, machine: Machine, node_name: str = "") -> None:
        self._machine = machine
        self.id = f"CPU-{uuid.uuid5(_NAMESPACE, f'{machine_id()} {node_name}'.rstrip())}"
        self._times: tuple[int, int] | None = None
        self.look()

    def look(self) -> None:
        """Find out again which cores and how much memory are usable."""
        self.cores = self._machine.cores()
        self.usable_bytes = self._machine.memory_bytes()

    @property
    def leasable_bytes(self) -> int | None:
        """Usable memory less what is kept for the system; None when unknown."""
        return None if self.usable_bytes is None else self.usable_bytes - reserve_bytes(self.usable_bytes)

    def report(self, leased_bytes: int) -> list[DeviceReport]:
        """Describe the device; nothing where its memory cannot be read."""
        if self.usable_bytes is None:
            return []
        return [
            DeviceReport(
                id=self.id,
                name=DEVICE_NAME,
                kind=DeviceKind.CPU,
                model=self._machine.model(),
                memory_bytes=self.usable_bytes - reserve_bytes(self.usable_bytes),
                compute_units=self.cores.count,
                unmanaged_bytes=self._unmanaged_bytes(self._machine.memory_used_bytes(), leased_bytes),
            )
        ]

    def sample(self, leased_bytes: int) -> DeviceSample:
        """Read use and temperature."""
        used = self._machine.memory_used_bytes()
        readings = ReadingsDoc(
            utilization_percent=self._utilization(),
            memory_used_bytes=used,
            temperature_celsius=self._machine.temperature_celsius(),
        )
        unmanaged = self._unmanaged_bytes(used, leased_bytes)
        return DeviceSample(device_id=self.id, readings=readings, unmanaged_bytes=unmanaged)

    def _utilization(self) -> float | None:
        """Return how busy the usable cores were since the last call, percent; None the first time."""
        busy, total = self._machine.core_times(self.cores.ids)
        before, self._times = self._times, (busy, total)
        if before is None or total <= before[1]:
            return None
        return round(100.0 * max(0, busy - before[0]) / (total - before[1]), 1)

    def _unmanaged_bytes(self, used: int | None, leased_bytes: int) -> int | None:
        """Return what processes without a lease use beyond the system's reserve; None if unknown."""
        if used is None or self.usable_bytes is None:
            return None
        return max(0, used - leased_bytes - reserve_bytes(self.usable_bytes))
