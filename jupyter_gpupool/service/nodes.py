"""What the agents have said beside what concerns the pool: sockets, devices as they are, readings.

Rule of this module: it is what was last reported by agents that are connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jupyter_gpupool.core.devices import Device, DeviceKind, Health
from jupyter_gpupool.core.leases import HOLDING, Lease
from jupyter_gpupool.core.wording import because
from jupyter_gpupool.protocol.messages import (
    ApplyRefusedReport,
    DetachedReport,
    DeviceReport,
    DeviceSample,
    DevicesReport,
    ExitedReport,
    HelloReport,
    LeaseSample,
    Report,
    SampleReport,
)
from jupyter_gpupool.service.convert import device_of

#: A change of unmanaged memory smaller than this is not worth a decision, bytes.
UNMANAGED_STEP_BYTES = 64 * 2**20
#: `DeviceReport.sharing` of a device on which a process that is killed can take others along.
_FRAGILE = "mps"


class Changes(NamedTuple):
    """What a report has changed that somebody may wait for.

    Attributes
    ----------
    pool : bool
        Whether the pool should be told of the node's devices.
    leases : tuple of str
        Leases whose owners have something else to read now.
    devices : tuple of str
        Devices of which the same is true.
    """

    pool: bool = False
    leases: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class NodeEntry:
    """What one connected agent has reported.

    Attributes
    ----------
    devices, reports : dict
        Devices by id: as the pool takes them, and as they were reported.
    samples : dict of str to DeviceSample
        The newest telemetry by device.
    lease_samples : dict of str to LeaseSample
        What the holders use, by lease.
    """

    node_id: str
    hostname: str
    socket: str
    version: str = ""
    devices: dict[str, Device] = field(default_factory=dict)
    reports: dict[str, DeviceReport] = field(default_factory=dict)
    samples: dict[str, DeviceSample] = field(default_factory=dict)
    lease_samples: dict[str, LeaseSample] = field(default_factory=dict)

    def describe(self, reports: Iterable[DeviceReport]) -> tuple[str, ...]:
        """Take over what an agent says of its devices; return those whose health is another now."""
        before = self.devices
        self.reports = {report.id: report for report in reports}
        self.devices = {key: device_of(self.node_id, report) for key, report in self.reports.items()}
        self.samples = {key: sample for key, sample in self.samples.items() if key in self.devices}
        return tuple(
            key
            for key, device in self.devices.items()
            if key in before and _condition(device) != _condition(before[key])
        )


class NodeBook:
    """All connected nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeEntry] = {}
        #: Why an agent could not put a new size in force, by lease; taken by whoever waits for it.
        self.refusals: dict[str, str] = {}

    def hello(self, report: HelloReport) -> NodeEntry:
        """Note a (re)connected agent."""
        entry = NodeEntry(
            node_id=report.node_id,
            hostname=report.hostname,
            socket=report.socket,
            version=report.version,
        )
        entry.describe(report.devices)
        self.nodes[report.node_id] = entry
        return entry

    def left(self, node_id: str) -> None:
        """Forget an agent that is not connected any more."""
        self.nodes.pop(node_id, None)

    def note(self, node_id: str, report: Report) -> Changes:
        """Keep what a report says beside what the pool makes of it."""
        entry = self.nodes.get(node_id)
        if entry is None:
            return Changes()
        match report:
            case ApplyRefusedReport():
                self.refusals[report.lease_id] = report.detail
            case ExitedReport() | DetachedReport():
                self.refusals.pop(report.lease_id, None)
            case DevicesReport():
                return Changes(pool=True, devices=entry.describe(report.devices))
            case SampleReport():
                return self._sample(entry, report)
            case _:
                pass
        return Changes()

    def _sample(self, entry: NodeEntry, report: SampleReport) -> Changes:
        """Keep readings; unmanaged memory is told to the pool only when it has changed enough."""
        before, now = entry.lease_samples, {sample.lease_id: sample for sample in report.leases}
        entry.lease_samples = now
        told = tuple(it for it in before.keys() | now.keys() if _notices(before, it) != _notices(now, it))
        changed = False
        for sample in report.devices:
            entry.samples[sample.device_id] = sample
            device = entry.devices.get(sample.device_id)
            if device is not None and _moved(device, sample.unmanaged_bytes):
                entry.devices[device.id] = _with_unmanaged(device, sample.unmanaged_bytes)
                changed = True
        return Changes(pool=changed, leases=told)

    @property
    def samples(self) -> dict[str, DeviceSample]:
        """The newest telemetry of all devices, by id."""
        return {key: sample for entry in self.nodes.values() for key, sample in entry.samples.items()}

    @property
    def lease_samples(self) -> dict[str, LeaseSample]:
        """What all holders use, by lease."""
        return {key: sample for entry in self.nodes.values() for key, sample in entry.lease_samples.items()}

    def report(self, device: Device) -> DeviceReport | None:
        """Return a device as its agent reported it; None while that is not connected."""
        entry = self.nodes.get(device.node_id)
        return entry.reports.get(device.id) if entry else None

    def sample(self, device: Device) -> DeviceSample | None:
        """Return the newest telemetry of a device; None when there is none."""
        entry = self.nodes.get(device.node_id)
        return entry.samples.get(device.id) if entry else None

    def lease_sample(self, lease: Lease) -> LeaseSample | None:
        """Return what a lease's holder uses; None when that is not known."""
        entry = self.nodes.get(lease.node_id)
        return entry.lease_samples.get(lease.id) if entry else None

    def notices(self, lease: Lease) -> list[str]:
        """Return what a lease's owner should read now: of its devices first, then of what it uses."""
        entry = self.nodes.get(lease.node_id)
        if entry is None or lease.state not in HOLDING:
            return []
        devices = (entry.devices.get(share.device_id) for share in lease.shares)
        ill = [_illness(device) for device in devices if device and device.health is not Health.HEALTHY]
        return [*ill, *_notices(entry.lease_samples, lease.id)]

    def fragile(self, lease: Lease) -> bool:
        """Whether it may harm others to signal a lease's processes before they are quiesced."""
        entry = self.nodes.get(lease.node_id)
        if entry is None:
            return lease.want.kind is DeviceKind.CUDA
        reports = (entry.reports.get(share.device_id) for share in lease.shares)
        return any(report is not None and report.sharing == _FRAGILE for report in reports)


def _notices(samples: Mapping[str, LeaseSample], lease_id: str) -> list[str]:
    sample = samples.get(lease_id)
    return sample.notices if sample is not None else []


def _condition(device: Device) -> tuple[Health, str]:
    return device.health, device.health_reason


def _illness(device: Device) -> str:
    """Tell the owner of a lease what is wrong with its device."""
    reason = because(device.health_reason)
    if device.health is Health.FAILED:
        return f"{device.name} is failing{reason}. Your work goes on; save it."
    return f"{device.name} is degraded{reason}. Your work goes on."


def _moved(device: Device, unmanaged_bytes: int | None) -> bool:
    before = device.unmanaged_bytes
    if before is None or unmanaged_bytes is None:
        return before != unmanaged_bytes
    step = max(UNMANAGED_STEP_BYTES, device.memory_bytes // 100)
    return abs(before - unmanaged_bytes) >= step or (unmanaged_bytes == 0 and before != 0)


def _with_unmanaged(device: Device, unmanaged_bytes: int | None) -> Device:
    return replace(device, unmanaged_bytes=unmanaged_bytes)
