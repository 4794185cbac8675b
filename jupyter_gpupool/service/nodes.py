"""What the agents have said: where each can be reached, its devices, its holders, its readings.

Rule of this module: it is what was last reported, kept so that a Pool which is built anew can be told again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.events import HolderSeen
from jupyter_gpupool.protocol.messages import (
    ApplyRefusedReport,
    AttachedReport,
    DetachedReport,
    DevicesReport,
    ExitedReport,
    HelloReport,
    HoldersReport,
    ReadingsDoc,
    Report,
    SampleReport,
)
from jupyter_gpupool.service.convert import device_of, holders_seen, isolation_of

#: A change of unmanaged memory smaller than this is not worth a decision, bytes.
UNMANAGED_STEP_BYTES = 64 * 2**20


@dataclass(kw_only=True, slots=True)
class NodeEntry:
    """What one connected agent has reported."""

    node_id: str
    hostname: str
    socket: str
    devices: dict[str, Device]
    holders: dict[str, HolderSeen]
    readings: dict[str, ReadingsDoc] = field(default_factory=dict)


class NodeBook:
    """All connected nodes, and the memory that each lease's holder uses."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeEntry] = {}
        self.lease_memory: dict[str, int | None] = {}
        #: Why an agent could not put a new size in force, by lease; taken by whoever waits for it.
        self.refusals: dict[str, str] = {}
        #: Grows with every `SampleReport`, so that watchers know of new readings.
        self.samples = 0

    def hello(self, report: HelloReport) -> NodeEntry:
        """Note a (re)connected agent."""
        entry = NodeEntry(
            node_id=report.node_id,
            hostname=report.hostname,
            socket=report.socket,
            devices={device.id: device_of(report.node_id, device) for device in report.devices},
            holders={seen.lease_id: seen for seen in holders_seen(report.holders)},
        )
        self.nodes[report.node_id] = entry
        return entry

    def left(self, node_id: str) -> None:
        """Forget an agent that is not connected any more."""
        entry = self.nodes.pop(node_id, None)
        for lease_id in entry.holders if entry else ():
            self.lease_memory.pop(lease_id, None)

    def note(self, node_id: str, report: Report) -> None:
        """Keep the list of a node's holders as the agent has it."""
        entry = self.nodes.get(node_id)
        if entry is None:
            return
        match report:
            case ApplyRefusedReport():
                self.refusals[report.lease_id] = report.detail
            case AttachedReport():
                seen = HolderSeen(
                    lease_id=report.lease_id,
                    generation=report.generation,
                    pid=report.pid,
                    isolation=isolation_of(report.isolation),
                )
                entry.holders[report.lease_id] = seen
            case ExitedReport() | DetachedReport():
                entry.holders.pop(report.lease_id, None)
                self.refusals.pop(report.lease_id, None)
                self.lease_memory.pop(report.lease_id, None)
            case DevicesReport():
                entry.devices = {device.id: device_of(node_id, device) for device in report.devices}
            case HoldersReport():
                entry.holders = {seen.lease_id: seen for seen in holders_seen(report.holders)}
            case _:
                pass

    def sample(self, node_id: str, report: SampleReport) -> bool:
        """Keep readings; tell whether unmanaged memory changed enough to be told to the pool."""
        entry = self.nodes.get(node_id)
        if entry is None:
            return False
        self.samples += 1
        for lease in report.leases:
            self.lease_memory[lease.lease_id] = lease.memory_used_bytes
        changed = False
        for sample in report.devices:
            entry.readings[sample.device_id] = sample.readings
            device = entry.devices.get(sample.device_id)
            if device is not None and _moved(device, sample.unmanaged_bytes):
                entry.devices[device.id] = _with_unmanaged(device, sample.unmanaged_bytes)
                changed = True
        return changed

    def reading(self, device: Device) -> ReadingsDoc:
        """Return the newest readings of a device; all None when there are none."""
        entry = self.nodes.get(device.node_id)
        found = entry.readings.get(device.id) if entry else None
        return found if found is not None else ReadingsDoc()


def _moved(device: Device, unmanaged_bytes: int | None) -> bool:
    before = device.unmanaged_bytes
    if before is None or unmanaged_bytes is None:
        return before != unmanaged_bytes
    step = max(UNMANAGED_STEP_BYTES, device.memory_bytes // 100)
    return abs(before - unmanaged_bytes) >= step or (unmanaged_bytes == 0 and before != 0)


def _with_unmanaged(device: Device, unmanaged_bytes: int | None) -> Device:
    return replace(device, unmanaged_bytes=unmanaged_bytes)
