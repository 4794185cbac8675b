"""Usage: exact, in pool time, from the grant until nothing is left."""

from __future__ import annotations

from jupyter_gpupool.core.quotas import usage_by_owner, usage_until
from jupyter_gpupool.testing import PoolDriver


def test_waiting_costs_nothing(pool: PoolDriver) -> None:
    pool.hold(1000)
    lease_id = pool.request(500)
    pool.advance(10_000)
    assert usage_until(pool.lease(lease_id), pool.now_ms) == 0
    pool.release(lease_id)
    assert pool.lease(lease_id).used_milli_ms == 0


def test_usage_runs_from_the_grant_while_the_lease_is_held(pool: PoolDriver) -> None:
    pool.now_ms = 100
    lease_id = pool.request(250)
    pool.advance(400)
    assert usage_until(pool.lease(lease_id), pool.now_ms) == 250 * 400
    pool.attach(lease_id)
    pool.advance(600)
    assert usage_until(pool.lease(lease_id), pool.now_ms) == 250 * 1000


def test_a_share_counts_until_the_agent_has_confirmed_its_end(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.advance(100)
    pool.release(lease_id)
    pool.advance(50)
    pool.detach(lease_id)
    pool.advance(1000)
    assert pool.lease(lease_id).used_milli_ms == 250 * 150
    assert usage_until(pool.lease(lease_id), pool.now_ms) == 250 * 150


def test_a_look_into_the_past_counts_as_the_last_change(pool: PoolDriver) -> None:
    pool.now_ms = 1000
    lease_id = pool.hold(250)
    assert usage_until(pool.lease(lease_id), 10) == 0


def test_usage_adds_up_by_owner(pool: PoolDriver) -> None:
    pool.hold(250, owner="ann")
    pool.hold(100, owner="bob")
    pool.advance(10)
    pool.hold(50, owner="ann")
    pool.advance(10)
    assert usage_by_owner(pool.pool.leases.values(), pool.now_ms) == {
        "ann": 250 * 20 + 50 * 10,
        "bob": 100 * 20,
    }


def test_a_restart_of_the_kernel_interrupts_nothing(pool: PoolDriver) -> None:
    lease_id = pool.hold(500, restartable=True)
    pool.advance(100)
    pool.exit(lease_id)
    pool.advance(100)
    pool.attach(lease_id)
    pool.advance(100)
    pool.end(lease_id)
    assert pool.lease(lease_id).used_milli_ms == 500 * 300
