"""The queue: who is next, who may pass, and how a wait ends."""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import DeviceKind, Health, Withheld
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.pools import MakePool

CPU, CUDA = DeviceKind.CPU, DeviceKind.CUDA
S = LeaseState


def waiting(pool: PoolDriver) -> list[str]:
    return [entry.lease.id for entry in pool.pool.queue()]


def test_requests_are_granted_in_the_order_in_which_they_came(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    first, second, third = pool.request(600), pool.request(400), pool.request(100)
    assert waiting(pool) == [first, second, third]
    pool.end(held)
    assert [pool.state(it) for it in (first, second, third)] == [S.ATTACHING, S.ATTACHING, S.QUEUED]


def test_a_large_request_is_not_passed_by_small_ones_behind_it(pool: PoolDriver) -> None:
    pool.hold(500)
    large, small = pool.request(600), pool.request(100)
    assert pool.state(small) is S.QUEUED
    pool.release(large)
    assert pool.state(small) is S.ATTACHING, "nothing holds it up any more"


def test_requests_for_another_kind_pass(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    pool.hold(a_want(900, kind=CUDA))
    assert pool.state(pool.request(a_want(500, kind=CUDA))) is S.QUEUED
    assert pool.state(pool.request(a_want(500, kind=CPU))) is S.ATTACHING


def test_who_waits_for_one_device_holds_up_only_that_device(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    pool.hold(a_want(500, device="cuda0"))
    assert pool.state(pool.request(a_want(600, device="cuda0"))) is S.QUEUED
    behind = pool.lease(pool.request(a_want(100)))
    assert behind.shares[0].device_id == "CUDA-node-1-cuda1", "not the one that is waited for"


def test_who_waits_for_a_device_that_is_not_offered_holds_nobody_up(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    pool.report(lambda it: replace(it, health=Health.FAILED) if it.name == "cuda0" else it)
    assert pool.pool.withheld("CUDA-node-1-cuda0") is Withheld.FAILED
    assert pool.state(pool.request(a_want(device="cuda0"))) is S.QUEUED
    assert pool.state(pool.request(a_want())) is S.ATTACHING


def test_a_device_that_comes_back_is_offered_to_those_who_wait(pool: PoolDriver) -> None:
    pool.leave()
    lease_id = pool.request()
    assert pool.state(lease_id) is S.QUEUED
    pool.join()
    assert pool.state(lease_id) is S.ATTACHING


def test_several_small_ones_follow_one_large_end(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    small = [pool.request(250) for _ in range(5)]
    pool.end(held)
    assert [pool.state(it) for it in small] == [S.ATTACHING] * 4 + [S.QUEUED]


def test_positions_count_those_who_compete(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    pool.hold(a_want(1000, kind=CPU))
    pool.hold(a_want(1000, kind=CUDA))
    kinds = [CUDA, CPU, CUDA, CPU, CUDA]
    for kind in kinds:
        pool.request(a_want(kind=kind))
    assert [(it.lease.want.kind, it.position) for it in pool.pool.queue()] == [
        (CUDA, 1),
        (CPU, 1),
        (CUDA, 2),
        (CPU, 2),
        (CUDA, 3),
    ]


def test_a_cancelled_wait_leaves_no_ghost(pool: PoolDriver) -> None:
    pool.hold(1000)
    lease_id = pool.request()
    pool.release(lease_id)
    assert pool.lease(lease_id).end_reason is EndReason.CANCELLED
    assert waiting(pool) == []


def test_another_reason_than_release_is_kept_when_a_wait_ends(pool: PoolDriver) -> None:
    pool.hold(1000)
    lease_id = pool.request()
    pool.release(lease_id, EndReason.KERNEL_SHUTDOWN)
    assert pool.lease(lease_id).end_reason is EndReason.KERNEL_SHUTDOWN


def test_a_wait_ends_when_nobody_listens(pool: PoolDriver) -> None:
    pool.hold(1000)
    lease_id = pool.request()
    pool.handle(ev.WaiterLost(lease_id=lease_id, **pool.when))
    assert pool.lease(lease_id).end_reason is EndReason.ABANDONED


def test_a_wait_ends_after_as_long_as_was_asked_for(pool: PoolDriver) -> None:
    pool.hold(1000)
    lease_id = pool.request(wait_ms=5000)
    pool.advance(4999)
    assert pool.state(lease_id) is S.QUEUED
    pool.advance(1)
    assert pool.lease(lease_id).end_reason is EndReason.WAIT_EXPIRED
    assert pool.lease(lease_id).ended_ms == 5000


def test_an_end_in_the_queue_lets_the_next_one_through(pool: PoolDriver) -> None:
    pool.hold(500)
    pool.request(600, wait_ms=1000)
    small = pool.request(100)
    pool.advance(1000)
    assert pool.state(small) is S.ATTACHING


def test_the_order_survives_a_restart_of_the_pool(pool: PoolDriver) -> None:
    pool.hold(1000)
    ids = []
    for _ in range(5):
        pool.now_ms += 1
        ids.append(pool.request())
    pool.restart()
    assert waiting(pool) == ids
