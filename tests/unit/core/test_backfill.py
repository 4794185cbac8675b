"""Backfill: what is kept for who is first in line, and who may pass."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState
HOUR = 3_600_000


@pytest.fixture
def gpus(a_pool: MakePool) -> PoolDriver:
    """Make a pool with two GPUs."""
    return a_pool(a_device("cuda0"), a_device("cuda1"))


def kept(pool: PoolDriver, lease_id: str) -> tuple[str, ...]:
    return next(it.reserved for it in pool.pool._queue.blocked(pool.now_ms) if it.lease.id == lease_id)


def test_only_the_device_on_which_the_first_in_line_is_expected_is_kept(gpus: PoolDriver) -> None:
    gpus.hold(a_want(750, device="cuda0"), hold_ms=HOUR)
    gpus.hold(a_want(750, device="cuda1"), hold_ms=2 * HOUR)
    first = gpus.request(1000)
    assert kept(gpus, first) == ("CUDA-node-1-cuda0",)
    small = gpus.lease(gpus.request(250))
    assert small.shares[0].device_id == "CUDA-node-1-cuda1"
    assert gpus.state(gpus.request(250)) is S.QUEUED


def test_who_is_over_before_the_first_in_line_has_room_may_pass(gpus: PoolDriver) -> None:
    gpus.hold(a_want(750, device="cuda0"), hold_ms=HOUR)
    gpus.hold(a_want(1000, device="cuda1"))
    first = gpus.request(1000)
    assert gpus.state(gpus.request(250, hold_ms=2 * HOUR)) is S.QUEUED
    assert gpus.state(gpus.request(250)) is S.QUEUED
    passing = gpus.request(250, hold_ms=HOUR // 2)
    assert gpus.state(passing) is S.ATTACHING
    gpus.attach(passing)
    gpus.advance(HOUR // 2)
    gpus.detach(passing)
    assert gpus.state(first) is S.QUEUED


def test_what_will_be_left_beside_the_first_in_line_is_for_all(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    pool.hold(500, hold_ms=HOUR)
    first = pool.request(600)
    assert pool.state(first) is S.QUEUED
    beside = pool.hold(400)
    assert pool.state(beside) is S.ACTIVE, "0.4 is left when the first one is in"
    assert pool.state(pool.request(100)) is S.QUEUED


def test_where_nothing_is_known_the_device_that_needs_least_is_kept(gpus: PoolDriver) -> None:
    gpus.hold(a_want(500, device="cuda0"))
    gpus.hold(a_want(300, device="cuda1"))
    first = gpus.request(1000)
    assert kept(gpus, first) == ("CUDA-node-1-cuda1",)
    assert gpus.lease(gpus.request(500)).shares[0].device_id == "CUDA-node-1-cuda0"
    assert gpus.state(gpus.request(500)) is S.QUEUED


def test_who_is_first_takes_any_device_that_gets_free_earlier(gpus: PoolDriver) -> None:
    gpus.hold(a_want(1000, device="cuda0"), hold_ms=HOUR)
    other = gpus.hold(a_want(1000, device="cuda1"))
    first = gpus.request(1000)
    gpus.end(other)
    assert gpus.lease(first).shares[0].device_id == "CUDA-node-1-cuda1"


def test_nothing_is_kept_any_more_for_who_does_not_wait(gpus: PoolDriver) -> None:
    gpus.hold(a_want(500, device="cuda0"))
    gpus.hold(a_want(1000, device="cuda1"))
    first, behind = gpus.request(1000), gpus.request(500)
    assert gpus.state(behind) is S.QUEUED
    gpus.release(first)
    assert gpus.state(behind) is S.ATTACHING


def test_a_lease_does_not_grow_into_what_is_kept(gpus: PoolDriver) -> None:
    held = gpus.hold(a_want(500, device="cuda0"))
    gpus.hold(a_want(1000, device="cuda1"))
    gpus.request(1000)
    with pytest.raises(DoesNotFitNow, match="cannot grow"):
        gpus.resize(held, 750)


def test_another_device_is_kept_when_the_kept_one_goes(gpus: PoolDriver) -> None:
    gpus.hold(a_want(1000, device="cuda1"))
    gpus.hold(a_want(500, device="cuda0"))
    first = gpus.request(1000)
    assert kept(gpus, first) == ("CUDA-node-1-cuda0",)
    gpus.join(devices=[a_device("cuda1")])
    assert kept(gpus, first) == ("CUDA-node-1-cuda1",)


def test_each_kind_has_its_own_first_in_line(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    waiting = []
    for kind in (DeviceKind.CPU, DeviceKind.CUDA):
        pool.hold(a_want(500, kind=kind))
        waiting.append(pool.request(a_want(1000, kind=kind)))
        assert pool.state(pool.request(a_want(500, kind=kind))) is S.QUEUED
    assert [kept(pool, it) for it in waiting] == [("CPU-node-1-cpu",), ("CUDA-node-1-cuda0",)]


def test_the_reservation_is_made_again_after_a_restart(gpus: PoolDriver) -> None:
    leases = [gpus.hold(a_want(500, device=it)) for it in ("cuda0", "cuda1")]
    first = gpus.request(1000)
    before = kept(gpus, first)
    gpus.restart()
    gpus.join(holders=[gpus.seen(it) for it in leases])
    assert kept(gpus, first) == before
    assert gpus.state(gpus.request(500)) is S.ATTACHING
    assert gpus.state(gpus.request(500)) is S.QUEUED
