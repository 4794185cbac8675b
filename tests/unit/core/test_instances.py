"""MIG instances: granted whole or not at all, the smallest that is large enough, shown as what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import DoesNotFitNow, NeverFits, NoSuchDevice
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.wording import describe_part
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_mig_instance, a_want
from tests.support.pools import MakePool

#: 1g.10gb, 1g.20gb, 2g.20gb and 3g.40gb of one GPU.
INSTANCES = (
    a_mig_instance("cuda0-mig0", 3, memory_bytes=40 * GIB),
    a_mig_instance("cuda0-mig1", 2, memory_bytes=20 * GIB),
    a_mig_instance("cuda0-mig2", 1, memory_bytes=20 * GIB),
    a_mig_instance("cuda0-mig3", 1, memory_bytes=10 * GIB),
)


@pytest.fixture
def mig(a_pool: MakePool) -> PoolDriver:
    return a_pool(*INSTANCES)


def granted(pool: PoolDriver, lease_id: str) -> str:
    """Return the name of the device that a lease has."""
    (share,) = pool.lease(lease_id).shares
    device = pool.pool.device(share.device_id)
    assert device is not None
    return device.name


def test_the_whole_of_the_smallest_instance_that_has_it_is_granted(mig: PoolDriver) -> None:
    lease_id = mig.request(250)
    assert granted(mig, lease_id) == "cuda0-mig1"
    (share,) = mig.lease(lease_id).shares
    assert (share.compute_milli, share.memory_bytes) == (1000, 20 * GIB)
    assert mig.lease(lease_id).want.compute_milli == 250
    assert mig.pool.free(share.device_id).compute_milli == 0


def test_a_seventh_goes_to_the_smallest_memory_that_suffices(mig: PoolDriver) -> None:
    assert granted(mig, mig.request(100)) == "cuda0-mig3"
    assert granted(mig, mig.request(a_want(100, memory_bytes=11 * GIB))) == "cuda0-mig2"
    assert granted(mig, mig.request(142)) == "cuda0-mig1"


def test_memory_alone_can_need_a_larger_instance(mig: PoolDriver) -> None:
    assert granted(mig, mig.request(a_want(100, memory_bytes=30 * GIB))) == "cuda0-mig0"


def test_an_instance_has_one_lease_at_a_time(mig: PoolDriver) -> None:
    first = mig.hold(a_want(100, device="cuda0-mig1"))
    second = mig.request(a_want(100, device="cuda0-mig1"))
    assert mig.state(second) is LeaseState.QUEUED
    assert mig.pool.reason(second, mig.now_ms) == (
        "Waiting for 0.1 of cuda0-mig1: next in line; "
        "MIG instance cuda0-mig1 (2/7 of a GPU with 20.0 GiB) is granted whole, and is in use."
    )
    mig.end(first)
    assert granted(mig, second) == "cuda0-mig1"


def test_a_small_request_takes_an_instance_before_it_splits_a_gpu(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda1", memory_bytes=80 * GIB), *INSTANCES)
    assert granted(pool, pool.request(250)) == "cuda0-mig1"
    assert granted(pool, pool.request(500)) == "cuda1"


def test_the_rest_of_a_gpu_that_fits_better_comes_first(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda1", memory_bytes=80 * GIB), *INSTANCES)
    pool.hold(a_want(750, device="cuda1"))
    assert granted(pool, pool.request(250)) == "cuda1"


def test_the_name_of_a_split_gpu_means_its_instances(mig: PoolDriver) -> None:
    assert granted(mig, mig.request(a_want(250, device="cuda0"))) == "cuda0-mig1"
    assert granted(mig, mig.request(a_want(250, device="GPU-node-1-cuda0"))) == "cuda0-mig0"
    with pytest.raises(NoSuchDevice, match="cuda0-mig0"):
        mig.request(a_want(250, device="cuda"))


def test_more_than_the_largest_instance_never_fits(mig: PoolDriver) -> None:
    with pytest.raises(NeverFits) as caught:
        mig.request(500)
    assert caught.value.message == (
        "0.5 of a CUDA device never fits: the largest MIG instance is 3/7 of a GPU."
    )
    assert caught.value.hint == "Ask for at most 0.428 of a GPU."


def test_so_much_memory_never_fits_together_with_so_much_compute(mig: PoolDriver) -> None:
    with pytest.raises(NeverFits, match=r"largest such device, cuda0-mig0, has 40\.0 GiB"):
        mig.request(a_want(100, memory_bytes=41 * GIB))
    with pytest.raises(NeverFits, match=r"largest such device with that much compute, cuda0-mig0, has 40"):
        mig.request(a_want(400, memory_bytes=41 * GIB))


def test_who_waits_while_a_gpu_is_split_is_told_that_nothing_is_large_enough(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", memory_bytes=80 * GIB))
    pool.hold(100)
    lease_id = pool.request(1000)
    pool.join(devices=INSTANCES)
    assert pool.pool.reason(lease_id, pool.now_ms).endswith(
        "no such device is large enough at present (the largest MIG instance is 3/7 of a GPU)."
    )


def test_an_instance_that_is_in_use_is_refused_at_once_where_nobody_waits(mig: PoolDriver) -> None:
    mig.hold(a_want(400))
    with pytest.raises(DoesNotFitNow, match=r"MIG instance cuda0-mig0 \(3/7 .* is in use\. Ask again"):
        mig.request(a_want(400), wait_ms=0)


@pytest.mark.parametrize("size", [142, 285, 500, 1000])
def test_an_instance_is_not_resized_and_what_helps_is_said(mig: PoolDriver, size: int) -> None:
    lease_id = mig.hold(250)
    with pytest.raises(DoesNotFitNow, match=r"whole of MIG instance cuda0-mig1 \(2/7 .*Release it, and req"):
        mig.resize(lease_id, size)


def test_what_was_asked_for_and_what_was_granted_are_both_said(mig: PoolDriver) -> None:
    lease_id = mig.hold(250)
    assert mig.pool.reason(lease_id, mig.now_ms) == (
        "Held. 0.25 was asked for; it has the whole of MIG instance cuda0-mig1 (2/7 of a GPU with 20.0 GiB)."
    )


def test_what_was_asked_for_follows_a_resize_of_a_shared_device(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", memory_bytes=40 * GIB))
    lease_id = pool.hold(250)
    pool.resize(lease_id, 500)
    pool.apply(lease_id)
    want = pool.lease(lease_id).want
    assert (want.compute_milli, want.memory_bytes, want.kind) == (500, 20 * GIB, DeviceKind.CUDA)


def test_unmanaged_memory_is_not_granted_with_an_instance(a_pool: MakePool) -> None:
    pool = a_pool(replace(INSTANCES[0], unmanaged_bytes=8 * GIB))
    assert pool.lease(pool.request(250)).shares[0].memory_bytes == 32 * GIB


def test_an_instance_of_unknown_size_is_for_those_who_ask_for_memory_or_for_it(a_pool: MakePool) -> None:
    pool = a_pool(replace(INSTANCES[0], parent_milli=0))
    with pytest.raises(NeverFits, match="no MIG instance says which part of a GPU it is"):
        pool.request(100)
    pool.end(pool.hold(a_want(100, memory_bytes=10 * GIB)))
    lease_id = pool.hold(a_want(1000, device="cuda0-mig0"))
    assert "an unknown part of a GPU with 40.0 GiB" in pool.pool.reason(lease_id, pool.now_ms)
    with pytest.raises(NeverFits, match=r"has 40\.0 GiB"):
        pool.request(a_want(100, memory_bytes=41 * GIB))


@pytest.mark.parametrize(
    ("milli", "words"),
    [
        (142, "1/7 of a GPU"),
        (285, "2/7 of a GPU"),
        (428, "3/7 of a GPU"),
        (571, "4/7 of a GPU"),
        (250, "1/4 of a GPU"),
        (500, "1/2 of a GPU"),
        (1000, "a whole GPU"),
        (121, "0.121 of a GPU"),
        (0, "an unknown part of a GPU"),
    ],
)
def test_a_part_of_a_gpu_is_written_as_a_fraction(milli: int, words: str) -> None:
    assert describe_part(milli) == words
