"""The steps of a lease's life, each as one function: what changes in the record, and what the agent is told.

Rule of this module: a step decides nothing; whoever calls it has found that the step is due and legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jupyter_gpupool.core.effects import ApplyLimits, Detach, PrepareAttach
from jupyter_gpupool.core.leases import EndReason, Isolation, Lease, LeaseEvent, LeaseState
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.placing import Choice
from jupyter_gpupool.core.turn import Turn


def grant(turn: Turn, lease: Lease, choice: Choice) -> Lease:
    """Give a request its shares, all of them."""
    lease = turn.move(
        lease,
        LeaseEvent.GRANTED,
        want=replace(lease.want, kind=choice.kind),
        shares=choice.shares,
        beside=choice.beside,
        node_id=choice.node_id,
        generation=1,
        granted_ms=turn.now_ms,
        used_until_ms=turn.now_ms,
        deadline_ms=turn.now_ms + turn.config.attach_ms,
    )
    prepare(turn, lease)
    return lease


def prepare(turn: Turn, lease: Lease) -> None:
    """Have the agent of a lease's node expect its holder, with the shares that are there."""
    turn.order(PrepareAttach(node_id=lease.node_id, lease=on_node(turn.ledger, lease, lease.node_id)))


def on_node(ledger: Ledger, lease: Lease, node_id: str) -> Lease:
    """Return a lease as the agent of one of its nodes is told of it: with the shares that are there."""
    there = ledger.shares_on(lease, node_id)
    if len(there) == len(lease.shares):
        return lease
    beside = (it for it in lease.beside if ledger.node_of(it.device_id) in ((), (node_id,)))
    return replace(lease, shares=there, beside=tuple(beside))


def grant_what_fits(turn: Turn) -> None:
    """Go through the queue, and grant whatever there is room for."""
    if turn.ledger.accepting and turn.ledger.any_waiting():
        for lease, choice in turn.queue.grants(turn.now_ms):
            grant(turn, lease, choice)


def attach(turn: Turn, lease: Lease, pid: int, isolation: tuple[Isolation, ...]) -> Lease:
    """Note that the holder is under its limits."""
    return turn.move(
        lease,
        LeaseEvent.ATTACHED,
        pid=pid,
        isolation=isolation,
        active_ms=turn.now_ms,
        deadline_ms=None,
    )


def holder_gone(turn: Turn, lease: Lease, detail: str) -> Lease:
    """Let an ACTIVE lease wait for its kernel to come back, or end it."""
    if not lease.holder.restartable:
        return begin_end(turn, lease, LeaseEvent.EXITED, EndReason.HOLDER_EXITED, detail)
    joined = [it.node_id for it in turn.ledger.parts.of(lease.id)]
    fence_parts(turn, lease, joined)  # they worked for the process that is gone
    for node_id in joined:
        turn.ledger.parts.leave(lease.id, node_id)
    lease = turn.move(
        lease,
        LeaseEvent.RESTARTING,
        generation=lease.generation + 1,
        pid=None,
        isolation=(),
        pending=(),
        deadline_ms=turn.now_ms + turn.config.restart_grace_ms,
    )
    prepare(turn, lease)
    return lease


def begin_end(turn: Turn, lease: Lease, event: LeaseEvent, reason: EndReason, detail: str = "") -> Lease:
    """Have the agent detach the holder; the share stays taken until it confirms."""
    lease = turn.move(
        lease,
        event,
        pid=None if event is LeaseEvent.EXITED else lease.pid,
        end_reason=reason,
        end_detail=detail,
        deadline_ms=turn.now_ms + turn.config.ending_ms,
    )
    detach(turn, lease)
    return lease


def detach(turn: Turn, lease: Lease) -> None:
    """Tell the agent to take the limits of a lease away; with several nodes, those of all of them."""
    for node_id in turn.ledger.nodes_of(lease):
        detach_on(turn, lease, node_id)


def detach_on(turn: Turn, lease: Lease, node_id: str) -> None:
    """Tell the agent of one node to take the limits of a lease away."""
    turn.order(Detach(node_id=node_id, lease_id=lease.id, generation=lease.generation))


def fence_parts(turn: Turn, lease: Lease, nodes: Iterable[str]) -> None:
    """Have what a lease that is over has on some nodes detached, before those are offered again."""
    ledger, process = turn.ledger, (lease.id, lease.generation)
    for node_id in nodes:
        if ledger.connected(node_id):
            detach_on(turn, lease, node_id)
            ledger.fence(node_id, {*ledger.nodes[node_id].fencing, process})


def apply_pending(turn: Turn, lease: Lease) -> None:
    """Tell the agent to put the size that was asked for in force."""
    turn.order(
        ApplyLimits(
            node_id=lease.node_id, lease_id=lease.id, generation=lease.generation, shares=lease.pending
        )
    )


def finish(
    turn: Turn, lease: Lease, event: LeaseEvent, reason: EndReason | None = None, detail: str = ""
) -> Lease:
    """End a lease for good. The first reason it was given stays."""
    if len(lease.shares) > 1:
        # what its own node has is known by who ends it; what the others have is not
        fence_parts(turn, lease, (it for it in turn.ledger.unconfirmed(lease) if it != lease.node_id))
    first = lease.state is not LeaseState.ENDING
    return turn.move(
        lease,
        event,
        pid=None,
        pending=(),
        isolation=(),
        overdue=False,
        deadline_ms=None,
        ended_ms=turn.now_ms,
        end_reason=reason if first else lease.end_reason,
        end_detail=detail if first else lease.end_detail,
    )
