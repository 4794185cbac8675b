"""Facts in: everything that can change a pool, in the past tense.

Rule of this module: an event carries all that the pool needs to know, times and ids included.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.leases import EndReason, Holder, Isolation, Want


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Base of all events.

    Attributes
    ----------
    now_ms : int
        Pool time, milliseconds: never goes back, also across restarts. Deadlines and usage use it.
    wall_ms : int
        UTC, milliseconds since the epoch. Display uses it.
    """

    now_ms: int
    wall_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRequested(Event):
    """An owner asked for a share.

    Attributes
    ----------
    lease_id : str
        The new lease's id.
    wait_ms : int or None
        How long it may wait; 0 means "now or not at all", None for ever.
    hold_ms : int or None
        How long it may be held; None for ever.
    """

    lease_id: str
    owner: str
    holder: Holder
    want: Want
    wait_ms: int | None = None
    hold_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRequested(Event):
    """Somebody entitled asked for the end of a lease. On a QUEUED one RELEASED becomes CANCELLED."""

    lease_id: str
    reason: EndReason = EndReason.RELEASED
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResizeRequested(Event):
    """The owner asked for another size; ``memory_bytes`` None means the same fraction as of compute."""

    lease_id: str
    compute_milli: int
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveRequested(Event):
    """The owner wants a held lease to be on another node, with what ``want`` says in place of what it has."""

    lease_id: str
    want: Want


@dataclass(frozen=True, kw_only=True, slots=True)
class PinRequested(Event):
    """The owner wants a lease not to be taken back, or does not mind any more."""

    lease_id: str
    pinned: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeDrained(Event):
    """An administrator wants no new leases on a node (written down before the pool hears of it)."""

    drain: Drain


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUndrained(Event):
    """An administrator wants a node to take leases again."""

    node_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivitySeen(Event):
    """A holder began or stopped to do something (not written down: it is told anew after a restart).

    Attributes
    ----------
    busy : bool
        Whether a cell runs or the device is active.
    idle_ms : int
        For how long it has done nothing; 0 while busy.
    """

    lease_id: str
    busy: bool
    idle_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiterLost(Event):
    """Nobody has been listening for a QUEUED lease for longer than the grace period."""

    lease_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HolderAttached(Event):
    """An agent attached the holder.

    Attributes
    ----------
    node_id : str
        Whose agent says so, so that a holder without a live lease can be detached again; empty when unknown.
    """

    lease_id: str
    generation: int
    pid: int
    isolation: tuple[Isolation, ...]
    node_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttachRefused(Event):
    """An agent could not put the holder under the limits; nothing of the lease is left there."""

    lease_id: str
    generation: int
    detail: str
    #: Whose agent says so; empty for that of the lease's holder.
    node_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsApplied(Event):
    """An agent put the limits of a resize in force."""

    lease_id: str
    generation: int
    isolation: tuple[Isolation, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsRefused(Event):
    """An agent could not put the limits of a resize in force."""

    lease_id: str
    generation: int
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HolderExited(Event):
    """An agent saw the holder's process end."""

    lease_id: str
    generation: int
    detail: str = ""
    #: Whose agent says so; empty for that of the lease's holder.
    node_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HolderDetached(Event):
    """An agent confirmed that nothing of the lease is left on its node."""

    lease_id: str
    generation: int
    #: Whose agent says so; empty for that of the lease's holder.
    node_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HolderSeen:
    """A holder that an agent has (not an event; part of the two below).

    Attributes
    ----------
    isolation : tuple of Isolation
        What is in force for it; empty when the agent does not say.
    """

    lease_id: str
    generation: int
    pid: int
    isolation: tuple[Isolation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentJoined(Event):
    """An agent connected, and reported its devices and all of its holders."""

    node_id: str
    hostname: str
    devices: tuple[Device, ...]
    holders: tuple[HolderSeen, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldersReported(Event):
    """A connected agent listed all of its holders (the reconcile sweep)."""

    node_id: str
    holders: tuple[HolderSeen, ...]
    #: Pool time at which the list was asked for: a holder attached since is not missing.
    asked_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicesReported(Event):
    """A connected agent reported its devices anew (health, unmanaged memory, who took it)."""

    node_id: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentLeft(Event):
    """The connection to an agent was lost."""

    node_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TimePassed(Event):
    """Nothing but time: deadlines that have come are acted on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalFailed(Event):
    """The journal cannot be written: nothing is granted until it can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalRecovered(Event):
    """The journal can be written again."""
