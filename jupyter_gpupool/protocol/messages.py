"""Every structure that crosses a process boundary.

Rules of this module: within API v1 and one format number fields are only added, each with a default, and
readers ignore what they do not know. Sizes are bytes, compute is thousandths, durations are seconds
(floats) and never timestamps, enumerations travel as their values.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import EndReason, LeaseState, Resource, Strength, Verified


class ErrorDoc(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The error envelope."""

    code: str
    message: str
    hint: str = ""
    retry_after: float | None = None


# --- HTTP API -------------------------------------------------------------------------------------


class ShareDoc(msgspec.Struct, kw_only=True):
    """A part of one device."""

    device_id: str
    device_name: str
    compute_milli: int
    memory_bytes: int


class IsolationDoc(msgspec.Struct, kw_only=True):
    """What is in force for one resource of a lease."""

    resource: Resource
    strength: Strength
    mechanism: str
    limit: str
    verified: Verified
    note: str = ""


class HolderDoc(msgspec.Struct, kw_only=True):
    """Who uses a lease."""

    key: str = ""
    kernel_id: str = ""
    label: str = ""
    pid: int | None = None
    restartable: bool = False


class AttachDoc(msgspec.Struct, kw_only=True):
    """How the holder gets under its limits: show ``ticket`` on ``socket`` of the lease's node."""

    socket: str
    ticket: str
    node_id: str
    hostname: str
    expires_seconds: float


class LeaseDoc(msgspec.Struct, kw_only=True):
    """A lease as its owner sees it. Of other owners' leases only the size, kind and state are shown."""

    id: str
    state: LeaseState
    mine: bool
    owner: str
    compute_milli: int
    memory_bytes: int | None
    kind: DeviceKind | None
    device: str
    shares: list[ShareDoc]
    node_id: str
    holder: HolderDoc
    isolation: list[IsolationDoc]
    generation: int
    #: Place in the queue, from 1; None when not QUEUED.
    position: int | None
    #: What it waits for, or what happens next, in words.
    reason: str
    waited_seconds: float
    held_seconds: float
    #: Seconds until ``--for`` ends it; None for ever.
    expires_seconds: float | None
    #: Seconds until the wait ends; None for ever or when not QUEUED.
    wait_left_seconds: float | None
    memory_used_bytes: int | None
    end_reason: EndReason | None
    end_detail: str
    #: True while a resize waits for the agent.
    resizing: bool
    #: Changes whenever anything above does that a waiting client should show.
    tag: str
    attach: AttachDoc | None = None


class ReadingsDoc(msgspec.Struct, kw_only=True):
    """Telemetry of a device; None when it cannot be read."""

    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None


class DeviceDoc(msgspec.Struct, kw_only=True):
    """A device as clients see it."""

    id: str
    name: str
    node_id: str
    kind: DeviceKind
    model: str
    emulated: bool
    memory_bytes: int
    compute_units: int
    free_compute_milli: int
    free_memory_bytes: int
    unmanaged_bytes: int | None
    health: Health
    offered: bool
    #: Why it is not offered, in words; empty when it is.
    withheld: str
    readings: ReadingsDoc
    #: Ids of the leases that have a share of it.
    leases: list[str]


class NodeDoc(msgspec.Struct, kw_only=True):
    """A node as clients see it."""

    id: str
    hostname: str
    connected: bool


class QueueEntryDoc(msgspec.Struct, kw_only=True):
    """One request that waits."""

    position: int
    lease_id: str
    mine: bool
    kind: DeviceKind | None
    compute_milli: int
    memory_bytes: int | None
    reason: str
    waited_seconds: float


class PoolDoc(msgspec.Struct, kw_only=True):
    """The pool snapshot."""

    revision: int
    version: str
    #: The authenticated owner that this snapshot was made for.
    me: str
    embedded: bool
    nodes: list[NodeDoc]
    devices: list[DeviceDoc]
    leases: list[LeaseDoc]
    queue: list[QueueEntryDoc]
    #: Sentences a person should read ("the journal cannot be written: …").
    warnings: list[str]


class HealthDoc(msgspec.Struct, kw_only=True):
    """Answer of ``/health``, the only path that needs no token."""

    status: str
    version: str
    api: int


class HolderRequest(msgspec.Struct, kw_only=True):
    """What a client says of the holder. The kernel id counts only when its token carries the same."""

    key: str = ""
    label: str = ""


class LeaseRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """Body of ``POST /leases``."""

    compute_milli: int
    memory_bytes: int | None = None
    kind: DeviceKind | None = None
    device: str = ""
    #: None waits for ever, 0 not at all.
    wait_seconds: float | None = None
    #: None holds for ever.
    hold_seconds: float | None = None
    holder: HolderRequest = msgspec.field(default_factory=HolderRequest)


class ResizeRequest(msgspec.Struct, kw_only=True):
    """Body of ``PATCH /leases/{id}``; without ``memory_bytes`` the same fraction as of compute."""

    compute_milli: int
    memory_bytes: int | None = None


class UsageDoc(msgspec.Struct, kw_only=True):
    """What one owner has used: device-seconds (thousandths of a device x seconds / 1000)."""

    owner: str
    mine: bool
    device_seconds: float
    leases: int
    live_leases: int


# --- runtime file ---------------------------------------------------------------------------------


class RuntimeFile(msgspec.Struct, kw_only=True):
    """Content of ``pool.json``, 0600 in the runtime directory."""

    format: int
    api: int
    version: str
    url: str
    pid: int
    #: Start time of the process in clock ticks since boot, so that a reused pid is not mistaken for it.
    pid_start: int
    owner: str
    embedded: bool
    #: Address of the control plane (for the agent of the same user only).
    control: str


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


class StopOrder(msgspec.Struct, kw_only=True, tag="stop"):
    """End: the pool is being stopped, and no holder is left."""


Order = PrepareOrder | ApplyOrder | DetachOrder | ReportOrder | StopOrder

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


class HoldersReport(msgspec.Struct, kw_only=True, tag="holders"):
    """All holders, in answer to a `ReportOrder`."""

    token: int
    holders: list[HolderReport]


class DeviceSample(msgspec.Struct, kw_only=True):
    """Telemetry of one device."""

    device_id: str
    readings: ReadingsDoc
    unmanaged_bytes: int | None = None


class LeaseSample(msgspec.Struct, kw_only=True):
    """What the process tree of one holder uses."""

    lease_id: str
    memory_used_bytes: int | None = None
    processes: int | None = None


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
    | HoldersReport
    | DevicesReport
    | SampleReport
)

# --- holder <-> agent (unix socket, one JSON line each way) ---------------------------------------


class AttachRequest(msgspec.Struct, kw_only=True):
    """What a holder sends."""

    ticket: str
    format: int


class AttachReply(msgspec.Struct, kw_only=True):
    """What the agent answers: either ``error``, or what the holder applies to itself."""

    lease_id: str = ""
    #: Environment variables to set in the process and, by inheritance, in its children.
    environment: dict[str, str] = {}
    #: How many threads numeric libraries should use; None to leave them alone.
    threads: int | None = None
    isolation: list[IsolationDoc] = []
    error: ErrorDoc | None = None
