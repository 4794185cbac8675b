"""Deadlines that have come.

Rule of this module: only `TimePassed` acts on deadlines. First leases, each as
often as it is due, then nodes.
"""

from __future__ import annotations

from jupyter_gpupool.core import drains, hooks
from jupyter_gpupool.core.deadlines import hold_ends_ms
from jupyter_gpupool.core.events import TimePassed
from jupyter_gpupool.core.fleet import lose_agent
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.lifecycle import begin_end, finish
from jupyter_gpupool.core.turn import Turn


def next_deadline_ms(ledger: Ledger) -> int | None:
    """Pool time at which anything is due next; None when nothing ever is."""
    first = ledger.deadlines.first(ledger.leases)
    soonest = None if first is None else first[0]
    # this is asked after every event, and mostly there is nothing else
    if ledger.any_away:
        for node_id in ledger.away():
            soonest = _sooner(soonest, ledger.nodes[node_id].grace_until_ms)
    soonest = _sooner(soonest, hooks.quota_wakes_ms(ledger))
    soonest = _sooner(soonest, ledger.drains.wake_ms)
    return _sooner(soonest, ledger.activity.wake_ms)


def _sooner(one_ms: int | None, other_ms: int | None) -> int | None:
    if one_ms is None or other_ms is None:
        return other_ms if one_ms is None else one_ms
    return min(one_ms, other_ms)


def on_time_passed(turn: Turn, event: TimePassed) -> None:
    """Act on everything that is due."""
    ledger = turn.ledger
    while (first := ledger.deadlines.first(ledger.leases)) is not None and first[0] <= turn.now_ms:
        _expire(turn, ledger.leases[first[1]])
    for node_id in ledger.away():
        until_ms = ledger.nodes[node_id].grace_until_ms
        if until_ms is not None and until_ms <= turn.now_ms:
            lose_agent(turn, node_id)
    if hooks.quota_wakes_ms(ledger) is not None:
        turn.changed = True  # a new week may have begun: whoever waits for it is looked at
    drains.act(turn)
    hooks.reclaim(turn)


def _expire(turn: Turn, lease: Lease) -> None:
    """Do what is due for one lease."""
    if lease.state is LeaseState.QUEUED:
        finish(turn, lease, LeaseEvent.WAIT_EXPIRED, EndReason.WAIT_EXPIRED)
    elif lease.state is LeaseState.ENDING:
        turn.move(lease, LeaseEvent.DETACH_OVERDUE, overdue=True, deadline_ms=None)
    elif _hold_is_first(lease):
        begin_end(turn, lease, LeaseEvent.HOLD_EXPIRED, EndReason.HOLD_EXPIRED)
    else:
        restarted = lease.generation > 1
        reason = EndReason.RESTART_EXPIRED if restarted else EndReason.ATTACH_EXPIRED
        begin_end(turn, lease, LeaseEvent.ATTACH_EXPIRED, reason)


def _hold_is_first(lease: Lease) -> bool:
    hold = hold_ends_ms(lease)
    return hold is not None and (lease.deadline_ms is None or hold <= lease.deadline_ms)
