"""What the agents have said beside what concerns the pool: sockets, devices as they are, readings.

Rule of this module: it is what was last reported by agents that are connected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.messages import (
    ApplyRefusedReport,
    DetachedReport,
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


@dataclass(kw_only=True, slots=True)
class NodeEntry:
    """What one connected agent has reported."""

    node_id: str
    hostname: str
    socket: str
    devices: dict[str, Device]
    #: The newest telemetry, by device, and by lease.
    samples: dict[str, DeviceSample] = field(default_factory=dict)
    lease_samples: dict[str, LeaseSample] = field(default_factory=dict)


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
            devices={device.id: device_of(report.node_id, device) for device in report.devices},
        )
        self.nodes[report.node_id] = entry
        return entry

    def left(self, node_id: str) -> None:
        """Forget an agent that is not connected any more."""
        self.nodes.pop(node_id, None)

    def note(self, node_id: str, report: Report) -> None:
        """Keep what a report says beside what the pool makes of it."""
        entry = self.nodes.get(node_id)
        if entry is None:
            return
        match report:
            case ApplyRefusedReport():
                self.refusals[report.lease_id] = report.detail
            case ExitedReport() | DetachedReport():
                self.refusals.pop(report.lease_id, None)
            case DevicesReport():
                entry.devices = {device.id: device_of(node_id, device) for device in report.devices}
            case _:
                pass

    def sample(self, node_id: str, report: SampleReport) -> bool:
        """Keep readings; tell whether unmanaged memory changed enough to be told to the pool."""
        entry = self.nodes.get(node_id)
        if entry is None:
            return False
        entry.lease_samples = {lease.lease_id: lease for lease in report.leases}
        changed = False
        for sample in report.devices:
            entry.samples[sample.device_id] = sample
            device = entry.devices.get(sample.device_id)
            if device is not None and _moved(device, sample.unmanaged_bytes):
                entry.devices[device.id] = _with_unmanaged(device, sample.unmanaged_bytes)
                changed = True
        return changed

    def memory_used(self, lease: Lease) -> int | None:
        """Return what a lease's holder uses, bytes; None when that is not known."""
        entry = self.nodes.get(lease.node_id)
        sample = entry.lease_samples.get(lease.id) if entry else None
        return sample.memory_used_bytes if sample else None

    def reading(self, device: Device) -> ReadingsDoc:
        """Return the newest readings of a device; all None when there are none."""
        entry = self.nodes.get(device.node_id)
        sample = entry.samples.get(device.id) if entry else None
        return sample.readings if sample is not None else ReadingsDoc()


def _moved(device: Device, unmanaged_bytes: int | None) -> bool:
    before = device.unmanaged_bytes
    if before is None or unmanaged_bytes is None:
        return before != unmanaged_bytes
    step = max(UNMANAGED_STEP_BYTES, device.memory_bytes // 100)
    return abs(before - unmanaged_bytes) >= step or (unmanaged_bytes == 0 and before != 0)


def _with_unmanaged(device: Device, unmanaged_bytes: int | None) -> Device:
    return replace(device, unmanaged_bytes=unmanaged_bytes)
