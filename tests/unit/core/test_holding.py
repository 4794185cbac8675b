"""Holders: attach, exit, restart, and the end that waits for the agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import Withheld
from jupyter_gpupool.core.effects import Detach, PrepareAttach
from jupyter_gpupool.core.errors import IllegalTransition
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.testing import GIB, PoolDriver, an_isolation

CPU0 = "CPU-node-1-cpu"
S = LeaseState


def test_an_attached_holder_makes_the_lease_active(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.now_ms = 30
    pool.attach(lease_id)
    lease = pool.lease(lease_id)
    assert (lease.state, lease.active_ms, lease.deadline_ms) == (S.ACTIVE, 30, None)
    assert lease.isolation == (an_isolation(),)


def test_an_attach_that_is_reported_twice_is_one_attach(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.attach(lease_id)
    assert pool.effects == []


def test_another_process_cannot_attach_to_a_lease_that_is_held(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    with pytest.raises(IllegalTransition):
        pool.handle(ev.HolderAttached(lease_id=lease_id, generation=1, pid=7, isolation=(), **pool.when))


def test_a_holder_that_does_not_attach_in_time_loses_the_lease(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.advance(60_000)
    assert pool.state(lease_id) is S.ENDING
    assert pool.lease(lease_id).end_reason is EndReason.ATTACH_EXPIRED
    assert pool.told(Detach) == [Detach(node_id="node-1", lease_id=lease_id, generation=1)]


def test_a_holder_that_cannot_be_attached_ends_the_lease_with_the_reason(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.refuse_attach(lease_id, "uses 9.0 GiB, the share is 4.0 GiB")
    lease = pool.lease(lease_id)
    assert (lease.state, lease.end_reason) == (S.ENDED, EndReason.ATTACH_REFUSED)
    assert lease.end_detail == "uses 9.0 GiB, the share is 4.0 GiB"
    assert pool.pool.free(CPU0).compute_milli == 1000


def test_an_exit_ends_the_lease_once_the_agent_confirms(pool: PoolDriver) -> None:
    lease_id = pool.hold(750)
    pool.exit(lease_id)
    assert (pool.state(lease_id), pool.lease(lease_id).pid) == (S.ENDING, None)
    assert pool.pool.free(CPU0).compute_milli == 250
    pool.detach(lease_id)
    assert pool.lease(lease_id).end_reason is EndReason.HOLDER_EXITED
    assert pool.pool.free(CPU0).compute_milli == 1000


def test_the_first_reason_of_an_end_is_kept(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.release(lease_id, EndReason.KERNEL_SHUTDOWN)
    pool.exit(lease_id)
    pool.release(lease_id)
    pool.detach(lease_id)
    assert pool.lease(lease_id).end_reason is EndReason.KERNEL_SHUTDOWN


def test_who_waits_gets_the_share_when_the_detach_is_confirmed_and_not_before(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    waiting = pool.request(500)
    pool.release(held)
    assert pool.state(waiting) is S.QUEUED
    pool.detach(held)
    assert pool.state(waiting) is S.ATTACHING


# --- restart ----------------------------------------------------------------------------------------


def test_a_kernel_that_restarts_keeps_its_lease(pool: PoolDriver) -> None:
    lease_id = pool.hold(restartable=True)
    pool.now_ms = 1000
    pool.exit(lease_id)
    lease = pool.lease(lease_id)
    assert (lease.state, lease.generation, lease.pid) == (S.ATTACHING, 2, None)
    assert (lease.deadline_ms, lease.isolation) == (11_000, ())
    assert pool.told(PrepareAttach) == [PrepareAttach(node_id="node-1", lease=lease)]
    pool.attach(lease_id)
    assert pool.state(lease_id) is S.ACTIVE


def test_a_kernel_that_does_not_come_back_loses_its_lease(pool: PoolDriver) -> None:
    lease_id = pool.hold(restartable=True)
    pool.exit(lease_id)
    pool.advance(9_999)
    assert pool.state(lease_id) is S.ATTACHING
    pool.advance(1)
    assert pool.lease(lease_id).end_reason is EndReason.RESTART_EXPIRED
    assert pool.told(Detach) == [Detach(node_id="node-1", lease_id=lease_id, generation=2)]


def test_a_kernel_that_crashes_in_a_loop_has_one_lease_throughout(pool: PoolDriver) -> None:
    lease_id = pool.hold(restartable=True)
    for generation in range(2, 7):
        pool.exit(lease_id)
        pool.attach(lease_id)
        assert pool.lease(lease_id).generation == generation
    pool.exit(lease_id)
    pool.release(lease_id, EndReason.KERNEL_DEAD)
    pool.detach(lease_id)
    assert pool.lease(lease_id).end_reason is EndReason.KERNEL_DEAD
    assert pool.pool.free(CPU0).compute_milli == 1000


# --- hold -------------------------------------------------------------------------------------------


def test_a_lease_ends_after_as_long_as_was_asked_for(pool: PoolDriver) -> None:
    pool.now_ms = 100
    lease_id = pool.hold(hold_ms=5000)
    pool.advance(4999)
    assert pool.state(lease_id) is S.ACTIVE
    pool.advance(1)
    assert pool.state(lease_id) is S.ENDING
    assert pool.lease(lease_id).end_reason is EndReason.HOLD_EXPIRED


def test_the_hold_counts_from_the_grant_not_from_the_attach(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    lease_id = pool.request(hold_ms=1000)
    pool.advance(50_000)
    pool.end(held)
    pool.advance(1000)
    assert pool.lease(lease_id).end_reason is EndReason.HOLD_EXPIRED
    assert pool.lease(lease_id).active_ms is None


# --- quarantine -------------------------------------------------------------------------------------


def test_a_device_is_quarantined_when_a_detach_is_not_confirmed_in_time(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.release(lease_id)
    pool.advance(30_000)
    assert pool.pool.withheld(CPU0) is Withheld.QUARANTINED
    assert lease_id in pool.pool.withheld_reason(CPU0)
    assert pool.lease(lease_id).overdue
    waiting = pool.request(100)
    assert "quarantined" in pool.pool.reason(waiting)
    pool.advance(10 * 3600_000)
    assert pool.state(waiting) is S.QUEUED, "never offered on hope"
    pool.detach(lease_id)
    assert pool.pool.withheld(CPU0) is None
    assert pool.state(waiting) is S.ATTACHING


def test_a_quarantine_survives_a_restart_of_the_pool(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.release(lease_id)
    pool.advance(30_000)
    pool.restart()
    pool.join()
    assert pool.pool.withheld(CPU0) is Withheld.QUARANTINED
    assert [it.lease_id for it in pool.told(Detach)] == [lease_id]
    pool.detach(lease_id)
    assert pool.pool.withheld(CPU0) is None


def test_a_device_that_shrinks_below_what_is_held_takes_nothing_new(pool: PoolDriver) -> None:
    lease_id = pool.hold(500)
    pool.report(lambda it: replace(it, memory_bytes=4 * GIB))
    pool.check()
    waiting = pool.request(100)
    assert pool.state(waiting) is S.QUEUED
    pool.end(lease_id)
    assert pool.state(waiting) is S.ATTACHING
