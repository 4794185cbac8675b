"""Devices that do not exist, with telemetry that behaves as if they did.

Rules of this module: nothing is enforced, and every device and every lease says so; the telemetry follows
the leases, is the same for the same seed and clock, and knows neither real time nor chance.
"""

from __future__ import annotations

import hashlib
import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from jupyter_gpupool.backends.base import (
    Attachment,
    Backend,
    BackendError,
    HolderGone,
    Note,
    ProcessMark,
    no_note,
)
from jupyter_gpupool.backends.emulated_metrics import made_up
from jupyter_gpupool.backends.emulated_models import EmulatedModel, parse_emulation
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_compute, format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc, ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample, LeaseSample, ShareOrder
from jupyter_gpupool.protocol.names import ENV_LEASE

#: What every lease on an emulated device says of itself.
MECHANISM = "emulated: nothing is enforced"
#: Memory that a driver keeps for itself, bytes.
_DRIVER_BYTES = 512 * 2**20
#: Temperatures of a device that is idle (the coolest), and how much warmer full load makes it, °C.
_IDLE_CELSIUS, _LOAD_CELSIUS = 30.0, 42.0
#: How quickly power, temperature and memory follow, seconds.
_POWER_SECONDS, _HEAT_SECONDS, _WARM_UP_SECONDS = 2.0, 30.0, 20.0
_NAMESPACE = uuid.UUID("b5b8c7f4-6f0a-4d3e-8a70-3a1c9f2d7e55")


class EmulatedUndo(msgspec.Struct, kw_only=True):
    """When a lease began, so that its memory goes on warming up after a restart of the agent."""

    attached_seconds: float


@dataclass(slots=True)
class _Device:
    """One device and its slow quantities."""

    id: str
    name: str
    model: EmulatedModel
    seconds: float | None = None
    watts: float = 0.0
    celsius: float = 0.0
    joules: float = 0.0


class EmulatedBackend(Backend):
    """Emulated GPUs.

    Parameters
    ----------
    spec : str
        Which, as "8xA100-80GB,2xH100-80GB".
    seed : int
        Makes another course of the telemetry.
    clock : callable
        Monotonic seconds.
    prefix : str
        What their names begin with: beside real devices they need others.
    node_name : str
        What tells this node's devices from those of others that emulate the same.
    """

    def __init__(
        self,
        spec: str,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        prefix: str = "cuda",
        node_name: str = "",
    ) -> None:
        self._seed, self._clock = seed, clock
        self._procfs = ProcFS()
        self._devices: dict[str, _Device] = {}
        for index, model in enumerate(parse_emulation(spec)):
            text = f"{node_name}{spec}#{index}"
            made = _Device(id=f"GPU-{uuid.uuid5(_NAMESPACE, text)}", name=f"{prefix}{index}", model=model)
            self._devices[made.id] = made

    def discover(self) -> list[DeviceReport]:
        """Report the devices, each marked as emulated."""
        return [
            DeviceReport(
                id=device.id,
                name=device.name,
                kind=DeviceKind.CUDA,
                model=f"{device.model.name} (emulated)",
                memory_bytes=device.model.memory_bytes - _DRIVER_BYTES,
                compute_units=device.model.multiprocessors,
                emulated=True,
                unmanaged_bytes=0,
            )
            for device in self._devices.values()
        ]

    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        """Take any process that lives; limits nothing."""
        undo = EmulatedUndo(attached_seconds=self._clock())
        return self._attachment(lease_id, share, holder, msgspec.Raw(msgspec.json.encode(undo)))

    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        """Take another share; limits nothing."""
        return self._attachment(attachment.lease_id, share, attachment.holder, attachment.undo)

    def detach(self, attachment: Attachment) -> None:
        """There is nothing to restore."""

    def watch(self, attachment: Attachment) -> LeaseSample:
        """Tell what the lease would use."""
        alive, now = self._procfs.alive(attachment.holder), self._clock()
        return LeaseSample(
            lease_id=attachment.lease_id,
            memory_used_bytes=self._memory_bytes(attachment, now) if alive else None,
            processes=int(alive),
            utilization_percent=round(100 * self._utilization(attachment, now), 1) if alive else None,
        )

    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        """Make up readings that follow the leases."""
        now = self._clock()
        by_device: dict[str, list[Attachment]] = {}
        for lease in leases:
            by_device.setdefault(lease.share.device_id, []).append(lease)
        return [self._sample(device, by_device.get(device.id, ()), now) for device in self._devices.values()]

    # --- attachments --------------------------------------------------------------------------------

    def _attachment(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, undo: msgspec.Raw
    ) -> Attachment:
        if share.device_id not in self._devices:
            raise BackendError(
                f"There is no device {share.device_id} on this node.", hint="List the devices."
            )
        if not self._procfs.alive(holder):
            raise HolderGone(f"Process {holder.pid} ended before it could be attached.")
        limits = {
            Resource.MEMORY: format_memory(share.memory_bytes),
            Resource.COMPUTE: f"{format_compute(share.compute_milli)} of the device",
        }
        return Attachment(
            lease_id=lease_id,
            share=share,
            holder=holder,
            isolation=[
                IsolationDoc(
                    resource=resource,
                    strength=Strength.NONE,
                    mechanism=MECHANISM,
                    limit=limit,
                    verified=Verified.READ_BACK,
                    note="There is no such device.",
                )
                for resource, limit in limits.items()
            ],
            environment={ENV_LEASE: lease_id},
            threads=None,
            undo=undo,
        )

    # --- telemetry ----------------------------------------------------------------------------------

    def _sample(self, device: _Device, leases: Sequence[Attachment], now: float) -> DeviceSample:
        """Advance a device to now, and read it."""
        load = min(1.0, sum(self._utilization(lease, now) for lease in leases))
        self._follow(device, load, now)
        memory = _DRIVER_BYTES + sum(self._memory_bytes(lease, now) for lease in leases)
        readings = ReadingsDoc(
            utilization_percent=round(100 * load, 1),
            memory_used_bytes=memory,
            temperature_celsius=round(device.celsius, 1),
            power_watts=round(device.watts, 1),
        )
        metrics = made_up(
            device.model,
            load=load,
            used_bytes=memory,
            reserved_bytes=_DRIVER_BYTES,
            processes=len(leases),
            energy_joules=device.joules,
        )
        return DeviceSample(device_id=device.id, readings=readings, unmanaged_bytes=0, metrics=metrics)

    def _follow(self, device: _Device, load: float, now: float) -> None:
        """Let power follow the load, and temperature the power, each with its inertia."""
        model, idle = device.model, _IDLE_CELSIUS + 8 * self._unit(device.id, "idle")
        if device.seconds is None:
            device.seconds, device.watts, device.celsius = now, model.idle_watts, idle
        passed, device.seconds = max(0.0, now - device.seconds), now
        span = model.full_watts - model.idle_watts
        device.joules += device.watts * passed
        device.watts = _approach(device.watts, model.idle_watts + span * load, passed / _POWER_SECONDS)
        warm = idle + _LOAD_CELSIUS * (device.watts - model.idle_watts) / span
        device.celsius = _approach(device.celsius, warm, passed / _HEAT_SECONDS)

    def _utilization(self, lease: Attachment, now: float) -> float:
        """Return how much of the device a lease computes: it wanders between a half and all of its share."""
        waves = sum(
            math.sin(2 * math.pi * (now / period + self._unit(lease.lease_id, f"phase{period}")))
            for period in (7.0, 23.0, 61.0)
        )
        return lease.share.compute_milli / 1000 * min(1.0, max(0.0, 0.75 + 0.1 * waves))

    def _memory_bytes(self, lease: Attachment, now: float) -> int:
        """Return how much memory a lease uses: it warms up towards 70 to 90 % of its share."""
        age = max(0.0, now - msgspec.json.decode(lease.undo, type=EmulatedUndo).attached_seconds)
        target = 0.7 + 0.2 * self._unit(lease.lease_id, "memory")
        return int(lease.share.memory_bytes * target * (1 - math.exp(-age / _WARM_UP_SECONDS)))

    def _unit(self, name: str, purpose: str) -> float:
        """Return a number in [0, 1) that is always the same for the same name, purpose and seed."""
        digest = hashlib.blake2b(f"{self._seed}/{purpose}/{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


def _approach(value: float, target: float, time_constants: float) -> float:
    """Move a value towards a target with inertia."""
    return target + (value - target) * math.exp(-time_constants)
