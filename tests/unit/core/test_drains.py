"""A drained node takes no new leases; what is on it stays, or ends when its owners were told that it will."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Withheld
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import EndReason, LeaseState, Want
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.pools import MakePool

MINUTE = 60_000
OTHER = a_device("cuda0", node_id="node-2")


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    return a_pool(
        a_device("cuda0"), config=PoolConfig(reclaim_idle_ms=MINUTE, notice_ms=1000, least_run_ms=0)
    )


def cuda0(pool: PoolDriver, node_id: str = "node-1") -> str:
    return next(it.id for it in pool.pool.devices.values() if it.node_id == node_id)


def test_a_drained_node_takes_no_new_lease_and_what_is_there_stays(pool: PoolDriver) -> None:
    held = pool.hold(250)
    pool.drain(message="The cooling is mended.")
    waits = pool.request(250, owner="bob")
    pool.advance(1000 * MINUTE)
    assert (pool.state(held), pool.state(waits)) == (LeaseState.ACTIVE, LeaseState.QUEUED)
    assert pool.lease(held).notice_ms is None
    assert pool.pool.withheld(cuda0(pool)) is Withheld.DRAINED
    said = "cuda0 is not offered: its node is being drained: the cooling is mended"
    assert pool.pool.withheld_reason(cuda0(pool)) == said
    assert said in pool.pool.reason(waits)
    with pytest.raises(DoesNotFitNow, match="its node is being drained"):
        pool.resize(held, 500)
    pool.undrain()
    assert pool.state(waits) is LeaseState.ATTACHING


def test_another_node_takes_them_meanwhile(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), OTHER)
    pool.drain("node-2")
    assert {pool.lease(pool.hold(250)).node_id for _ in range(4)} == {"node-1"}
    assert pool.state(pool.request(250)) is LeaseState.QUEUED


def test_with_a_grace_who_holds_something_is_told_and_it_ends_then(pool: PoolDriver) -> None:
    held = pool.hold(250)
    pool.drain(message="New driver.", until_ms=30 * MINUTE)
    lease = pool.lease(held)
    assert (lease.notice_ms, lease.notice_idle) == (30 * MINUTE, False)
    assert lease.notice_detail.startswith("an administrator drains its node (New driver). Save")
    assert "It is taken back in 30 min: an administrator drains" in pool.pool.reason(held)
    pool.advance(30 * MINUTE - 1)
    assert pool.state(held) is LeaseState.ACTIVE
    pool.advance(1)
    lease = pool.lease(held)
    assert (lease.state, lease.end_reason) == (LeaseState.ENDING, EndReason.DRAINED)
    assert lease.end_detail == "New driver."
    pool.detach(held)
    assert pool.pool.next_deadline_ms() is None


@pytest.mark.parametrize("down_ms", [0, 5 * MINUTE, 60 * MINUTE])
def test_it_survives_a_restart_of_the_service(pool: PoolDriver, down_ms: int) -> None:
    held = pool.hold(250)
    pool.drain(until_ms=30 * MINUTE)
    pool.restart(down_ms=down_ms)
    pool.join(holders=[pool.seen(held)])
    assert pool.state(pool.request(250)) is LeaseState.QUEUED
    pool.advance(max(0, 30 * MINUTE - down_ms))
    assert pool.lease(held).end_reason is EndReason.DRAINED


def test_a_lease_that_attaches_late_is_told_and_one_that_never_did_ends(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=PoolConfig(attach_ms=90 * MINUTE))
    late, never = pool.request(250), pool.request(250)
    pool.drain(until_ms=30 * MINUTE)
    pool.attach(late)
    assert pool.lease(late).notice_ms == 30 * MINUTE
    pool.advance(30 * MINUTE)
    assert {pool.lease(it).end_reason for it in (late, never)} == {EndReason.DRAINED}


def test_reclaim_neither_withdraws_such_a_notice_nor_takes_the_lease_before(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    pool.drain(until_ms=30 * MINUTE)
    pool.handle(ev.ActivitySeen(lease_id=held, busy=False, idle_ms=0, **pool.when))
    pool.request(250, owner="bob")
    pool.advance(29 * MINUTE)
    assert (pool.state(held), pool.lease(held).notice_ms) == (LeaseState.ACTIVE, 30 * MINUTE)
    pool.handle(ev.ActivitySeen(lease_id=held, busy=True, idle_ms=0, **pool.when))
    assert pool.lease(held).notice_ms == 30 * MINUTE


def test_another_grace_is_told_anew_and_none_at_all_or_undrain_takes_the_notice_back(
    pool: PoolDriver,
) -> None:
    held = pool.hold(250)
    pool.drain(until_ms=30 * MINUTE)
    pool.drain(until_ms=60 * MINUTE)
    assert pool.lease(held).notice_ms == 60 * MINUTE
    pool.drain()
    assert pool.lease(held).notice_ms is None
    pool.drain(until_ms=5 * MINUTE)
    pool.undrain()
    assert pool.lease(held).notice_ms is None
    pool.advance(10 * MINUTE)
    assert pool.state(held) is LeaseState.ACTIVE


def test_a_gang_ends_with_the_first_of_its_nodes(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), OTHER)
    gang = pool.hold(Want(compute_milli=1000, count=2, spread=True))
    here, there = pool.pool.nodes_of(pool.lease(gang))
    pool.drain(here, until_ms=30 * MINUTE)
    pool.drain(there, until_ms=20 * MINUTE)
    assert pool.lease(gang).notice_ms == 20 * MINUTE
    pool.undrain(there)
    assert pool.lease(gang).notice_ms == 30 * MINUTE
    pool.drain(there, until_ms=20 * MINUTE)
    pool.advance(20 * MINUTE)
    assert pool.lease(gang).end_reason is EndReason.DRAINED


def test_a_node_that_is_away_is_drained_when_it_is_back(pool: PoolDriver) -> None:
    pool.leave()
    pool.advance(60 * MINUTE)
    pool.drain()
    pool.join()
    assert pool.state(pool.request(250)) is LeaseState.QUEUED


def test_who_asks_for_cores_of_the_only_node_waits_and_is_not_refused(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    pool.drain()
    assert pool.state(pool.request(a_want(250, host_cpu_milli=1000))) is LeaseState.QUEUED
