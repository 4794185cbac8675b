"""Devices that do not take everybody: one owner at a time, so many leases, and those that are not well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.devices import Device, Health, Withheld
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.wording import because
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState
MPS = a_device("cuda0", memory_bytes=40 * GIB, one_owner=True, most_leases=3)
CUDA0, CUDA1 = "CUDA-node-1-cuda0", "CUDA-node-1-cuda1"


@pytest.fixture
def mps(a_pool: MakePool) -> PoolDriver:
    """Make a pool with one GPU, as CUDA MPS shares it."""
    return a_pool(MPS)


def test_leases_of_one_owner_share_a_device(mps: PoolDriver) -> None:
    first, second = mps.hold(250, owner="ann"), mps.hold(250, owner="ann")
    assert {mps.lease(it).shares[0].device_id for it in (first, second)} == {CUDA0}


def test_another_owner_waits_and_is_told_why_without_a_name(mps: PoolDriver) -> None:
    mps.hold(250, owner="ann")
    lease_id = mps.request(250, owner="bob")
    assert mps.state(lease_id) is S.QUEUED
    assert mps.pool.reason(lease_id, mps.now_ms) == (
        "Waiting for 0.25 of a CUDA device: next in line; "
        "another owner has leases on cuda0, which serves one owner at a time."
    )
    assert mps.pool.queue(mps.now_ms)[0].reason == mps.pool.reason(lease_id, mps.now_ms)


def test_another_owner_who_would_not_wait_is_told_why(mps: PoolDriver) -> None:
    mps.hold(250, owner="ann")
    with pytest.raises(DoesNotFitNow, match=r"Another owner has leases on cuda0.*Ask again and wait"):
        mps.request(250, owner="bob", wait_ms=0)


def test_another_owner_goes_where_nobody_is(a_pool: MakePool) -> None:
    pool = a_pool(MPS, replace(MPS, id=CUDA1, name="cuda1"))
    pool.hold(250, owner="ann")
    assert pool.lease(pool.request(250, owner="bob")).shares[0].device_id == CUDA1


def test_who_waits_for_the_other_owner_is_not_passed_for_ever(mps: PoolDriver) -> None:
    first = mps.hold(250, owner="ann")
    bob = mps.request(250, owner="bob")
    later = [mps.request(250, owner="ann") for _ in range(3)]
    assert [mps.state(it) for it in (bob, *later)] == [S.QUEUED] * 4, "bob's claim holds"
    mps.end(first)
    assert mps.state(bob) is S.ATTACHING
    assert [mps.state(it) for it in later] == [S.QUEUED] * 3
    mps.attach(bob)
    mps.end(bob)
    assert [mps.state(it) for it in later] == [S.ATTACHING] * 3


def test_a_device_is_another_owners_until_the_last_lease_is_detached(mps: PoolDriver) -> None:
    first = mps.hold(250, owner="ann")
    bob = mps.request(250, owner="bob")
    mps.release(first)
    assert mps.state(bob) is S.QUEUED
    mps.detach(first)
    assert mps.state(bob) is S.ATTACHING


def test_a_device_carries_so_many_leases_and_no_more(mps: PoolDriver) -> None:
    held = [mps.hold(100) for _ in range(3)]
    lease_id = mps.request(100)
    assert mps.pool.reason(lease_id, mps.now_ms).endswith("cuda0 carries 3 leases, as many as it can.")
    mps.end(held[0])
    assert mps.state(lease_id) is S.ATTACHING


def test_room_is_what_is_named_where_that_is_what_is_missing(mps: PoolDriver) -> None:
    mps.hold(900, owner="ann")
    assert "0.1 with 4.0 GiB is free" in mps.pool.reason(mps.request(500, owner="bob"), mps.now_ms)


def test_leases_that_are_there_when_a_device_becomes_one_owners_stay(a_pool: MakePool) -> None:
    pool = a_pool(replace(MPS, one_owner=False, most_leases=None))
    held = [pool.hold(100, owner=owner) for owner in ("ann", "bob")]
    pool.report(lambda it: replace(it, one_owner=True, most_leases=1))
    waiting = [pool.request(100, owner=owner) for owner in ("ann", "bob")]
    pool.check()
    assert [pool.state(it) for it in (*held, *waiting)] == [S.ACTIVE] * 2 + [S.QUEUED] * 2
    pool.end(held[0])
    assert pool.state(waiting[0]) is S.QUEUED, "bob is still there"
    pool.end(held[1])
    assert pool.state(waiting[0]) is S.ATTACHING


def test_the_owner_of_a_device_is_known_again_after_a_restart_of_the_pool(mps: PoolDriver) -> None:
    held = mps.hold(250, owner="ann")
    bob = mps.request(250, owner="bob")
    mps.restart()
    mps.join(holders=[mps.seen(held)])
    assert mps.state(bob) is S.QUEUED
    mps.end(held)
    assert mps.state(bob) is S.ATTACHING


# --- health -------------------------------------------------------------------------------------------


def failing(device: Device) -> Device:
    reason = "XID 79: the GPU has fallen off the bus."
    return replace(device, health=Health.FAILED, health_reason=reason)


def test_a_failed_device_is_withheld_with_what_is_wrong(mps: PoolDriver) -> None:
    mps.report(failing)
    assert mps.pool.withheld(CUDA0) is Withheld.FAILED
    said = "cuda0 has failed: XID 79: the GPU has fallen off the bus; it is offered again when it is healthy"
    assert mps.pool.withheld_reason(CUDA0) == said
    assert mps.pool.reason(mps.request(250), mps.now_ms).endswith(f"no such device is offered: {said}.")
    with pytest.raises(DoesNotFitNow, match="XID 79"):
        mps.request(250, wait_ms=0)


@pytest.mark.parametrize(
    ("sentence", "clause"),
    [
        ("The driver reported XID 79.", ": the driver reported XID 79"),
        ("ECC errors were counted.", ": ECC errors were counted"),
        ("A fan stands still.", ": a fan stands still"),
        ("", ""),
    ],
)
def test_what_is_wrong_is_written_as_the_end_of_a_sentence(sentence: str, clause: str) -> None:
    assert because(sentence) == clause


def test_a_failed_device_comes_back_by_itself(mps: PoolDriver) -> None:
    mps.report(failing)
    lease_id = mps.request(250)
    mps.report(lambda it: replace(it, health=Health.HEALTHY, health_reason=""))
    assert mps.state(lease_id) is S.ATTACHING


def test_a_lease_on_a_failed_device_goes_on_and_cannot_grow(mps: PoolDriver) -> None:
    lease_id = mps.hold(250)
    mps.report(failing)
    assert mps.state(lease_id) is S.ACTIVE
    with pytest.raises(DoesNotFitNow, match="cannot grow now: cuda0 has failed: XID 79"):
        mps.resize(lease_id, 500)


def test_a_degraded_device_is_used_last_and_is_offered(a_pool: MakePool) -> None:
    degraded = a_device("cuda0", memory_bytes=40 * GIB, health=Health.DEGRADED)
    pool = a_pool(degraded, a_device("cuda1", memory_bytes=80 * GIB))
    pool.hold(a_want(500, device="cuda0"))
    assert pool.lease(pool.request(500)).shares[0].device_id == CUDA1
    assert pool.lease(pool.request(500)).shares[0].device_id == CUDA1
    assert pool.lease(pool.request(500)).shares[0].device_id == CUDA0
