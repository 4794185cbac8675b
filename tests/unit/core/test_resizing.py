"""Resizes: two steps, never queued, and refused with what would fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.devices import Free, Health
from jupyter_gpupool.core.effects import ApplyLimits
from jupyter_gpupool.core.errors import (
    DoesNotFitNow,
    GPUPoolError,
    IllegalTransition,
    InvalidValue,
    NeverFits,
    StaleReport,
)
from jupyter_gpupool.core.events import LimitsApplied
from jupyter_gpupool.core.leases import LeaseState, Share
from jupyter_gpupool.testing import GIB, PoolDriver, a_want
from tests.support.snapshots import snapshot

CPU0 = "CPU-node-1-cpu"


def a_share(compute_milli: int, memory_gib: int) -> Share:
    return Share(device_id=CPU0, compute_milli=compute_milli, memory_bytes=memory_gib * GIB)


def free(pool: PoolDriver) -> tuple[int, float]:
    left = pool.pool.free(CPU0)
    return left.compute_milli, left.memory_bytes / GIB


def refused(pool: PoolDriver, error: type[GPUPoolError], lease_id: str, *size: int) -> str:
    before = snapshot(pool.pool)
    with pytest.raises(error) as caught:
        pool.resize(lease_id, *size)
    assert snapshot(pool.pool) == before
    return str(caught.value)


def test_a_grow_takes_the_new_size_at_once_and_has_it_when_the_agent_says_so(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 500)
    assert pool.lease(lease_id).shares == (a_share(250, 4),)
    assert pool.lease(lease_id).pending == (a_share(500, 8),)
    assert free(pool) == (500, 8)
    assert pool.told(ApplyLimits) == [
        ApplyLimits(node_id="node-1", lease_id=lease_id, generation=1, shares=(a_share(500, 8),))
    ]
    pool.apply(lease_id)
    assert pool.lease(lease_id).shares == (a_share(500, 8),)
    assert pool.lease(lease_id).pending == ()
    assert pool.lease(lease_id).isolation[0].limit == "resized"


def test_a_shrink_gives_back_only_when_the_agent_says_so(pool: PoolDriver) -> None:
    lease_id = pool.hold(750)
    waiting = pool.request(500)
    pool.resize(lease_id, 500)
    assert free(pool) == (250, 4)
    assert pool.state(waiting) is LeaseState.QUEUED
    pool.apply(lease_id)
    assert pool.state(waiting) is LeaseState.ATTACHING


def test_the_larger_of_both_is_taken_in_each_dimension(pool: PoolDriver) -> None:
    lease_id = pool.hold(a_want(500, memory_bytes=2 * GIB))
    pool.resize(lease_id, 250, 6 * GIB)
    assert free(pool) == (500, 10)
    pool.apply(lease_id)
    assert free(pool) == (750, 10)


def test_a_resize_that_the_agent_refuses_leaves_the_old_size(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 750)
    waiting = pool.request(500)
    pool.refuse_limits(lease_id)
    assert pool.lease(lease_id).shares == (a_share(250, 4),)
    assert pool.lease(lease_id).pending == ()
    assert pool.state(waiting) is LeaseState.ATTACHING


def test_a_grow_that_does_not_fit_is_refused_with_what_would(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.hold(500)
    assert "at most 0.5 with 8.0 GiB" in refused(pool, DoesNotFitNow, lease_id, 600)
    pool.resize(lease_id, 500)


def test_a_dimension_that_does_not_grow_needs_no_room(pool: PoolDriver) -> None:
    lease_id = pool.hold(a_want(500, memory_bytes=15 * GIB))
    pool.hold(a_want(500, memory_bytes=GIB))
    pool.resize(lease_id, 100, 15 * GIB)
    pool.apply(lease_id)
    pool.resize(lease_id, 500, 14 * GIB)


def test_more_than_the_device_has_never_fits(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    assert "at most 16.0 GiB" in refused(pool, NeverFits, lease_id, 250, 17 * GIB)


@pytest.mark.parametrize("size", [(0,), (1001,), (250, 0)])
def test_sizes_out_of_range_are_refused(pool: PoolDriver, size: tuple[int, ...]) -> None:
    refused(pool, InvalidValue, pool.hold(250), *size)


def test_the_same_size_is_no_change(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 250)
    assert pool.effects == []


def test_a_second_resize_waits_for_the_first(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 500)
    assert "being resized already" in refused(pool, IllegalTransition, lease_id, 750)


def test_a_request_is_not_resized(pool: PoolDriver) -> None:
    pool.hold(1000)
    assert "Cancel the request" in refused(pool, IllegalTransition, pool.request(250), 500)


def test_nothing_is_resized_while_its_agent_is_away(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.leave()
    assert "not connected" in refused(pool, DoesNotFitNow, lease_id, 100)


def test_on_a_device_that_is_withheld_a_lease_may_only_shrink(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.report(lambda it: replace(it, health=Health.FAILED))
    assert "cpu has failed" in refused(pool, DoesNotFitNow, lease_id, 500)
    pool.resize(lease_id, 100)


def test_a_restart_drops_a_resize_that_was_not_confirmed(pool: PoolDriver) -> None:
    lease_id = pool.hold(250, restartable=True)
    pool.resize(lease_id, 750)
    pool.exit(lease_id)
    assert pool.lease(lease_id).shares == (a_share(250, 4),)
    assert free(pool) == (750, 12)


def test_an_answer_to_a_resize_of_an_earlier_process_is_stale(pool: PoolDriver) -> None:
    lease_id = pool.hold(250, restartable=True)
    pool.resize(lease_id, 750)
    about = {"lease_id": lease_id, "generation": 1}
    pool.exit(lease_id)
    pool.attach(lease_id)
    with pytest.raises(StaleReport):
        pool.handle(LimitsApplied(isolation=(), **about, **pool.when))


def test_a_lease_that_ends_during_a_resize_keeps_both_sizes_until_it_is_gone(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 750)
    pool.release(lease_id)
    assert free(pool) == (250, 4)
    pool.detach(lease_id)
    assert pool.pool.free(CPU0) == Free(compute_milli=1000, memory_bytes=16 * GIB)


def test_an_agent_that_comes_back_is_told_again_of_a_resize(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.resize(lease_id, 500)
    seen = pool.seen(lease_id)
    pool.leave()
    pool.join(holders=[seen])
    assert [it.lease_id for it in pool.told(ApplyLimits)] == [lease_id]


def test_usage_counts_each_size_for_as_long_as_it_was_held(pool: PoolDriver) -> None:
    lease_id = pool.hold(250)
    pool.advance(1000)
    pool.resize(lease_id, 500)
    pool.advance(100)
    pool.apply(lease_id)
    pool.advance(1000)
    pool.end(lease_id)
    assert pool.lease(lease_id).used_milli_ms == 250 * 1100 + 500 * 1000
