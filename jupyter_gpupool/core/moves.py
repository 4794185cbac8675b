"""Moves: a lease whose kernel goes on with other shares, on another node.

Rules of this module: the lease stays one record with one id; it never queues for a move, and has the old
shares or the new ones, never both. The node that it leaves is not offered until its agent has said that the
process there is gone.
"""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.errors import DoesNotFitNow, IllegalTransition
from jupyter_gpupool.core.events import MoveRequested
from jupyter_gpupool.core.leases import Lease, LeaseEvent, LeaseState, Want, next_state
from jupyter_gpupool.core.lifecycle import fence_parts, prepare
from jupyter_gpupool.core.placing import Choice
from jupyter_gpupool.core.requests import check_accepting, full_want
from jupyter_gpupool.core.turn import Turn
from jupyter_gpupool.core.wording import describe_want, plural


def on_move_requested(turn: Turn, event: MoveRequested) -> None:
    """Give a lease shares on another node, and have what it has here detached."""
    lease = turn.live(event.lease_id)
    want, choice = place_of_move(turn, lease, event.want)
    fence_parts(turn, lease, (lease.node_id,))
    lease = turn.move(
        lease,
        LeaseEvent.MOVED,
        want=replace(want, kind=choice.kind),
        shares=choice.shares,
        beside=choice.beside,
        node_id=choice.node_id,
        generation=lease.generation + 1,
        pid=None,
        isolation=(),
        notice_ms=None,
        notice_detail="",
        notice_idle=False,
        deadline_ms=turn.now_ms + turn.config.attach_ms,
    )
    prepare(turn, lease)


def place_of_move(turn: Turn, lease: Lease, wanted: Want) -> tuple[Want, Choice]:
    """Find where a lease would go; nothing is changed.

    Returns
    -------
    Want, Choice
        What it would have, and where.

    Raises
    ------
    GPUPoolError
        If it cannot move at all, or no other node has room.
    """
    _check_movable(turn, lease)
    check_accepting(turn)
    wanted = replace(wanted, priority=lease.want.priority, count=1, spread=False)
    want = full_want(turn, lease.owner, wanted)
    choice = turn.queue.place_elsewhere(lease, want, turn.now_ms)
    if choice is None:
        raise _no_room(turn, lease, want)
    hooks.check_move(turn, lease, replace(want, kind=choice.kind), choice.shares)
    return want, choice


def _check_movable(turn: Turn, lease: Lease) -> None:
    """Refuse what cannot leave its node."""
    if lease.state is LeaseState.ACTIVE and not lease.holder.restartable:
        raise IllegalTransition(
            f"Lease {lease.id} cannot move: what holds it is no kernel that is started again.",
            hint="Release it, and ask for another one.",
        )
    next_state(lease, LeaseEvent.MOVED)
    if lease.pending:
        raise IllegalTransition(
            f"Lease {lease.id} is being resized.", hint="Wait until that is done, and ask again."
        )
    if len(lease.shares) > 1:
        raise IllegalTransition(
            f"Lease {lease.id} cannot move: it has {len(lease.shares)} devices.",
            hint="Release it, and ask for another one.",
        )
    others = [it for it in turn.ledger.of_holder(lease.owner, lease.holder.key) if it.id != lease.id]
    if others:
        raise IllegalTransition(
            f"Lease {lease.id} cannot move: its kernel has or waits for "
            f"{plural(len(others), 'other lease', 'other leases')} ({', '.join(it.id for it in others)}).",
            hint="Release that first: a kernel moves with one lease.",
        )
    if not turn.ledger.connected(lease.node_id):
        raise DoesNotFitNow(
            f"Lease {lease.id} cannot move now: the agent of its node is not connected.",
            hint="Try again when it is back.",
        )


def _no_room(turn: Turn, lease: Lease, want: Want) -> DoesNotFitNow:
    """Say that no other node has room."""
    others = len(turn.ledger.nodes) - 1
    if not others:
        return DoesNotFitNow(
            f"Lease {lease.id} cannot move: the pool has one node only.", hint="Ask for less on this one."
        )
    return DoesNotFitNow(
        f"{describe_want(want)} is free on no other node ({plural(others, 'was', 'were')} looked at).",
        hint="Ask for less, or try again when somebody has given a share back.",
    )
