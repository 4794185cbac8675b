"""What owners and agents say about one lease: attach, exit, detach, release.

Rule of this module: agents may repeat themselves, and may speak of leases that ended long ago; what is still
there and should not be is detached.
"""

from __future__ import annotations

from jupyter_gpupool.core.effects import Detach
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.events import (
    AttachRefused,
    HolderAttached,
    HolderDetached,
    HolderExited,
    ReleaseRequested,
    WaiterLost,
)
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState
from jupyter_gpupool.core.lifecycle import attach, begin_end, detach, detach_on, finish, holder_gone
from jupyter_gpupool.core.parts import Joined
from jupyter_gpupool.core.turn import Turn


def on_release_requested(turn: Turn, event: ReleaseRequested) -> None:
    """End a lease because somebody entitled said so; one that is ending already goes on ending."""
    lease = turn.live(event.lease_id)
    if lease.state is LeaseState.QUEUED:
        reason = EndReason.CANCELLED if event.reason is EndReason.RELEASED else event.reason
        finish(turn, lease, LeaseEvent.RELEASED, reason, event.detail)
    elif lease.state is not LeaseState.ENDING:
        begin_end(turn, lease, LeaseEvent.RELEASED, event.reason, event.detail)


def on_waiter_lost(turn: Turn, event: WaiterLost) -> None:
    """End a request for which nobody listens any more."""
    lease = turn.ledger.leases.get(event.lease_id)
    if lease is not None and lease.state is LeaseState.QUEUED:
        finish(turn, lease, LeaseEvent.ABANDONED, EndReason.ABANDONED)


def on_holder_attached(turn: Turn, event: HolderAttached) -> None:
    """Make a lease ACTIVE, or have a holder detached that should not be there."""
    lease = turn.ledger.leases.get(event.lease_id)
    part = turn.ledger.part(event.lease_id, event.generation, event.node_id)
    if part is not None:
        _part_attached(turn, part, event)
    elif lease is None or (event.node_id and lease.node_id and event.node_id != lease.node_id):
        _fence(turn, event)
    elif lease.state is LeaseState.ENDING:
        detach(turn, lease)
    elif _is_repeated(lease, event):
        _note_isolation(turn, lease, event)
    else:
        lease = turn.reported(event.lease_id, event.generation, LeaseEvent.ATTACHED)
        attach(turn, lease, event.pid, event.isolation)


def _part_attached(turn: Turn, lease: Lease, event: HolderAttached) -> None:
    """Note a process that joined a lease on another of its nodes."""
    if lease.state is LeaseState.ENDING:
        detach_on(turn, lease, event.node_id)
    joined = Joined(event.node_id, event.pid, event.isolation, turn.now_ms)
    turn.changed = turn.ledger.parts.join(lease.id, joined) or turn.changed


def _part_left(turn: Turn, lease: Lease, event: HolderExited | HolderDetached) -> None:
    """Note that a process that joined a lease is gone; one of before a restart was noted then."""
    if event.generation == lease.generation:
        turn.changed = turn.ledger.parts.leave(lease.id, event.node_id) or turn.changed


def _elsewhere(turn: Turn, event: AttachRefused | HolderExited | HolderDetached) -> Lease | None:
    """Return the lease that a report is about, if it comes from another node than its holder's; else None."""
    lease = turn.ledger.leases.get(event.lease_id)
    return lease if lease is not None and event.node_id and lease.node_id not in ("", event.node_id) else None


def _fence(turn: Turn, event: HolderAttached) -> None:
    """Detach a holder without a lease on that node, and offer nothing there until it is gone."""
    record = turn.ledger.nodes.get(event.node_id)
    if record is None:
        raise UnknownLease(f"There is no live lease {event.lease_id}.", hint="It may have ended.")
    turn.ledger.fence(event.node_id, record.fencing | {(event.lease_id, event.generation)})
    turn.changed = True
    turn.order(Detach(node_id=event.node_id, lease_id=event.lease_id, generation=event.generation))


def _is_repeated(lease: Lease, event: HolderAttached) -> bool:
    """Whether the report says again what is known, as after an adoption from a list of holders."""
    return (
        lease.state is LeaseState.ACTIVE and lease.generation == event.generation and lease.pid == event.pid
    )


def _note_isolation(turn: Turn, lease: Lease, event: HolderAttached) -> None:
    """Take over what is in force, if the report says it anew."""
    if event.isolation and event.isolation != lease.isolation and not lease.pending:
        turn.move(lease, LeaseEvent.LIMITS_APPLIED, isolation=event.isolation)


def on_attach_refused(turn: Turn, event: AttachRefused) -> None:
    """End a lease whose holder could not be put under its limits."""
    if _elsewhere(turn, event) is not None:
        return  # the process was told, and the lease goes on without it
    lease = turn.reported(event.lease_id, event.generation, LeaseEvent.ATTACH_REFUSED)
    finish(turn, lease, LeaseEvent.ATTACH_REFUSED, EndReason.ATTACH_REFUSED, event.detail)


def on_holder_exited(turn: Turn, event: HolderExited) -> None:
    """Let a lease wait for its kernel, or end it; nothing happens when there is no such lease any more."""
    if _clear_fence(turn, event) or event.lease_id not in turn.ledger.leases:
        return
    part = _elsewhere(turn, event)
    if part is not None:
        _part_left(turn, part, event)
        return
    lease = turn.reported(event.lease_id, event.generation, LeaseEvent.EXITED)
    if lease.state is LeaseState.ACTIVE:
        holder_gone(turn, lease, event.detail)
    elif lease.pid is not None:
        turn.move(lease, LeaseEvent.EXITED, pid=None)


def on_holder_detached(turn: Turn, event: HolderDetached) -> None:
    """Take it that nothing of a lease is left: its share is free, or its node no longer fenced."""
    if _clear_fence(turn, event) or event.lease_id not in turn.ledger.leases:
        return
    part = _elsewhere(turn, event)
    if part is not None and part.state is not LeaseState.ENDING:
        _part_left(turn, part, event)
        return
    lease = part or turn.reported(event.lease_id, event.generation, LeaseEvent.DETACHED)
    if lease.generation != event.generation:
        return  # of a process that was there before the kernel was restarted
    if len(lease.shares) > 1:
        turn.ledger.parts.confirm(lease.id, event.node_id or lease.node_id)
    if len(lease.shares) == 1 or not turn.ledger.unconfirmed(lease):
        finish(turn, lease, LeaseEvent.DETACHED)


def _clear_fence(turn: Turn, event: HolderExited | HolderDetached) -> bool:
    """Note that a holder without a lease is gone; return whether one was known."""
    if not turn.ledger.unfence((event.lease_id, event.generation), event.node_id):
        return False
    turn.changed = True
    return True
