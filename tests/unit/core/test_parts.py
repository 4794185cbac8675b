"""Leases on several nodes: on each of the others a process may join, and all of them end with the lease."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.effects import Detach
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device, a_want, an_isolation
from tests.support.pools import MakePool

S = LeaseState
ONE, TWO = "node-1", "node-2"


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    """Make a pool of two nodes with one GPU each."""
    return a_pool(a_device("cuda0", node_id=ONE), a_device("cuda0", node_id=TWO))


@pytest.fixture
def lease_id(pool: PoolDriver) -> str:
    """Hold both GPUs."""
    return pool.hold(replace(a_want(1000), count=2, spread=True))


def join(pool: PoolDriver, lease_id: str, pid: int = 77, node_id: str = TWO) -> None:
    pool.handle(
        ev.HolderAttached(
            **about(pool, lease_id), pid=pid, isolation=(an_isolation(),), node_id=node_id, **pool.when
        )
    )


def about(pool: PoolDriver, lease_id: str) -> dict[str, object]:
    return {"lease_id": lease_id, "generation": pool.lease(lease_id).generation}


def confirm(pool: PoolDriver, lease_id: str, node_id: str) -> None:
    pool.handle(ev.HolderDetached(**about(pool, lease_id), node_id=node_id, **pool.when))


def pids(pool: PoolDriver, lease_id: str) -> list[tuple[str, int]]:
    return [(it.node_id, it.pid) for it in pool.pool.joined(lease_id)]


def test_a_process_joins_on_another_node_and_may_go_again(pool: PoolDriver, lease_id: str) -> None:
    assert pool.pool.nodes_of(pool.lease(lease_id)) == (ONE, TWO)
    join(pool, lease_id)
    assert pids(pool, lease_id) == [(TWO, 77)]
    pool.handle(ev.HolderExited(**about(pool, lease_id), node_id=TWO, **pool.when))
    assert pids(pool, lease_id) == []
    assert pool.state(lease_id) is S.ACTIVE
    join(pool, lease_id, pid=78)
    assert pids(pool, lease_id) == [(TWO, 78)]


def test_a_process_that_is_refused_on_another_node_ends_nothing(pool: PoolDriver, lease_id: str) -> None:
    refused = ev.AttachRefused(**about(pool, lease_id), detail="", node_id=TWO, **pool.when)
    pool.handle(refused)
    assert pool.state(lease_id) is S.ACTIVE


def test_the_agent_of_each_node_is_told_of_what_is_there(pool: PoolDriver, lease_id: str) -> None:
    lease = pool.lease(lease_id)
    there = pool.pool.on_node(lease, TWO).shares
    assert [it.device_id for it in there] == ["CUDA-node-2-cuda0"]


def test_the_end_is_ordered_on_all_nodes_and_shares_stay_taken_until_all_have_confirmed(
    pool: PoolDriver, lease_id: str
) -> None:
    join(pool, lease_id)
    pool.release(lease_id)
    assert [it.node_id for it in pool.told(Detach)] == [ONE, TWO]
    waits = pool.request(a_want(1000))
    confirm(pool, lease_id, ONE)
    assert (pool.state(lease_id), pool.state(waits)) == (S.ENDING, S.QUEUED)
    confirm(pool, lease_id, TWO)
    assert lease_id not in pool.pool.leases
    assert pool.state(waits) is S.ATTACHING


def test_nodes_may_confirm_in_any_order_and_without_anything_there(pool: PoolDriver, lease_id: str) -> None:
    pool.release(lease_id)
    confirm(pool, lease_id, TWO)
    assert pool.state(lease_id) is S.ENDING
    confirm(pool, lease_id, ONE)
    assert lease_id not in pool.pool.leases


def test_who_joins_while_the_lease_ends_is_detached(pool: PoolDriver, lease_id: str) -> None:
    pool.release(lease_id)
    join(pool, lease_id)
    assert TWO in [it.node_id for it in pool.told(Detach)]
    confirm(pool, lease_id, ONE)
    assert pool.state(lease_id) is S.ENDING
    confirm(pool, lease_id, TWO)
    assert lease_id not in pool.pool.leases


def test_a_process_on_a_node_that_the_lease_is_not_on_is_detached(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device("cuda0", node_id=it) for it in (ONE, TWO, "node-3")))
    lease_id = pool.hold(replace(a_want(1000), count=2, spread=True))
    join(pool, lease_id, node_id="node-3")
    assert [it.node_id for it in pool.told(Detach)] == ["node-3"]
    assert pids(pool, lease_id) == []


def test_after_a_restart_of_the_pool_agents_say_who_has_joined(pool: PoolDriver, lease_id: str) -> None:
    join(pool, lease_id)
    seen = pool.seen(lease_id)
    pool.restart()
    pool.join(ONE, holders=[seen])
    pool.join(TWO, holders=[replace(seen, pid=77)])
    assert pool.state(lease_id) is S.ACTIVE
    assert pids(pool, lease_id) == [(TWO, 77)]
    assert not pool.told(Detach)


def test_a_sweep_finds_who_has_joined_and_who_is_gone(pool: PoolDriver, lease_id: str) -> None:
    seen = replace(pool.seen(lease_id), pid=77)
    pool.sweep([seen], node_id=TWO)
    assert pids(pool, lease_id) == [(TWO, 77)]
    pool.sweep([], node_id=TWO)
    assert pids(pool, lease_id) == []


def test_when_a_node_is_lost_the_others_are_offered_only_after_they_have_confirmed(
    pool: PoolDriver, lease_id: str
) -> None:
    join(pool, lease_id)
    generation = pool.lease(lease_id).generation
    pool.leave(TWO)
    pool.advance(pool.config.agent_grace_ms + 1)
    assert lease_id not in pool.pool.leases
    waits = pool.request(a_want(1000))
    assert pool.state(waits) is S.QUEUED
    gone = ev.HolderDetached(lease_id=lease_id, generation=generation, node_id=ONE, **pool.when)
    pool.handle(gone)
    assert pool.state(waits) is S.ATTACHING


def test_another_size_is_refused_with_what_helps(pool: PoolDriver, lease_id: str) -> None:
    with pytest.raises(DoesNotFitNow, match="devices on several nodes") as refused:
        pool.resize(lease_id, 500)
    assert "Release it" in refused.value.hint


def test_when_its_kernel_restarts_what_joined_is_detached_and_another_may_join(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", node_id=ONE), a_device("cuda0", node_id=TWO))
    lease_id = pool.hold(replace(a_want(1000), count=2, spread=True), restartable=True)
    join(pool, lease_id)
    before = about(pool, lease_id)
    pool.exit(lease_id)
    assert pids(pool, lease_id) == []
    assert [(it.node_id, it.generation) for it in pool.told(Detach)] == [(TWO, before["generation"])]
    pool.handle(ev.HolderExited(**before, node_id=TWO, **pool.when))
    pool.handle(ev.HolderDetached(**before, node_id=TWO, **pool.when))
    assert pool.state(lease_id) is S.ATTACHING
    pool.attach(lease_id)
    join(pool, lease_id, pid=78)
    assert pids(pool, lease_id) == [(TWO, 78)]
    pool.pool.check_invariants()
