"""A journal that cannot be written: nothing is granted, and ends still end."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.errors import GrantsPaused
from jupyter_gpupool.core.leases import Holder, LeaseState
from jupyter_gpupool.testing import PoolDriver
from tests.support.snapshots import snapshot

CPU0 = "CPU-node-1-cpu"
S = LeaseState


def fail(pool: PoolDriver) -> None:
    pool.handle(ev.JournalFailed(**pool.when))


def recover(pool: PoolDriver) -> None:
    pool.handle(ev.JournalRecovered(**pool.when))


def test_requests_and_resizes_are_refused(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    fail(pool)
    assert not pool.pool.accepting
    before = snapshot(pool.pool)
    with pytest.raises(GrantsPaused):
        pool.request(100)
    with pytest.raises(GrantsPaused):
        pool.resize(lease_id, 500)
    assert snapshot(pool.pool) == before


def test_ends_still_end_and_restarts_still_restart(pool: PoolDriver) -> None:
    held, kernel = pool.hold(250), pool.hold(250, restartable=True)
    fail(pool)
    pool.end(held)
    pool.exit(kernel)
    assert pool.state(held) is S.ENDED
    assert pool.state(kernel) is S.ATTACHING
    assert pool.pool.free(CPU0).compute_milli == 750


def test_who_waits_gets_the_share_when_the_journal_is_back(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    waiting = pool.request(500)
    fail(pool)
    pool.end(held)
    assert pool.state(waiting) is S.QUEUED
    assert "journal" in pool.pool.reason(waiting)
    recover(pool)
    assert pool.state(waiting) is S.ATTACHING


def test_a_grant_that_was_not_written_down_never_was(pool: PoolDriver) -> None:
    held = pool.hold(250)
    revision = pool.pool.revision
    unwritten = ev.LeaseRequested(
        lease_id="lease_unwritten",
        owner="bob",
        holder=Holder(key="b"),
        want=pool.lease(held).want,
        **pool.when,
    )
    pool.pool.handle(unwritten)
    pool.pool = pool.pool.rebuilt(pool.journal.live_leases(), now_ms=pool.now_ms)
    assert set(pool.pool.leases) == {held}
    assert pool.pool.free(CPU0).compute_milli == 750
    assert pool.pool.withheld(CPU0) is None, "the node is still there"
    assert not pool.pool.accepting
    assert pool.pool.revision > revision + 1, "who watches revisions sees that it is gone"
    recover(pool)
    pool.hold(750)


def test_an_attach_that_was_not_written_down_is_found_by_the_sweep(pool: PoolDriver) -> None:
    lease_id = pool.request()
    seen = pool.seen(lease_id)
    pool.pool = pool.pool.rebuilt(pool.journal.live_leases(), now_ms=pool.now_ms)
    pool.sweep([seen])
    assert pool.state(lease_id) is S.ACTIVE
