"""Draining nodes: they take no new leases, and what is on them may be ended after a notice.

Rules of this module: whoever holds something on a node is told when it ends as soon as that is known, and
nothing is ended before; a notice of a drain is no matter of reclaim.
"""

from __future__ import annotations

from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.events import NodeDrained, NodeUndrained
from jupyter_gpupool.core.hints import ASK_ANOTHER
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.lifecycle import begin_end
from jupyter_gpupool.core.turn import Turn


def drain_of(ledger: Ledger, lease: Lease) -> Drain | None:
    """Return the drain that ends a lease, the first of several; None when none does."""
    if not ledger.drains or not lease.node_id:
        return None
    found = (ledger.drains.of(it) for it in ledger.nodes_of(lease))
    ends = [it for it in found if it is not None and it.until_ms is not None]
    return min(ends, key=lambda it: it.until_ms or 0, default=None)


def on_node_drained(turn: Turn, event: NodeDrained) -> None:
    """Offer a node's devices no more, and tell who holds something there when it ends."""
    drain, before = event.drain, turn.ledger.drains.of(event.drain.node_id)
    if drain == before:
        return
    turn.ledger.drain(drain)
    turn.changed = True
    if before is not None:
        _withdraw(turn, before)


def on_node_undrained(turn: Turn, event: NodeUndrained) -> None:
    """Offer a node's devices again; who was told of an end keeps what they have."""
    before = turn.ledger.drains.of(event.node_id)
    if before is None:
        return
    turn.ledger.undrain(event.node_id)
    turn.changed = True
    _withdraw(turn, before)


def _withdraw(turn: Turn, before: Drain) -> None:
    """Take the notices of a drain back that follow from none any more."""
    if before.until_ms is None or before.node_id not in turn.ledger.nodes:
        return
    for lease in turn.ledger.touching(before.node_id):
        told = lease.state is LeaseState.ACTIVE and lease.notice_ms == before.until_ms
        if told and not lease.notice_idle and drain_of(turn.ledger, lease) is None:
            turn.move(lease, LeaseEvent.NOTICE_WITHDRAWN, notice_ms=None, notice_detail="", notice_idle=False)


def act(turn: Turn) -> None:
    """Tell whoever holds something on a drained node when it ends, and end what is due."""
    ledger = turn.ledger
    for drain in ledger.drains.all():
        if drain.until_ms is None:
            continue
        for lease in ledger.touching(drain.node_id) if drain.node_id in ledger.nodes else ():
            _look(turn, lease)
        if drain.until_ms <= turn.now_ms:
            ledger.drains.done(drain.node_id)


def _look(turn: Turn, lease: Lease) -> None:
    drain = drain_of(turn.ledger, lease)
    if (
        drain is None
        or drain.until_ms is None
        or lease.state not in (LeaseState.ATTACHING, LeaseState.ACTIVE)
    ):
        return
    if drain.until_ms <= turn.now_ms:
        begin_end(turn, lease, LeaseEvent.DRAINED, EndReason.DRAINED, drain.message)
    elif lease.state is LeaseState.ACTIVE and (lease.notice_ms != drain.until_ms or lease.notice_idle):
        turn.move(
            lease,
            LeaseEvent.NOTICED,
            notice_ms=drain.until_ms,
            notice_detail=_sentence(drain),
            notice_idle=False,
        )


def _sentence(drain: Drain) -> str:
    """Say why a lease ends, as what follows a colon, and what helps."""
    why = f" ({drain.message.rstrip('.')})" if drain.message else ""
    return f"an administrator drains its node{why}. Save what you need; {ASK_ANOTHER}"
