"""One round of the sampler: every GPU once, the slow readings now and then.

Rules of this module: a GPU that was there and does not answer is not forgotten but failed, and comes back
when it answers; a MIG instance that is gone while its GPU is there was taken away on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.health.monitor import Monitor, worse_of
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import Vitals
from jupyter_gpupool.backends.nvidia.health.xids import XidListener
from jupyter_gpupool.backends.nvidia.processes import GPUProcess, device_processes
from jupyter_gpupool.backends.nvidia.snapshot import GPUSnapshot, Snapshot
from jupyter_gpupool.backends.nvidia.telemetry import Group, Telemetry
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.telemetry import READINGS

#: Pause between two slow readings, and between two looks at which GPUs there are, seconds.
SLOW_SECONDS = 10.0
#: Reasons by which a GPU as a whole does not answer.
_LOST = (Reason.LOST, Reason.NO_DRIVER, Reason.NOT_INSTALLED)


class Look(Protocol):
    """Lists the GPUs that are there."""

    #: Why there is none, one clause; empty when there is any.
    problem: str

    def look(self) -> list[GPU]:
        """List them in PCI order, each GPU's MIG instances after it."""


class _Watched:
    """One device over time."""

    def __init__(self, nvml: NVML, gpu: GPU, rules: HealthRules, clock: Callable[[], float]) -> None:
        self.gpu = gpu
        self.telemetry = Telemetry(nvml, gpu, clock)
        self.monitor = Monitor(rules)
        self.slow = Group()
        self.there = True


class Rounds:
    """Takes rounds, one at a time.

    Parameters
    ----------
    nvml : NVML
        The door.
    discovery : Look
        Which GPUs there are.
    rules : HealthRules
        By which health is judged.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, nvml: NVML, discovery: Look, rules: HealthRules, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._discovery = discovery
        self._rules = rules
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._xids = XidListener(nvml)
        self._generation = -1
        self._slow_at = float("-inf")

    def take(self) -> Snapshot:
        """Take one round."""
        now = self._clock()
        problem = self._nvml.open()
        slow = now - self._slow_at >= SLOW_SECONDS or self._generation != self._nvml.generation
        if not problem:
            if slow:
                self._slow_at, self._generation = now, self._nvml.generation
                self._discover()
            self._xids.watch(one.gpu for one in self._watched.values() if one.there)
            self._xids.listen(now)
        devices = {uuid: self._sample(one, now, problem, slow) for uuid, one in self._watched.items()}
        gpus = tuple(one.gpu for one in self._watched.values())
        why = "" if gpus else problem or self._discovery.problem
        return Snapshot(
            taken_seconds=now, gpus=gpus, problem=f"There is no GPU: {why}." if why else "", by_uuid=devices
        )

    def close(self) -> None:
        """Free what the driver keeps for us."""
        for one in self._watched.values():
            one.telemetry.close()
        self._xids.close()

    # --- which there are --------------------------------------------------------------------------------

    def _discover(self) -> None:
        """Look which GPUs there are; those that vanished are kept, as lost ones."""
        found = {gpu.uuid: gpu for gpu in self._discovery.look()}
        watched: dict[str, _Watched] = {}
        for uuid, gpu in found.items():
            one = self._watched.get(uuid) or _Watched(self._nvml, gpu, self._rules, self._clock)
            one.gpu, one.there = gpu, True
            watched[uuid] = one
        for uuid, one in self._watched.items():
            if uuid in found or (one.gpu.is_mig and one.gpu.parent_uuid in found):
                continue
            one.there = False
            watched[uuid] = one
        for uuid in self._watched.keys() - watched.keys():
            self._watched[uuid].telemetry.close()
        order = sorted(watched.items(), key=lambda item: (item[1].gpu.pci_bus_id, item[1].gpu.is_mig))
        self._watched = dict(order)

    # --- one device -------------------------------------------------------------------------------------

    def _sample(self, one: _Watched, now: float, problem: str, slow: bool) -> GPUSnapshot:
        """Read one device, and judge its health."""
        handle = self._nvml.handle(one.gpu.uuid) if one.there and not problem else Reading(None, problem)
        if handle.value is None:
            return self._lost(one, now, handle.reason or Reason.LOST)
        fast = one.telemetry.fast(handle.value)
        if lost := _why_lost(fast):
            return self._lost(one, now, lost)
        if slow or not one.slow.values:
            one.slow = one.telemetry.slow(handle.value)
        processes = device_processes(self._nvml, one.gpu)
        values, missing = one.slow.values | fast.values, one.slow.missing | fast.missing
        self._count(one, values, missing, processes)
        one.monitor.see(Vitals(seconds=now, values=values, xids=self._xids.of(one.gpu)))
        return self._snapshot(one, values, missing, processes, one.telemetry.busy(handle.value))

    def _lost(self, one: _Watched, now: float, reason: str) -> GPUSnapshot:
        """Return what is known of a device that does not answer."""
        one.monitor.see(Vitals(seconds=now, values={}, lost=str(reason), xids=self._xids.of(one.gpu)))
        one.slow = Group()
        missing = dict.fromkeys(READINGS, str(reason))
        return self._snapshot(one, {}, missing, Reading(None, str(reason)), {})

    def _count(
        self,
        one: _Watched,
        values: dict[str, float],
        missing: dict[str, str],
        processes: Reading[list[GPUProcess]],
    ) -> None:
        """Add what is counted here and not by the driver."""
        if processes.value is None:
            missing["processes"] = processes.reason
        else:
            values["processes"] = float(len(processes.value))
        why = self._xids.missing.get(one.gpu.parent_uuid or one.gpu.uuid)
        if why:
            missing["xid_events"] = why
            return
        xids = self._xids.of(one.gpu)
        values["xid_events"] = float(self._xids.count(one.gpu))
        if xids:
            values["last_xid"] = float(xids[-1].number)

    def _snapshot(
        self,
        one: _Watched,
        values: dict[str, float],
        missing: dict[str, str],
        processes: Reading[list[GPUProcess]],
        busy: dict[int, float],
    ) -> GPUSnapshot:
        health, reason = self._health(one)
        memory = values.get("memory_used_bytes")
        return GPUSnapshot(
            readings=ReadingsDoc(
                utilization_percent=values.get("utilization_percent"),
                memory_used_bytes=None if memory is None else int(memory),
                temperature_celsius=values.get("temperature_celsius"),
                power_watts=values.get("power_watts"),
            ),
            metrics={name: value for name, value in values.items() if name not in READINGS},
            missing=missing,
            processes=processes,
            per_process_utilization=busy,
            health=health,
            health_reason=reason,
        )

    def _health(self, one: _Watched) -> tuple[Health, str]:
        """Return a device's health; a MIG instance is as ill as its GPU."""
        health, reasons = one.monitor.health, [one.monitor.reason]
        owner = self._watched.get(one.gpu.parent_uuid)
        if owner is not None:
            health = worse_of(health, owner.monitor.health)
            reasons.append(owner.monitor.reason)
        return health, " ".join(dict.fromkeys(filter(None, reasons)))


def _why_lost(fast: Group) -> str:
    """Say why a device does not answer at all; empty when it does."""
    for reason in fast.missing.values():
        if reason in _LOST:
            return reason
    if fast.values:
        return ""
    return next(iter(fast.missing.values()), Reason.LOST)
