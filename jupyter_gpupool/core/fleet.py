"""Agents that join, report and leave, and how what they have is brought together with the leases.

Rules of this module: an agent that comes back kills nothing; what it has and the ledger knows is adopted,
what it lacks is asked for again, and what should not be there is detached before its node is offered.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.core.effects import Detach
from jupyter_gpupool.core.events import AgentJoined, AgentLeft, DevicesReported, HolderSeen, HoldersReported
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState
from jupyter_gpupool.core.lifecycle import (
    apply_pending,
    attach,
    detach,
    detach_on,
    fence_parts,
    finish,
    holder_gone,
    prepare,
)
from jupyter_gpupool.core.parts import Joined
from jupyter_gpupool.core.turn import Turn

#: What the owner is told of a holder that was gone when its agent was heard of again.
_MISSING = "its process was gone when the node was looked at"


def on_agent_joined(turn: Turn, event: AgentJoined) -> None:
    """Take a node into the pool, and adopt what lives there."""
    turn.ledger.join(event.node_id, event.hostname, event.devices)
    turn.changed = True
    seen = _fence(turn, event.node_id, event.holders)
    _reconcile_parts(turn, event.node_id, event.holders, turn.now_ms)
    for lease in turn.ledger.on_node(event.node_id):
        holder = seen.get((lease.id, lease.generation))
        _reconcile(turn, lease, holder, missing=holder is None)
        if holder is None and lease.state is LeaseState.ATTACHING:
            prepare(turn, lease)
        elif holder is not None and lease.pending and lease.state is LeaseState.ACTIVE:
            apply_pending(turn, lease)


def on_holders_reported(turn: Turn, event: HoldersReported) -> None:
    """Compare what an agent has with the leases (the sweep that finds what all other reports missed)."""
    if not turn.ledger.connected(event.node_id):
        return
    seen = _fence(turn, event.node_id, event.holders)
    _reconcile_parts(turn, event.node_id, event.holders, event.asked_ms)
    for lease in turn.ledger.on_node(event.node_id):
        holder = seen.get((lease.id, lease.generation))
        since = lease.active_ms if lease.active_ms is not None else turn.now_ms
        _reconcile(turn, lease, holder, missing=holder is None and since <= event.asked_ms)


def _fence(turn: Turn, node_id: str, holders: Iterable[HolderSeen]) -> dict[tuple[str, int], HolderSeen]:
    """Detach holders that have no live lease on the node; return the others by lease and generation."""
    known = {}
    aliens = set()
    for holder in holders:
        lease = turn.ledger.leases.get(holder.lease_id)
        key = (holder.lease_id, holder.generation)
        if turn.ledger.part(holder.lease_id, holder.generation, node_id) is not None:
            joined = Joined(node_id, holder.pid, holder.isolation, turn.now_ms)
            turn.changed = turn.ledger.parts.join(holder.lease_id, joined) or turn.changed
        elif lease is not None and lease.node_id == node_id and lease.generation == holder.generation:
            known[key] = holder
        elif key not in aliens:
            aliens.add(key)
            turn.order(Detach(node_id=node_id, lease_id=key[0], generation=key[1]))
    turn.changed = turn.ledger.fence(node_id, aliens) or turn.changed
    return known


def _reconcile_parts(turn: Turn, node_id: str, holders: Iterable[HolderSeen], asked_ms: int) -> None:
    """Bring what has joined leases on a node together with what its agent has."""
    ledger = turn.ledger
    there = {it.lease_id for it in holders}
    for lease_id in ledger.parts.on(node_id):
        since_ms = max(it.since_ms for it in ledger.parts.of(lease_id) if it.node_id == node_id)
        if lease_id not in there and since_ms <= asked_ms:
            turn.changed = ledger.parts.leave(lease_id, node_id) or turn.changed
    for lease in ledger.touching(node_id):
        if lease.state is not LeaseState.ENDING or lease.node_id == node_id:
            continue
        if node_id in ledger.unconfirmed(lease):
            detach_on(turn, lease, node_id)  # what is left of it there is taken away, and that is confirmed


def _reconcile(turn: Turn, lease: Lease, holder: HolderSeen | None, *, missing: bool) -> None:
    """Bring one lease together with the holder that its agent has, or lacks."""
    if lease.state is LeaseState.ENDING:
        detach(turn, lease)
    elif lease.state is LeaseState.ATTACHING and holder is not None:
        attach(turn, lease, holder.pid, holder.isolation)
    elif lease.state is LeaseState.ACTIVE and missing:
        holder_gone(turn, lease, _MISSING)


def on_devices_reported(turn: Turn, event: DevicesReported) -> None:
    """Take over what an agent says of its devices now."""
    if turn.ledger.connected(event.node_id):
        turn.changed = turn.ledger.report_devices(event.node_id, event.devices)


def on_agent_left(turn: Turn, event: AgentLeft) -> None:
    """Stop offering a node's devices; its leases go on for the grace period."""
    if turn.ledger.connected(event.node_id):
        turn.ledger.leave(event.node_id, turn.now_ms + turn.config.agent_grace_ms)
        turn.changed = True


def lose_agent(turn: Turn, node_id: str) -> None:
    """End the leases of a node whose agent was away for too long."""
    for lease in turn.ledger.touching(node_id):
        if lease.node_id != node_id:
            fence_parts(turn, lease, (lease.node_id,))
        finish(
            turn,
            lease,
            LeaseEvent.AGENT_LOST,
            EndReason.AGENT_LOST,
            "the agent of its node was away for too long",
        )
    turn.ledger.give_up(node_id)
    turn.changed = True
