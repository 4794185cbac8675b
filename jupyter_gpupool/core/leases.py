"""Leases: the record, its states, and the one table of what may happen to it.

Rules of this module: everything that decides whether an event is legal is in `LEASE_TRANSITIONS`; nothing
here knows how a share is attached.

The life of a lease::

    QUEUED -> ATTACHING -> ACTIVE -> ENDING -> ENDED
                 ^-----------'   (a kernel restarts, or moves to another node)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import IllegalTransition


class LeaseState(Enum):
    """Where a lease is in its life."""

    # members are single objects: that is a hash without a call
    __hash__ = object.__hash__

    #: Wanted: waits for room. Also called a request.
    QUEUED = "queued"
    #: Granted: its share is taken, and its holder has not shown its ticket to the agent yet.
    ATTACHING = "attaching"
    #: Held: the agent has put the holder under its limits and watches it.
    ACTIVE = "active"
    #: Over, but the agent has not confirmed that nothing of it is left; the share is still taken.
    ENDING = "ending"
    #: Over for good.
    ENDED = "ended"


#: States in which the lease's shares are taken from their devices.
HOLDING = frozenset({LeaseState.ATTACHING, LeaseState.ACTIVE, LeaseState.ENDING})
#: States in which a holder counts as having the lease (for "one lease per device kind").
OCCUPYING = frozenset({LeaseState.QUEUED, LeaseState.ATTACHING, LeaseState.ACTIVE})


class LeaseEvent(Enum):
    """What can happen to one lease."""

    # members are single objects: that is a hash without a call
    __hash__ = object.__hash__

    #: The pool found room for it.
    GRANTED = "granted"
    #: The agent attached its holder.
    ATTACHED = "attached"
    #: The agent looked at the holder and could not attach it; nothing of it is left there.
    ATTACH_REFUSED = "attach_refused"
    #: Somebody entitled asked for its end.
    RELEASED = "released"
    #: Whoever waited for it is gone.
    ABANDONED = "abandoned"
    #: It waited for as long as its owner wanted to wait.
    WAIT_EXPIRED = "wait_expired"
    #: Nobody showed its ticket in time.
    ATTACH_EXPIRED = "attach_expired"
    #: It was held for as long as its owner asked for.
    HOLD_EXPIRED = "hold_expired"
    #: Its holder's process ended, and no successor is expected.
    EXITED = "exited"
    #: Its holder's process ended, and its kernel is expected to restart.
    RESTARTING = "restarting"
    #: Its owner asked for another size.
    RESIZE_ASKED = "resize_asked"
    #: The agent put the new limits in force.
    LIMITS_APPLIED = "limits_applied"
    #: The agent could not put the new limits in force; the old ones hold.
    LIMITS_REFUSED = "limits_refused"
    #: Its agent was away for longer than the grace period.
    AGENT_LOST = "agent_lost"
    #: The agent confirmed that nothing of it is left.
    DETACHED = "detached"
    #: The agent did not confirm that in time.
    DETACH_OVERDUE = "detach_overdue"
    #: Its owner was told that it will be taken back for somebody who is entitled.
    NOTICED = "noticed"
    #: That will not happen after all.
    NOTICE_WITHDRAWN = "notice_withdrawn"
    #: It was taken back.
    RECLAIMED = "reclaimed"
    #: It was on a node that is drained for longer than its owner was given.
    DRAINED = "drained"
    #: Its owner pinned it, or unpinned it.
    PINNED = "pinned"
    #: It was given other shares on another node, where its kernel starts again.
    MOVED = "moved"


class EndReason(Enum):
    """Why a lease ended."""

    RELEASED = "released"  #: its owner released it
    CANCELLED = "cancelled"  #: its owner cancelled the wait
    ABANDONED = "abandoned"  #: the process that waited for it is gone
    WAIT_EXPIRED = "wait_expired"  #: it waited as long as was asked for
    HOLD_EXPIRED = "hold_expired"  #: it was held as long as was asked for
    ATTACH_EXPIRED = "attach_expired"  #: nobody showed its ticket in time
    ATTACH_REFUSED = "attach_refused"  #: the holder could not be put under the limits
    RESTART_EXPIRED = "restart_expired"  #: the kernel did not come back in time
    HOLDER_EXITED = "holder_exited"  #: the holder's process ended
    KERNEL_SHUTDOWN = "kernel_shutdown"  #: the Jupyter server shut the kernel down
    KERNEL_DEAD = "kernel_dead"  #: the Jupyter server gave up restarting the kernel
    AGENT_LOST = "agent_lost"  #: the node's agent was away for too long
    ADMIN_ENDED = "admin_ended"  #: an administrator ended it
    RECLAIMED = "reclaimed"  #: it was taken back for somebody who is entitled
    DRAINED = "drained"  #: an administrator drained its node


class Priority(Enum):
    """How urgent a request is; who may use which is a matter of quotas."""

    # members are single objects: that is a hash without a call
    __hash__ = object.__hash__

    #: Gives way to all others.
    LOW = "low"
    #: What nobody has to ask for.
    NORMAL = "normal"
    #: Comes before others for a while: the advantage decays with the time that it is held.
    HIGH = "high"


class Strength(Enum):
    """How well a limit holds."""

    #: The holder, with its own uid, can neither exceed nor undo it.
    HARD = "hard"
    #: The holder is stopped, unless it undoes the limit.
    SOFT = "soft"
    #: Nothing is in force.
    NONE = "none"


class Resource(Enum):
    """What a limit is about."""

    #: The device's memory.
    MEMORY = "memory"
    #: The device's compute.
    COMPUTE = "compute"
    #: The node's main memory, beside a share of another device.
    HOST_MEMORY = "host_memory"
    #: The node's processor, beside a share of another device.
    HOST_COMPUTE = "host_compute"
    #: How many processes and threads the holder may have.
    PROCESSES = "processes"


class Verified(Enum):
    """How it is known that a limit is in force."""

    #: Not looked at yet: "not yet in force".
    PENDING = "pending"
    #: The limit was read after it was set.
    READ_BACK = "read-back"
    #: The limit was exceeded in a child, and held.
    PROBED = "probed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """What is in force for one resource of one lease.

    Attributes
    ----------
    resource : Resource
        What the limit is about.
    strength : Strength
        How well it holds.
    mechanism : str
        By which mechanism ("soft RLIMIT_DATA, tree summed").
    limit : str
        The number in force, for a person ("2.0 GiB", "0.50 of a core").
    verified : Verified
        How that is known.
    note : str
        What a person should also know (rounding, what undoes it); may be empty.
    """

    resource: Resource
    strength: Strength
    mechanism: str
    limit: str
    verified: Verified
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A part of one device: the only form in which capacity is accounted.

    Attributes
    ----------
    device_id : str
        The device.
    compute_milli : int
        Thousandths of its compute.
    memory_bytes : int
        Bytes of its memory.
    """

    device_id: str
    compute_milli: int
    memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPart:
    """What a lease takes of a node beside its shares of accelerators there.

    Attributes
    ----------
    device_id : str
        The CPU device of the node.
    cpu_milli : int
        Thousandths of a core.
    memory_bytes : int
        Bytes of its main memory.
    """

    device_id: str
    cpu_milli: int
    memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Want:
    """What a request asks for.

    Attributes
    ----------
    compute_milli : int
        Thousandths of one device, 1 to 1000; of a GPU, where an instance of one is granted.
    memory_bytes : int or None
        Bytes of its memory; None for the same fraction as of compute.
    kind : DeviceKind or None
        The device kind; None leaves it to the pool (CUDA where there is any, else CPU).
    device : str
        A device's name or id; empty for any.
    count : int
        How many devices, each with this share: a gang, granted all or nothing.
    spread : bool
        True when they may be on several nodes.
    priority : Priority
        How urgent it is.
    at_most : bool
        True to take less where a quota allows no more.
    host_cpu_milli : int
        Thousandths of a core beside the shares, for all of them; 0 for none that is counted.
    host_memory_bytes : int
        Bytes of the node's main memory beside the shares, for all of them; 0 for none that is counted.
    model : str
        Words of the model's name that will do ("A100"); empty for any.
    """

    compute_milli: int
    memory_bytes: int | None = None
    kind: DeviceKind | None = None
    device: str = ""
    count: int = 1
    spread: bool = False
    priority: Priority = Priority.NORMAL
    at_most: bool = False
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0
    model: str = ""

    @property
    def asks_host(self) -> bool:
        """Whether it asks for anything of its node beside its shares."""
        return self.host_cpu_milli > 0 or self.host_memory_bytes > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Who uses a lease: a kernel, or another process.

    Attributes
    ----------
    key : str
        Identity of the holder among its owner's holders (the kernel id, or an id made by the process).
    kernel_id : str
        The kernel's id where a Jupyter server told it; else empty.
    label : str
        What a person knows it by (a notebook's name); for display only.
    restartable : bool
        True when our provisioner runs the kernel, so that an exit may be a restart.
    hostname : str
        Where it runs, as it says itself; empty where it does not. A lease is granted there if there is room.
    """

    key: str
    kernel_id: str = ""
    label: str = ""
    restartable: bool = False
    hostname: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """One record for life; every change makes a new value (``dataclasses.replace``).

    Attributes
    ----------
    id : str
        ``lease_`` + UUIDv7.
    owner : str
        The authenticated user it is counted to.
    holder : Holder
        Who uses it.
    want : Want
        What was asked for; ``kind`` is filled in when it is granted.
    state : LeaseState
        Where it is in its life.
    requested_ms, granted_ms, active_ms, ended_ms : int or None
        Pool time of each step, milliseconds.
    requested_wall_ms : int
        UTC of the request, milliseconds since the epoch; for display only.
    wait_ms : int or None
        For how long it may wait in the queue; None for ever.
    hold_ms : int or None
        For how long it may be held, from the grant; None for ever.
    shares : tuple of Share
        What it holds, one for each granted device; empty while QUEUED.
    pending : tuple of Share
        What it asked for in a resize that the agent has not confirmed; empty otherwise. Until then the
        larger of ``shares`` and ``pending`` is taken in each dimension.
    node_id : str
        Where its shares are; empty while QUEUED.
    generation : int
        Counts the processes it was prepared for: 1 at the grant, one more at each restart and each move.
    pid : int or None
        The holder's process on its node, when ACTIVE.
    isolation : tuple of Isolation
        What is in force.
    deadline_ms : int or None
        Pool time at which ATTACHING or ENDING is overdue.
    overdue : bool
        True when an ENDING lease was not confirmed in time: its devices are quarantined.
    end_reason : EndReason or None
        Why it ended, from ENDING on.
    end_detail : str
        The same in words; may be empty.
    used_milli_ms : int
        Compute used so far: thousandths of a device x milliseconds, up to ``used_until_ms``.
    used_until_ms : int or None
        Pool time up to which ``used_milli_ms`` counts; None before the grant.
    pinned : bool
        True when its owner wants it not to be taken back, as far as the quota allows.
    notice_ms : int or None
        Pool time at which it will be taken back; None when it will not.
    notice_detail : str
        Why, in words.
    notice_idle : bool
        True when that is because it is idle, so that its holder keeps it by doing something.
    beside : tuple of HostPart
        What it takes of its nodes beside its shares, one for each node; empty where nothing was asked for.
    """

    id: str
    owner: str
    holder: Holder
    want: Want
    state: LeaseState
    requested_ms: int
    requested_wall_ms: int
    wait_ms: int | None = None
    hold_ms: int | None = None
    granted_ms: int | None = None
    active_ms: int | None = None
    ended_ms: int | None = None
    shares: tuple[Share, ...] = ()
    pending: tuple[Share, ...] = ()
    node_id: str = ""
    generation: int = 0
    pid: int | None = None
    isolation: tuple[Isolation, ...] = ()
    deadline_ms: int | None = None
    overdue: bool = False
    end_reason: EndReason | None = None
    end_detail: str = ""
    used_milli_ms: int = 0
    used_until_ms: int | None = None
    pinned: bool = False
    notice_ms: int | None = None
    notice_detail: str = ""
    notice_idle: bool = False
    beside: tuple[HostPart, ...] = ()


_S, _E = LeaseState, LeaseEvent

#: The one table: state -> event -> next state. What is not here is illegal and changes nothing.
LEASE_TRANSITIONS: dict[LeaseState, dict[LeaseEvent, LeaseState]] = {
    _S.QUEUED: {
        _E.GRANTED: _S.ATTACHING,
        _E.RELEASED: _S.ENDED,
        _E.ABANDONED: _S.ENDED,
        _E.WAIT_EXPIRED: _S.ENDED,
    },
    _S.ATTACHING: {
        _E.ATTACHED: _S.ACTIVE,
        _E.ATTACH_REFUSED: _S.ENDED,
        _E.RELEASED: _S.ENDING,
        _E.ATTACH_EXPIRED: _S.ENDING,
        _E.HOLD_EXPIRED: _S.ENDING,
        _E.DRAINED: _S.ENDING,
        _E.AGENT_LOST: _S.ENDED,
    },
    _S.ACTIVE: {
        _E.RELEASED: _S.ENDING,
        _E.HOLD_EXPIRED: _S.ENDING,
        _E.EXITED: _S.ENDING,
        _E.RESTARTING: _S.ATTACHING,
        _E.RESIZE_ASKED: _S.ACTIVE,
        _E.LIMITS_APPLIED: _S.ACTIVE,
        _E.LIMITS_REFUSED: _S.ACTIVE,
        _E.NOTICED: _S.ACTIVE,
        _E.NOTICE_WITHDRAWN: _S.ACTIVE,
        _E.RECLAIMED: _S.ENDING,
        _E.DRAINED: _S.ENDING,
        _E.PINNED: _S.ACTIVE,
        _E.MOVED: _S.ATTACHING,
        _E.AGENT_LOST: _S.ENDED,
    },
    _S.ENDING: {
        _E.EXITED: _S.ENDING,
        _E.DETACHED: _S.ENDED,
        _E.DETACH_OVERDUE: _S.ENDING,
        _E.AGENT_LOST: _S.ENDED,
    },
    _S.ENDED: {},
}


def next_state(lease: Lease, event: LeaseEvent) -> LeaseState:
    """Look the next state up in the table.

    Raises
    ------
    IllegalTransition
        If the event is not legal in the lease's state.
    """
    try:
        return LEASE_TRANSITIONS[lease.state][event]
    except KeyError:
        raise IllegalTransition(
            f"Lease {lease.id} is {lease.state.value}; “{event.value}” cannot happen to it then."
        ) from None
