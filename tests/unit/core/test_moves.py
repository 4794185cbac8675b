"""Moves: a kernel's lease goes on with other shares on another node, and is never on two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import Detach, PrepareAttach
from jupyter_gpupool.core.errors import DoesNotFitNow, GPUPoolError, IllegalTransition, NeverFits
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool
from tests.support.snapshots import snapshot

S = LeaseState
ONE, TWO, THREE = "node-1", "node-2", "node-3"


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    """Make a pool of two nodes with one GPU each."""
    return a_pool(a_device("cuda0", node_id=ONE), a_device("cuda0", node_id=TWO))


@pytest.fixture
def lease_id(pool: PoolDriver) -> str:
    """Hold a quarter, as a kernel of a Jupyter server."""
    return pool.hold(250, restartable=True)


def other(node_id: str) -> str:
    return TWO if node_id == ONE else ONE


def devices_of(pool: PoolDriver, lease_id: str) -> list[str]:
    return [it.device_id for it in pool.lease(lease_id).shares]


def detached(pool: PoolDriver, lease_id: str, generation: int, node_id: str) -> None:
    about = {"lease_id": lease_id, "generation": generation, "node_id": node_id}
    pool.handle(ev.HolderDetached(**about, **pool.when))


def test_a_lease_goes_to_the_other_node_with_the_size_that_was_asked_for(
    pool: PoolDriver, lease_id: str
) -> None:
    before = pool.lease(lease_id)
    there = other(before.node_id)
    pool.move(lease_id, 500)
    after = pool.lease(lease_id)
    assert (after.state, after.node_id, after.generation) == (S.ATTACHING, there, 2)
    assert [it.compute_milli for it in after.shares] == [500]
    assert after.want.compute_milli == 500
    assert [it.node_id for it in pool.told(Detach)] == [before.node_id]
    assert [it.generation for it in pool.told(Detach)] == [1]
    assert [it.node_id for it in pool.told(PrepareAttach)] == [there]
    pool.attach(lease_id)
    assert pool.state(lease_id) is S.ACTIVE


def test_the_node_that_it_leaves_is_offered_when_the_process_there_is_gone(
    pool: PoolDriver, lease_id: str
) -> None:
    here = pool.lease(lease_id).node_id
    (device,) = devices_of(pool, lease_id)
    pool.move(lease_id, 500)
    assert pool.pool.withheld(device) is not None
    waiting = pool.request(1000)
    assert pool.state(waiting) is S.QUEUED
    detached(pool, lease_id, 1, here)
    assert pool.pool.withheld(device) is None
    assert pool.lease(waiting).node_id == here


def test_that_its_first_process_ended_is_no_news_any_more(pool: PoolDriver, lease_id: str) -> None:
    here = pool.lease(lease_id).node_id
    pool.move(lease_id, 500)
    pool.handle(ev.HolderExited(lease_id=lease_id, generation=1, node_id=here, **pool.when))
    detached(pool, lease_id, 1, here)
    assert pool.state(lease_id) is S.ATTACHING
    pool.attach(lease_id)
    assert pool.state(lease_id) is S.ACTIVE


def test_a_kernel_that_does_not_come_ends_the_lease(pool: PoolDriver, lease_id: str) -> None:
    pool.move(lease_id, 500)
    pool.advance(pool.config.attach_ms)
    assert pool.lease(lease_id).end_reason is EndReason.RESTART_EXPIRED


def test_it_goes_where_there_is_room_and_to_the_kind_that_was_asked_for(a_pool: MakePool) -> None:
    pool = a_pool(
        a_device("cpu", node_id=ONE, kind=DeviceKind.CPU),
        a_device("cuda0", node_id=TWO),
        a_device("cuda0", node_id=THREE),
    )
    lease_id = pool.hold(a_want(250, kind=DeviceKind.CPU), restartable=True)
    assert pool.lease(lease_id).node_id == ONE
    taken = pool.hold(800)
    pool.move(lease_id, a_want(500, kind=DeviceKind.CUDA))
    after = pool.lease(lease_id)
    assert {pool.lease(taken).node_id, after.node_id} == {TWO, THREE}
    assert after.want.kind is DeviceKind.CUDA


def test_where_no_kind_is_said_a_real_cpu_is_taken_before_an_emulated_gpu(a_pool: MakePool) -> None:
    pool = a_pool(
        *(a_device("cpu", node_id=it) for it in (ONE, TWO)),
        *(a_device("cuda0", node_id=it, emulated=True) for it in (ONE, TWO)),
    )
    lease_id = pool.hold(250, restartable=True)
    before = pool.lease(lease_id)
    assert before.want.kind is DeviceKind.CPU
    pool.move(lease_id, 500)
    after = pool.lease(lease_id)
    assert (after.node_id, after.want.kind) == (other(before.node_id), DeviceKind.CPU)


def refused(pool: PoolDriver, lease_id: str, want: int, error: type[GPUPoolError], words: str) -> None:
    before = snapshot(pool.pool)
    with pytest.raises(error, match=words):
        pool.move(lease_id, want)
    assert snapshot(pool.pool) == before


def test_a_move_that_does_not_fit_changes_nothing(pool: PoolDriver, lease_id: str) -> None:
    there = other(pool.lease(lease_id).node_id)
    (device,) = [it.id for it in pool.pool.devices.values() if it.node_id == there]
    pool.hold(a_want(800, device=device))
    refused(pool, lease_id, 500, DoesNotFitNow, "free on no other node")
    refused(pool, lease_id, 1001, GPUPoolError, "out of range")


def test_what_cannot_move_is_told_why(pool: PoolDriver, lease_id: str, a_pool: MakePool) -> None:
    process = pool.hold(100)
    refused(pool, process, 200, IllegalTransition, "no kernel that is started again")
    gang = pool.hold(replace(a_want(100), count=2, spread=True), restartable=True)
    refused(pool, gang, 200, IllegalTransition, "2 devices")
    pool.resize(lease_id, 300)
    refused(pool, lease_id, 500, IllegalTransition, "is being resized")
    alone = a_pool(a_device("cuda0", node_id=ONE, memory_bytes=8 * GIB))
    lonely = alone.hold(250, restartable=True)
    refused(alone, lonely, 500, DoesNotFitNow, "one node only")
    with pytest.raises(NeverFits):
        alone.move(lonely, a_want(500, memory_bytes=9 * GIB))


def test_a_kernel_moves_with_one_lease(a_pool: MakePool) -> None:
    pool = a_pool(
        *(a_device("cpu", node_id=it, kind=DeviceKind.CPU) for it in (ONE, TWO)),
        *(a_device("cuda0", node_id=it) for it in (ONE, TWO)),
    )
    lease_id = pool.hold(a_want(250, kind=DeviceKind.CPU), restartable=True, key="k")
    pool.hold(a_want(250, kind=DeviceKind.CUDA), restartable=True, key="k")
    refused(pool, lease_id, 500, IllegalTransition, "1 other lease")


def test_where_it_would_go_can_be_asked_before(pool: PoolDriver, lease_id: str) -> None:
    before = snapshot(pool.pool)
    found = pool.pool.place_elsewhere(lease_id, a_want(500), **pool.when)
    assert found.node_id == other(pool.lease(lease_id).node_id)
    assert snapshot(pool.pool) == before


def test_a_pool_that_was_restarted_meanwhile_detaches_what_was_left_behind(
    pool: PoolDriver, lease_id: str
) -> None:
    here = pool.lease(lease_id).node_id
    left = pool.seen(lease_id)
    pool.move(lease_id, 500)
    pool.restart()
    pool.join(here, holders=[left])
    assert [(it.node_id, it.generation) for it in pool.told(Detach)] == [(here, 1)]
    assert pool.state(lease_id) is S.ATTACHING
