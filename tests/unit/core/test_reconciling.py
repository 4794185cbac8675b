"""Agents that come and go, pools that restart, and what is there without a lease."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.devices import Free, Withheld
from jupyter_gpupool.core.effects import Detach, PrepareAttach
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.events import HolderAttached, HolderExited, HolderSeen
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, an_isolation
from tests.support.pools import MakePool

CPU0 = "CPU-node-1-cpu"
S = LeaseState
STRANGER = HolderSeen(lease_id="lease_gone", generation=3, pid=66)
DETACH_STRANGER = Detach(node_id="node-1", lease_id="lease_gone", generation=3)


# --- an agent away ----------------------------------------------------------------------------------


def test_an_agent_that_is_away_ends_nothing_for_the_grace_period(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.leave()
    assert pool.pool.withheld(CPU0) is Withheld.AGENT_AWAY
    assert not pool.pool.nodes["node-1"].connected
    pool.advance(14_999)
    assert pool.state(lease_id) is S.ACTIVE
    pool.join(holders=[pool.seen(lease_id)])
    pool.advance(60_000)
    assert pool.state(lease_id) is S.ACTIVE
    assert pool.pool.withheld(CPU0) is None


def test_an_agent_that_is_away_for_too_long_loses_its_leases(pool: PoolDriver) -> None:
    active, attaching, ending = pool.hold(), pool.request(), pool.hold()
    pool.release(ending)
    pool.leave()
    pool.advance(15_000)
    assert {pool.state(it) for it in (active, attaching, ending)} == {S.ENDED}
    assert pool.lease(active).end_reason is EndReason.AGENT_LOST
    assert pool.lease(ending).end_reason is EndReason.RELEASED
    assert pool.pool.devices.keys() == {CPU0}, "it stays listed"


def test_an_agent_that_comes_back_after_that_has_its_holders_detached_first(pool: PoolDriver) -> None:
    lost = pool.hold()
    seen = pool.seen(lost)
    pool.leave()
    pool.advance(15_000)
    waiting = pool.request(100)
    pool.join(holders=[seen])
    assert pool.told(Detach) == [Detach(node_id="node-1", lease_id=lost, generation=1)]
    assert pool.pool.withheld(CPU0) is Withheld.FENCING
    assert "being detached" in pool.pool.reason(waiting)
    pool.detach(lost)
    assert pool.pool.withheld(CPU0) is None
    assert pool.state(waiting) is S.ATTACHING


def test_only_the_nodes_of_that_agent_are_touched(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cpu", node_id="node-2"))
    leases = [pool.hold(1000), pool.hold(1000)]
    pool.leave("node-2")
    pool.advance(15_000)
    states = {pool.lease(it).node_id: pool.state(it) for it in leases}
    assert states == {"node-1": S.ACTIVE, "node-2": S.ENDED}


# --- an agent that joins ----------------------------------------------------------------------------


def test_a_holder_that_is_gone_when_the_agent_is_back_ends_its_lease(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.leave()
    pool.join()
    assert pool.state(lease_id) is S.ENDING
    assert pool.lease(lease_id).end_reason is EndReason.HOLDER_EXITED
    assert [it.lease_id for it in pool.told(Detach)] == [lease_id]


def test_a_kernel_that_is_gone_when_the_agent_is_back_may_come_back_too(pool: PoolDriver) -> None:
    lease_id = pool.hold(restartable=True)
    pool.leave()
    pool.join()
    assert (pool.state(lease_id), pool.lease(lease_id).generation) == (S.ATTACHING, 2)
    assert [it.lease.generation for it in pool.told(PrepareAttach)] == [2]


def test_an_agent_that_is_back_is_told_again_whom_to_expect(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.leave()
    pool.join()
    assert [it.lease.id for it in pool.told(PrepareAttach)] == [lease_id]


def test_an_attach_whose_report_was_lost_is_adopted(pool: PoolDriver) -> None:
    lease_id = pool.request()
    seen = HolderSeen(lease_id=lease_id, generation=1, pid=77, isolation=(an_isolation(),))
    pool.leave()
    pool.join(holders=[seen])
    lease = pool.lease(lease_id)
    assert (lease.state, lease.pid, lease.isolation) == (S.ACTIVE, 77, (an_isolation(),))
    assert not pool.told(PrepareAttach)


def test_what_is_in_force_is_taken_over_when_the_report_comes_after_the_adoption(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.join(holders=[pool.seen(lease_id)])
    assert pool.lease(lease_id).isolation == ()
    pool.attach(lease_id)
    assert pool.lease(lease_id).isolation == (an_isolation(),)


def test_an_agent_that_is_back_is_told_again_to_detach(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    seen = pool.seen(lease_id)
    pool.release(lease_id)
    pool.leave()
    pool.join(holders=[seen])
    assert pool.told(Detach) == [Detach(node_id="node-1", lease_id=lease_id, generation=1)]
    assert pool.pool.withheld(CPU0) is None, "its share is still taken: that is enough"


def test_a_holder_of_an_earlier_process_is_detached(pool: PoolDriver) -> None:
    lease_id = pool.hold(restartable=True)
    earlier = pool.seen(lease_id)
    pool.exit(lease_id)
    pool.join(holders=[earlier])
    assert pool.told(Detach) == [Detach(node_id="node-1", lease_id=lease_id, generation=1)]
    assert pool.pool.withheld(CPU0) is Withheld.FENCING
    assert pool.state(lease_id) is S.ATTACHING


def test_a_holder_on_another_node_than_its_lease_is_detached(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"))
    lease_id = pool.hold()
    pool.join("node-2", [a_device("cpu", node_id="node-2")], [pool.seen(lease_id)])
    assert pool.told(Detach) == [Detach(node_id="node-2", lease_id=lease_id, generation=1)]
    assert pool.pool.withheld("CPU-node-2-cpu") is Withheld.FENCING
    assert pool.pool.withheld(CPU0) is None


def test_a_fenced_holder_that_exits_is_gone_too(pool: PoolDriver) -> None:
    pool.join(holders=[STRANGER])
    assert pool.told(Detach) == [DETACH_STRANGER]
    pool.handle(HolderExited(lease_id="lease_gone", generation=3, **pool.when))
    assert pool.pool.withheld(CPU0) is None


def test_a_holder_that_attaches_without_a_lease_is_detached(pool: PoolDriver) -> None:
    event = HolderAttached(
        lease_id="lease_gone", generation=3, pid=66, isolation=(), node_id="node-1", **pool.when
    )
    pool.handle(event)
    assert pool.told(Detach) == [DETACH_STRANGER]
    assert pool.pool.withheld(CPU0) is Withheld.FENCING
    pool.sweep([STRANGER])
    assert pool.told(Detach) == [DETACH_STRANGER]
    pool.sweep([])
    assert pool.pool.withheld(CPU0) is None


def test_a_holder_that_attaches_nobody_knows_where_is_refused(pool: PoolDriver) -> None:
    with pytest.raises(UnknownLease):
        pool.handle(HolderAttached(lease_id="x", generation=1, pid=6, isolation=(), **pool.when))


def test_a_device_that_is_gone_while_it_is_held_is_not_forgotten(pool: PoolDriver) -> None:
    lease_id = pool.hold(500)
    pool.join(devices=[], holders=[pool.seen(lease_id)])
    assert pool.pool.device(CPU0) is None
    assert pool.pool.free(CPU0) == Free(compute_milli=0, memory_bytes=0)
    assert pool.pool.leases_on(CPU0) == (lease_id,)
    pool.join(devices=[a_device("cpu")], holders=[pool.seen(lease_id)])
    assert pool.pool.free(CPU0) == Free(compute_milli=500, memory_bytes=8 * GIB)


# --- the sweep --------------------------------------------------------------------------------------


def test_the_sweep_finds_a_holder_whose_exit_nobody_reported(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.now_ms += 10
    pool.sweep([])
    assert pool.lease(lease_id).end_reason is EndReason.HOLDER_EXITED


def test_the_sweep_does_not_miss_a_holder_that_attached_since_it_was_asked_for(pool: PoolDriver) -> None:
    pool.now_ms = 10
    lease_id = pool.hold()
    pool.sweep([], asked_ms=9)
    assert pool.state(lease_id) is S.ACTIVE


def test_the_sweep_leaves_those_alone_who_are_expected(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.sweep([])
    assert pool.state(lease_id) is S.ATTACHING
    assert pool.effects == []


def test_the_sweep_adopts_a_holder_whose_attach_nobody_reported(pool: PoolDriver) -> None:
    lease_id = pool.request()
    pool.sweep([pool.seen(lease_id)])
    assert pool.state(lease_id) is S.ACTIVE


def test_the_sweep_asks_again_for_a_detach_that_nobody_confirmed(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.release(lease_id)
    pool.sweep([])
    assert [it.lease_id for it in pool.told(Detach)] == [lease_id]


def test_a_sweep_of_an_agent_that_has_left_says_nothing(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.leave()
    pool.now_ms += 10
    pool.sweep([])
    assert pool.state(lease_id) is S.ACTIVE


# --- a pool that restarts ---------------------------------------------------------------------------


def test_a_pool_that_restarts_offers_nothing_until_the_agent_has_reported(pool: PoolDriver) -> None:
    lease_id = pool.hold(500)
    pool.restart()
    assert dict(pool.pool.leases) == {lease_id: pool.lease(lease_id)}
    assert not pool.pool.nodes["node-1"].connected
    assert pool.pool.withheld(CPU0) is Withheld.AGENT_AWAY
    waiting = pool.request(500)
    assert pool.state(waiting) is S.QUEUED
    pool.join(holders=[pool.seen(lease_id)])
    assert pool.state(lease_id) is S.ACTIVE
    assert pool.state(waiting) is S.ATTACHING
    assert pool.pool.free(CPU0).compute_milli == 0


def test_a_pool_that_restarts_counts_usage_while_it_was_down(pool: PoolDriver) -> None:
    lease_id = pool.hold(500)
    pool.advance(1000)
    pool.restart(down_ms=5000)
    pool.join(holders=[pool.seen(lease_id)])
    pool.end(lease_id)
    assert pool.lease(lease_id).used_milli_ms == 500 * 6000


def test_a_pool_that_restarts_gives_agents_the_grace_period_anew(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    pool.restart(down_ms=3600_000)
    pool.advance(14_999)
    assert pool.state(lease_id) is S.ACTIVE
    pool.advance(1)
    assert pool.lease(lease_id).end_reason is EndReason.AGENT_LOST
    assert pool.pool.nodes == {}, "a node that never joined is not expected any more"


def test_waits_and_holds_go_on_over_a_restart(pool: PoolDriver) -> None:
    held = pool.hold(1000, hold_ms=20_000)
    waiting = pool.request(wait_ms=10_000)
    pool.restart(down_ms=10_000)
    pool.join(holders=[pool.seen(held)])
    pool.advance(0)
    assert pool.lease(waiting).end_reason is EndReason.WAIT_EXPIRED
    pool.advance(10_000)
    assert pool.lease(held).end_reason is EndReason.HOLD_EXPIRED
