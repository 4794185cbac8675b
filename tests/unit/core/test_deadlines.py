"""Deadlines: known in advance, and acted on only when time is said to have passed."""

from __future__ import annotations

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device
from tests.support.pools import MakePool

S = LeaseState


def due(pool: PoolDriver) -> int | None:
    return pool.pool.next_deadline_ms()


def test_nothing_is_due_where_nothing_waits(pool: PoolDriver) -> None:
    assert due(pool) is None
    pool.hold()
    assert due(pool) is None


def test_the_earliest_deadline_is_next(pool: PoolDriver) -> None:
    attaching = pool.request(500)
    assert due(pool) == 60_000
    pool.hold(500, hold_ms=50_000)
    assert due(pool) == 50_000
    pool.request(wait_ms=40_000)
    assert due(pool) == 40_000
    pool.release(attaching)
    assert due(pool) == 30_000
    pool.leave()
    assert due(pool) == 15_000
    pool.join()


def test_a_deadline_that_does_not_count_any_more_is_passed_over(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.attach(lease_id)
    assert due(pool) is None


def test_deadlines_of_many_leases_that_are_gone_are_forgotten(pool: PoolDriver) -> None:
    kept = pool.request(100)
    for _ in range(500):
        pool.end(pool.hold(100, hold_ms=1000))
    assert due(pool) == 60_000
    assert len(pool.pool._ledger.deadlines._heap) < 150
    pool.attach(kept)


def test_only_passing_time_acts_on_deadlines(pool: PoolDriver) -> None:
    late = pool.request(100, wait_ms=None)
    pool.now_ms = 70_000
    pool.attach(late)
    assert pool.state(late) is S.ACTIVE, "it came late, and before anybody had said so"


def test_several_deadlines_that_came_together_are_all_acted_on(pool: PoolDriver) -> None:
    held = pool.hold(1000, hold_ms=1000)
    waits = [pool.request(wait_ms=1000 + it) for it in range(3)]
    pool.now_ms = 100_000
    pool.handle(ev.TimePassed(**pool.when))
    assert [pool.lease(it).end_reason for it in waits] == [EndReason.WAIT_EXPIRED] * 3
    assert pool.state(held) is S.ENDING
    assert due(pool) == 130_000


def test_what_is_due_at_the_same_time_as_the_hold_ends_as_a_hold(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), config=PoolConfig(attach_ms=1000))
    lease_id = pool.request(hold_ms=1000)
    pool.advance(1000)
    assert pool.lease(lease_id).end_reason is EndReason.HOLD_EXPIRED
