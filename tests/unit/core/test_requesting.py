"""What becomes of a new request: granted, queued, or refused with what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import PrepareAttach, WriteDown
from jupyter_gpupool.core.errors import (
    AlreadyHolds,
    DoesNotFitNow,
    GPUPoolError,
    InvalidValue,
    NeverFits,
    NoSuchDevice,
)
from jupyter_gpupool.core.leases import LeaseEvent, LeaseState, Share, Want
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool
from tests.support.snapshots import snapshot

CPU, CUDA = DeviceKind.CPU, DeviceKind.CUDA


def refused(pool: PoolDriver, error: type[GPUPoolError], want: Want, **details: object) -> str:
    """Ask for something that is refused; return what is said, after a look that nothing was changed."""
    before = snapshot(pool.pool)
    with pytest.raises(error) as caught:
        pool.request(want, **details)  # type: ignore[arg-type]
    assert snapshot(pool.pool) == before
    return str(caught.value)


def test_a_share_that_is_free_is_granted_in_the_same_call(pool: PoolDriver) -> None:
    pool.now_ms = 7
    lease = pool.lease(pool.request(250))
    assert lease.state is LeaseState.ATTACHING
    assert (lease.granted_ms, lease.generation, lease.node_id) == (7, 1, "node-1")
    assert lease.deadline_ms == 7 + 60_000
    assert lease.shares == (Share(device_id="CPU-node-1-cpu", compute_milli=250, memory_bytes=4 * GIB),)


def test_a_grant_is_written_down_before_the_agent_is_told(pool: PoolDriver) -> None:
    lease_id = pool.request(250)
    assert [(it.before, it.event) for it in pool.told(WriteDown)] == [
        (None, None),
        (LeaseState.QUEUED, LeaseEvent.GRANTED),
    ]
    assert pool.told(PrepareAttach) == [PrepareAttach(node_id="node-1", lease=pool.lease(lease_id))]


def test_memory_is_the_same_fraction_as_compute_unless_it_is_asked_for(pool: PoolDriver) -> None:
    assert pool.lease(pool.request(500)).shares[0].memory_bytes == 8 * GIB
    assert pool.lease(pool.request(a_want(250, memory_bytes=GIB))).shares[0].memory_bytes == GIB


def test_memory_limits_what_fits_as_compute_does(pool: PoolDriver) -> None:
    pool.hold(a_want(100, memory_bytes=15 * GIB))
    assert pool.state(pool.request(a_want(100))) is LeaseState.QUEUED


def test_four_quarters_fit_beside_memory_that_is_used_without_a_lease(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu", memory_bytes=16 * GIB, unmanaged_bytes=4 * GIB))
    leases = [pool.lease(pool.request(250)) for _ in range(4)]
    assert [lease.shares[0].memory_bytes for lease in leases] == [3 * GIB] * 4


def test_memory_used_without_a_lease_is_not_free(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu", memory_bytes=16 * GIB, unmanaged_bytes=13 * GIB))
    assert pool.pool.free("CPU-node-1-cpu").memory_bytes == 3 * GIB
    assert pool.state(pool.request(a_want(250, memory_bytes=4 * GIB))) is LeaseState.QUEUED
    assert pool.state(pool.request(a_want(100, memory_bytes=GIB, kind=CPU))) is LeaseState.QUEUED
    pool.report(lambda device: replace(device, unmanaged_bytes=None))
    assert {it.state for it in pool.pool.leases.values()} == {LeaseState.ATTACHING}


@pytest.mark.parametrize("compute_milli", [-1, 0, 1001])
def test_compute_out_of_range_is_refused(pool: PoolDriver, compute_milli: int) -> None:
    assert "out of range" in refused(pool, InvalidValue, a_want(compute_milli))


@pytest.mark.parametrize("memory_bytes", [-1, 0])
def test_memory_out_of_range_is_refused(pool: PoolDriver, memory_bytes: int) -> None:
    assert "out of range" in refused(pool, InvalidValue, a_want(memory_bytes=memory_bytes))


@pytest.mark.parametrize("details", [{"wait_ms": -1}, {"hold_ms": 0}])
def test_durations_out_of_range_are_refused(pool: PoolDriver, details: dict[str, int]) -> None:
    refused(pool, InvalidValue, a_want(), **details)


# --- kinds and devices ------------------------------------------------------------------------------


def test_the_kind_is_cuda_where_there_is_any(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    assert pool.lease(pool.request()).want.kind is CUDA
    assert pool.lease(pool.request(a_want(kind=CPU))).want.kind is CPU


def test_the_kind_is_cpu_where_there_is_nothing_else(pool: PoolDriver) -> None:
    assert pool.lease(pool.request()).want.kind is CPU


def test_a_device_is_found_by_name_and_by_id(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"), a_device("cuda1"))
    for named in ("cuda1", "CUDA-node-1-cuda1"):
        lease = pool.lease(pool.request(a_want(device=named)))
        assert lease.shares[0].device_id == "CUDA-node-1-cuda1"
    assert pool.lease(pool.request(a_want(device="cpu"))).want.kind is CPU


def test_a_device_that_is_not_there_is_refused_with_those_that_are(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    said = refused(pool, NoSuchDevice, a_want(device="cuda7"))
    assert "“cuda7”" in said
    assert "cpu (CPU), cuda0 (CUDA)" in said
    refused(pool, NoSuchDevice, a_want(device="cpu", kind=CUDA))


def test_a_kind_that_is_not_there_is_refused(pool: PoolDriver) -> None:
    assert "cuda" in refused(pool, NoSuchDevice, a_want(kind=CUDA))


def test_what_is_larger_than_every_device_is_refused_with_the_largest(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", memory_bytes=40 * GIB), a_device("cuda1", memory_bytes=80 * GIB))
    said = refused(pool, NeverFits, a_want(memory_bytes=81 * GIB))
    assert "cuda1" in said
    assert "80.0 GiB" in said
    refused(pool, NeverFits, a_want(memory_bytes=41 * GIB, device="cuda0"))


def test_real_devices_and_emulated_ones_are_not_mixed_by_accident(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda9", emulated=True))
    pool.hold(1000)
    assert pool.state(pool.request()) is LeaseState.QUEUED
    named = pool.lease(pool.request(a_want(device="cuda9")))
    assert named.shares[0].device_id == "CUDA-node-1-cuda9"


def test_a_real_cpu_is_taken_before_an_emulated_gpu(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0", emulated=True))
    assert pool.lease(pool.request()).want.kind is CPU
    assert pool.lease(pool.request(a_want(kind=CUDA))).want.kind is CUDA


def test_where_all_is_emulated_it_is_granted_without_being_named(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", emulated=True))
    assert pool.lease(pool.request()).shares[0].device_id == "CUDA-node-1-cuda0"


# --- a pool without nodes ---------------------------------------------------------------------------


def test_before_any_node_has_joined_a_request_waits(a_pool: MakePool) -> None:
    pool = a_pool()
    lease_id = pool.request()
    assert pool.lease(lease_id).want.kind is None
    assert "first node" in pool.pool.reason(lease_id)
    pool.join(devices=[a_device("cpu")])
    assert pool.lease(lease_id).state is LeaseState.ATTACHING
    assert pool.lease(lease_id).want.kind is CPU


def test_before_any_node_has_joined_nothing_fits_now(a_pool: MakePool) -> None:
    assert "No node has joined" in refused(a_pool(), DoesNotFitNow, a_want(), wait_ms=0)


def test_a_node_may_turn_out_not_to_have_what_waits_for_it(a_pool: MakePool) -> None:
    pool = a_pool()
    lease_id = pool.request(a_want(kind=CUDA))
    large = pool.request(a_want(memory_bytes=99 * GIB))
    pool.join(devices=[a_device("cpu")])
    assert "no such device is in the pool" in pool.pool.reason(lease_id)
    assert "large enough" in pool.pool.reason(large)
    assert pool.state(pool.request()) is LeaseState.ATTACHING, "it competes for nothing"


# --- one lease for each holder and kind -------------------------------------------------------------


def test_a_holder_has_one_lease_of_a_kind(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu"), a_device("cuda0"))
    held = pool.hold(key="notebook")
    said = refused(pool, AlreadyHolds, a_want(500), key="notebook")
    assert held in said
    assert "Resize it to 0.5" in said
    pool.hold(a_want(kind=CPU), key="notebook")
    pool.hold(key="notebook", owner="bob")


def test_a_holder_that_waits_does_not_wait_twice(pool: PoolDriver) -> None:
    pool.hold(1000)
    pool.request(key="notebook")
    assert "Cancel that request" in refused(pool, AlreadyHolds, a_want(), key="notebook")


def test_a_request_without_a_kind_yet_conflicts_with_any_other(a_pool: MakePool) -> None:
    pool = a_pool()
    pool.request(key="notebook")
    refused(pool, AlreadyHolds, a_want(kind=CPU), key="notebook")


def test_a_holder_may_ask_again_while_its_last_lease_is_ending(pool: PoolDriver) -> None:
    first = pool.hold(key="notebook")
    pool.release(first)
    assert pool.state(first) is LeaseState.ENDING
    assert pool.state(pool.request(key="notebook")) is LeaseState.ATTACHING


# --- now or not at all ------------------------------------------------------------------------------


def test_who_would_not_wait_is_told_what_would_fit(pool: PoolDriver) -> None:
    pool.hold(800)
    said = refused(pool, DoesNotFitNow, a_want(500), wait_ms=0)
    assert "Free now on cpu: 0.2 with 3.2 GiB" in said
    assert pool.state(pool.request(200, wait_ms=0)) is LeaseState.ATTACHING


def test_who_would_not_wait_is_told_what_default_memory_came_to(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu", memory_bytes=16 * GIB))
    pool.hold(a_want(100, memory_bytes=14 * GIB))
    assert "it takes 4.0 GiB there" in refused(pool, DoesNotFitNow, a_want(250), wait_ms=0)


def test_who_would_not_wait_does_not_pass_those_who_do(pool: PoolDriver) -> None:
    pool.hold(500)
    pool.request(600)
    assert "1 request is ahead" in refused(pool, DoesNotFitNow, a_want(100), wait_ms=0)


def test_who_would_not_wait_is_told_that_the_device_is_away(pool: PoolDriver) -> None:
    pool.leave()
    assert "No such device is offered" in refused(pool, DoesNotFitNow, a_want(), wait_ms=0)
