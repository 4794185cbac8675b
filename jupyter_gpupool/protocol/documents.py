"""Every structure that the HTTP API and the runtime file carry.

Rules of this module: within API v1 and one format number fields are only added, each with a default, and
readers ignore what they do not know. Sizes are bytes, compute is thousandths, durations are seconds
(floats) and never timestamps (but for the moment at which a snapshot was taken), enumerations travel as their
values.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from jupyter_gpupool.core.causes import Cause
from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import EndReason, LeaseState, Priority, Resource, Strength, Verified
from jupyter_gpupool.protocol.moves import MovedDoc as MovedDoc
from jupyter_gpupool.protocol.moves import MoveRequest as MoveRequest
from jupyter_gpupool.protocol.proposals import ProposalDoc as ProposalDoc
from jupyter_gpupool.protocol.proposals import ProposedMoveDoc as ProposedMoveDoc
from jupyter_gpupool.protocol.usage import HeldDoc as HeldDoc
from jupyter_gpupool.protocol.usage import QuotaDoc as QuotaDoc
from jupyter_gpupool.protocol.usage import UsageDoc as UsageDoc
from jupyter_gpupool.protocol.usage import UsageRowDoc as UsageRowDoc


class ErrorDoc(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The error envelope."""

    code: str
    message: str
    hint: str = ""
    retry_after: float | None = None
    #: By which the request is found in the log of the service.
    request_id: str = ""


class ShareDoc(msgspec.Struct, kw_only=True):
    """A part of one device."""

    device_id: str
    device_name: str
    compute_milli: int
    memory_bytes: int
    #: Which part of its GPU the device is, thousandths; 1000 for a whole device.
    parent_milli: int = 1000
    #: True when the device is granted whole or not at all (a MIG instance).
    whole_only: bool = False
    #: Where the device is, where the lease has devices on several nodes; else empty.
    hostname: str = ""


class IsolationDoc(msgspec.Struct, kw_only=True):
    """What is in force for one resource of a lease."""

    resource: Resource
    strength: Strength
    mechanism: str
    limit: str
    verified: Verified
    note: str = ""


class ProcessDoc(msgspec.Struct, kw_only=True):
    """A process that uses a device without a lease."""

    pid: int
    user: str
    name: str
    #: Bytes of the device's memory; None where the driver does not say.
    memory_bytes: int | None = None


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


class PartDoc(msgspec.Struct, kw_only=True):
    """What a lease with devices on several nodes has on one of them."""

    node_id: str
    hostname: str
    shares: list[ShareDoc]
    #: True on the node of the lease's holder.
    holder: bool
    #: Whether a process is attached to these shares.
    joined: bool
    pid: int | None = None
    #: What is in force for that process.
    isolation: list[IsolationDoc] = []


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
    #: Sentences that its owner should read now ("it uses 93 % of its memory", "its device is failing").
    notices: list[str] = []
    #: How busy its processes keep the device, percent of the whole device; None when unknown.
    utilization_percent: float | None = None
    #: What was asked for, where ``compute_milli`` and ``memory_bytes`` are what was granted: of a device
    #: that is granted whole that is more.
    asked_compute_milli: int = 0
    asked_memory_bytes: int | None = None
    priority: Priority = Priority.NORMAL
    #: True when its owner wants it not to be taken back.
    pinned: bool = False
    #: Seconds until it is taken back; None when it is not.
    reclaim_seconds: float | None = None
    #: For how long it has done nothing; None when unknown.
    idle_seconds: float | None = None
    #: How many devices, each with this share.
    count: int = 1
    #: What it takes of its node (with several: of all of them) beside its shares: thousandths of a core.
    host_cpu_milli: int = 0
    #: The same of main memory, bytes.
    host_memory_bytes: int = 0
    #: Words of the model's name that was asked for; empty for any.
    model: str = ""
    #: What it has on each node, the holder's first; empty unless its devices are on several.
    parts: list[PartDoc] = []


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
    #: What is wrong with it, one sentence; empty when it is healthy.
    health_reason: str = ""
    #: The GPU that this is an instance of; empty for a whole device.
    parent_id: str = ""
    #: Which part of that GPU's compute it is, thousandths.
    parent_milli: int = 1000
    #: True when it is granted whole or not at all.
    whole_only: bool = False
    #: How it is shared ("mig", "mps", "timeslice", "exclusive"); empty where nobody says.
    sharing: str = ""
    #: What a new lease on it gets, for each resource.
    isolation: list[IsolationDoc] = []
    #: Processes that use it without a lease.
    unmanaged: list[ProcessDoc] = []
    #: Why readings are missing, by their names.
    missing: dict[str, str] = {}


class NodeState(Enum):
    """What a node is good for."""

    #: It takes leases.
    READY = "ready"
    #: Its agent is not connected.
    AWAY = "away"
    #: It takes no new leases, and there are still some.
    DRAINING = "draining"
    #: It takes no new leases, and there are none.
    DRAINED = "drained"


class NodeDoc(msgspec.Struct, kw_only=True):
    """A node as clients see it."""

    id: str
    hostname: str
    connected: bool
    #: Version of its agent; empty while that is not connected.
    version: str = ""
    state: NodeState = NodeState.READY
    #: Why an administrator drains it; may be empty.
    drain_message: str = ""
    #: After how many seconds the leases on it are ended; None when they are not.
    drain_seconds: float | None = None


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
    #: How many devices, each with this share.
    count: int = 1
    priority: Priority = Priority.NORMAL


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
    #: Where it runs: the lease is granted there if there is room.
    hostname: str = ""
    #: Names a process that this holder starts for its session cluster: it holds a lease of its own, which
    #: ends with that process, or with the kernel.
    worker: str = ""
    #: True for a server of JupyterHub, whose kernels all have this lease; it ends with the server's process.
    server: bool = False


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
    #: How many devices, each with this share, all or nothing.
    count: int = 1
    #: True when they may be on several nodes.
    spread: bool = False
    priority: Priority = Priority.NORMAL
    #: True to take less where a quota allows no more.
    at_most: bool = False
    #: Thousandths of a core of the node beside the shares, for all of them; 0 for none that is counted.
    host_cpu_milli: int = 0
    #: Bytes of the node's main memory beside the shares, for all of them; 0 for none that is counted.
    host_memory_bytes: int = 0
    #: Words of the model's name that will do ("A100"); empty for any.
    model: str = ""
    holder: HolderRequest = msgspec.field(default_factory=HolderRequest)


class ResizeRequest(msgspec.Struct, kw_only=True):
    """Body of ``PATCH /leases/{id}``; without ``memory_bytes`` the same fraction as of compute."""

    compute_milli: int
    memory_bytes: int | None = None


class JoinRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /leases/{id}/join``: a process on one of the lease's nodes asks for a ticket."""

    #: Id of the node, or its name where that is the name of one of the lease's nodes only.
    node_id: str


class ActivityRequest(msgspec.Struct, kw_only=True):
    """Body of ``PUT /leases/{id}/activity``: whether a cell runs, as the holder's kernel says."""

    busy: bool
    #: For how long none has run; 0 while one does.
    idle_seconds: float = 0.0


class SnapshotDoc(msgspec.Struct, kw_only=True):
    """A snapshot as its holder says that it is: the pool never opens a store."""

    id: str
    name: str
    #: When it was taken: UTC, milliseconds since the epoch.
    created_ms: int
    note: str = ""
    #: Path of its notebook, where that runs; empty when it has none.
    notebook: str = ""
    kernel_id: str = ""
    #: Where its kernel ran.
    hostname: str = ""
    #: Address of its store, without credentials.
    store: str = ""
    #: True when nobody asked for it by name.
    automatic: bool = False
    total_bytes: int = 0
    new_bytes: int = 0
    #: How many variables.
    count: int = 0
    #: About how long it takes to restore it.
    restore_seconds: float = 0.0
    #: True when it is what is left of its kernel, should that be gone: nobody ended it on purpose so far.
    last_words: bool = False


class SnapshotsReport(msgspec.Struct, kw_only=True):
    """Body of ``PUT /snapshots``: the newest in one store, in place of what was said of it before."""

    store: str
    snapshots: list[SnapshotDoc]


class SnapshotKeyDoc(msgspec.Struct, kw_only=True):
    """The key that an owner's snapshots are signed with."""

    #: 32 bytes in base64.
    key: str

    def __repr__(self) -> str:
        return "SnapshotKeyDoc(key=…)"


class SpreadDoc(msgspec.Struct, kw_only=True):
    """When something will probably be, from now: seconds, with an interval."""

    low_seconds: float
    seconds: float
    high_seconds: float


class BlockerDoc(msgspec.Struct, kw_only=True):
    """A lease that has what a request waits for."""

    lease_id: str
    mine: bool
    state: LeaseState
    compute_milli: int
    #: Names of those of its devices that are meant.
    devices: list[str]
    held_seconds: float
    #: When it probably ends; None when nobody can tell.
    ends: SpreadDoc | None = None


class MoveDoc(msgspec.Struct, kw_only=True):
    """A lease that would have to move for a request to fit; the pool moves nobody."""

    lease_id: str
    mine: bool
    compute_milli: int
    #: Names of the device that it has a share of, and of one that has room for it.
    from_device: str
    to_device: str


class WhyDoc(msgspec.Struct, kw_only=True):
    """Why a lease is as it is: what it waits for, who is in its way, and for how long, probably."""

    lease_id: str
    state: LeaseState
    #: One sentence.
    reason: str
    #: All that is known but the blockers, for a person.
    sentences: list[str]
    #: What it waits for; empty unless it waits.
    waits_for: str = ""
    #: What kind of thing keeps it from being granted; None unless it waits.
    cause: Cause | None = None
    position: int | None = None
    #: How many requests for the same kind of device come before it.
    ahead: int | None = None
    blockers: list[BlockerDoc] = []
    #: When it is probably granted; None when nobody can tell.
    estimate: SpreadDoc | None = None
    #: True when that follows from what everybody said of their leases, without any history.
    known: bool = False
    #: Of how many waits that are over such an estimate was made, of late, and how many ended within it.
    estimates_made: int = 0
    estimates_right: int = 0
    #: What of it would be granted now; empty when nothing would.
    would_fit: str = ""
    #: Names of the devices that are kept for who is first in line for such devices.
    kept: list[str] = []
    #: Leases whose move would make room for it: a proposal to the people concerned.
    moves: list[MoveDoc] = []


class QuiescedDoc(msgspec.Struct, kw_only=True):
    """Answer to a request to make it safe to signal the processes of leases."""

    #: How many leases it was about.
    leases: int
    #: For how many of them it is safe now; the others' agent has not answered in time.
    quiesced: int


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
