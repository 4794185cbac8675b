"""Every structure that passes between pool service, agents and holders.

Rules of this module: those of `documents`; fields are only added, each with a default.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.protocol.documents import ErrorDoc, IsolationDoc, ProcessDoc, ReadingsDoc
from jupyter_gpupool.protocol.launches import ProcessReport, SignalOrder, StartOrder

# --- pool service -> agent ------------------------------------------------------------------------


class ShareOrder(msgspec.Struct, kw_only=True):
    """A share, as an agent is told."""

    device_id: str
    compute_milli: int
    memory_bytes: int


class PrepareOrder(msgspec.Struct, kw_only=True, tag="prepare"):
    """Expect the holder of a lease. The ticket itself never travels here: only its SHA-256."""

    lease_id: str
    generation: int
    owner: str
    ticket_sha256: str
    expires_seconds: float
    shares: list[ShareOrder]
    #: What is asked for of the node beside the shares: thousandths of a core, and bytes; 0 where nothing is.
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0


class ApplyOrder(msgspec.Struct, kw_only=True, tag="apply"):
    """Put other limits in force for a holder that is attached."""

    lease_id: str
    generation: int
    shares: list[ShareOrder]


class DetachOrder(msgspec.Struct, kw_only=True, tag="detach"):
    """Take the limits of a lease away and confirm (also when there is nothing)."""

    lease_id: str
    generation: int


class ReportOrder(msgspec.Struct, kw_only=True, tag="report"):
    """List all holders; ``token`` comes back with the answer."""

    token: int


class QuiesceOrder(msgspec.Struct, kw_only=True, tag="quiesce"):
    """Make it safe to signal the processes of a lease (under MPS a killed client can take others along)."""

    lease_id: str
    generation: int
    #: Only of this process of the lease and its children; 0 for all of them.
    pid: int = 0


class StopOrder(msgspec.Struct, kw_only=True, tag="stop"):
    """End: the pool is being stopped, and no holder is left."""


Order = (
    PrepareOrder
    | ApplyOrder
    | DetachOrder
    | QuiesceOrder
    | ReportOrder
    | StartOrder
    | SignalOrder
    | StopOrder
)

# --- agent -> pool service ------------------------------------------------------------------------


class DeviceReport(msgspec.Struct, kw_only=True):
    """A device as its agent sees it."""

    id: str
    name: str
    kind: DeviceKind
    model: str
    memory_bytes: int
    compute_units: int
    emulated: bool = False
    health: Health = Health.HEALTHY
    taken_by: str = ""
    unmanaged_bytes: int | None = None
    health_reason: str = ""
    parent_id: str = ""
    parent_milli: int = 1000
    whole_only: bool = False
    one_owner: bool = False
    most_leases: int | None = None
    sharing: str = ""
    isolation: list[IsolationDoc] = []


class HolderReport(msgspec.Struct, kw_only=True):
    """A holder that an agent has attached and that lives."""

    lease_id: str
    generation: int
    pid: int
    isolation: list[IsolationDoc] = []


class HelloReport(msgspec.Struct, kw_only=True, tag="hello"):
    """First report after each connection."""

    format: int
    version: str
    node_id: str
    hostname: str
    pid: int
    socket: str
    devices: list[DeviceReport]
    holders: list[HolderReport]
    #: Processes that it has started, also those that have ended of late.
    processes: list[ProcessReport] = []


class AttachedReport(msgspec.Struct, kw_only=True, tag="attached"):
    """A holder is under its limits."""

    lease_id: str
    generation: int
    pid: int
    isolation: list[IsolationDoc]


class AttachRefusedReport(msgspec.Struct, kw_only=True, tag="attach_refused"):
    """A holder showed a good ticket, but cannot be put under the limits."""

    lease_id: str
    generation: int
    detail: str


class AppliedReport(msgspec.Struct, kw_only=True, tag="applied"):
    """New limits are in force."""

    lease_id: str
    generation: int
    isolation: list[IsolationDoc]


class ApplyRefusedReport(msgspec.Struct, kw_only=True, tag="apply_refused"):
    """New limits cannot be put in force; the old ones hold."""

    lease_id: str
    generation: int
    detail: str


class ExitedReport(msgspec.Struct, kw_only=True, tag="exited"):
    """A holder's process ended."""

    lease_id: str
    generation: int
    detail: str = ""


class DetachedReport(msgspec.Struct, kw_only=True, tag="detached"):
    """Nothing of a lease is left."""

    lease_id: str
    generation: int


class QuiescedReport(msgspec.Struct, kw_only=True, tag="quiesced"):
    """The processes of a lease can be signalled safely now."""

    lease_id: str
    generation: int
    #: As it was ordered.
    pid: int = 0


class HoldersReport(msgspec.Struct, kw_only=True, tag="holders"):
    """All holders, in answer to a `ReportOrder`."""

    token: int
    holders: list[HolderReport]


class DeviceSample(msgspec.Struct, kw_only=True):
    """Telemetry of one device."""

    device_id: str
    readings: ReadingsDoc
    unmanaged_bytes: int | None = None
    #: Further readings by the names of `telemetry.CATALOGUE`; a missing one is not there.
    metrics: dict[str, float] = {}
    #: Why readings are missing, by their names.
    missing: dict[str, str] = {}
    #: Processes that use it without a lease.
    unmanaged: list[ProcessDoc] = []


class LeaseSample(msgspec.Struct, kw_only=True):
    """What the process tree of one holder uses."""

    lease_id: str
    #: Bytes of the device's memory.
    memory_used_bytes: int | None = None
    processes: int | None = None
    #: Bytes of the node's main memory, where that is another memory.
    host_memory_bytes: int | None = None
    #: How busy they keep the device, percent of the whole device.
    utilization_percent: float | None = None
    #: Sentences that the owner should read now.
    notices: list[str] = []


class DevicesReport(msgspec.Struct, kw_only=True, tag="devices"):
    """All devices anew, when something other than telemetry changed (health, who took it)."""

    devices: list[DeviceReport]


class SampleReport(msgspec.Struct, kw_only=True, tag="sample"):
    """Telemetry of a node; never journaled."""

    devices: list[DeviceSample]
    leases: list[LeaseSample]


Report = (
    HelloReport
    | AttachedReport
    | AttachRefusedReport
    | AppliedReport
    | ApplyRefusedReport
    | ExitedReport
    | DetachedReport
    | QuiescedReport
    | HoldersReport
    | DevicesReport
    | SampleReport
    | ProcessReport
)

# --- holder <-> agent (unix socket, one JSON line each way) ---------------------------------------


class AttachRequest(msgspec.Struct, kw_only=True):
    """What a holder sends."""

    ticket: str
    format: int
    #: Installed frameworks and their versions ("pytorch": "2.13.0"), looked up without importing them.
    frameworks: dict[str, str] = {}


class DeviceCap(msgspec.Struct, kw_only=True):
    """How much of a device's memory frameworks in the holder may take."""

    device_id: str
    memory_bytes: int
    #: What the device has in all: the base of frameworks that take a fraction.
    total_bytes: int


class AttachReply(msgspec.Struct, kw_only=True):
    """What the agent answers: either ``error``, or what the holder applies to itself."""

    lease_id: str = ""
    #: Environment variables to set in the process and, by inheritance, in its children.
    environment: dict[str, str] = {}
    #: How many threads numeric libraries should use; None to leave them alone.
    threads: int | None = None
    isolation: list[IsolationDoc] = []
    error: ErrorDoc | None = None
    #: Caps that the holder puts on frameworks itself, as far as they are loaded.
    caps: list[DeviceCap] = []
    #: Sentences that the person at the holder should read (what could not be applied, and what helps).
    notices: list[str] = []
