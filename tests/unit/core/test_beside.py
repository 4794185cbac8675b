"""Cores and main memory beside a share of a GPU: counted on the node's CPU, and never given twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.errors import DoesNotFitNow, InvalidValue, NeverFits, NoSuchDevice
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState


def a_node(number: int, gpus: int = 4, *, cores: int = 8, model: str = "Test cuda") -> list[Device]:
    """Make a node with GPUs, so many cores, and 64 GiB of main memory."""
    node_id = f"node-{number}"
    cpu = a_device("cpu", node_id=node_id, compute_units=cores, memory_bytes=64 * GIB)
    found = [a_device(f"cuda{it}", node_id=node_id, memory_bytes=80 * GIB) for it in range(gpus)]
    return [cpu, *(replace(it, model=model) for it in found)]


def node_of(pool: PoolDriver, lease_id: str) -> str:
    return pool.lease(lease_id).node_id


def test_cores_and_memory_are_taken_of_the_nodes_cpu_and_given_back(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    cpu = "CPU-node-1-cpu"
    lease_id = pool.hold(a_want(250, host_cpu_milli=3000, host_memory_bytes=16 * GIB))
    (part,) = pool.lease(lease_id).beside
    assert (part.device_id, part.cpu_milli, part.memory_bytes) == (cpu, 3000, 16 * GIB)
    assert pool.pool.free(cpu).compute_milli == 625
    assert pool.pool.free(cpu).memory_bytes == 48 * GIB
    pool.end(lease_id)
    assert pool.pool.free(cpu).compute_milli == 1000


def test_a_request_waits_for_cores_though_a_gpu_is_free_and_is_told_so(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    first = pool.hold(a_want(250, host_cpu_milli=6000), key="a")
    second = pool.request(a_want(250, host_cpu_milli=4000), key="b")
    assert pool.state(second) is S.QUEUED
    assert "node node-1.test has 2 cores and 64.0 GiB of main memory left" in pool.pool.reason(second)
    pool.end(first)
    assert pool.state(second) is S.ATTACHING


def test_who_would_not_wait_is_told_what_is_left_of_the_node(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    pool.hold(a_want(250, host_memory_bytes=60 * GIB), key="a")
    with pytest.raises(DoesNotFitNow, match=r"has 8 cores and 4\.0 GiB of main memory left"):
        pool.request(a_want(250, host_memory_bytes=8 * GIB), key="b", wait_ms=0)


def test_more_cores_than_any_node_has_are_refused(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1), *a_node(2, cores=12))
    with pytest.raises(NeverFits, match=r"at most 12 cores and 64\.0 GiB of main memory"):
        pool.request(a_want(250, host_cpu_milli=13_000))
    assert node_of(pool, pool.request(a_want(250, host_cpu_milli=12_000))) == "node-2"


def test_a_node_that_does_not_report_its_cpu_takes_nobody_who_asks_for_cores(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    with pytest.raises(NeverFits, match="says how many cores"):
        pool.request(a_want(250, host_cpu_milli=1000))
    pool.hold(a_want(250))


def test_a_share_of_the_cpu_and_cores_beside_a_gpu_are_one_capacity(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    pool.hold(a_want(500, kind=DeviceKind.CPU), key="a")
    beside = pool.hold(a_want(250, host_cpu_milli=4000), key="b")
    waits = pool.request(a_want(125, memory_bytes=GIB, kind=DeviceKind.CPU), key="c")
    assert pool.state(waits) is S.QUEUED
    pool.end(beside)
    assert pool.state(waits) is S.ATTACHING


def test_a_share_of_the_cpu_takes_no_cores_beside_it(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    with pytest.raises(InvalidValue, match="part of its node's cores"):
        pool.request(a_want(250, kind=DeviceKind.CPU, host_cpu_milli=1000))
    with pytest.raises(InvalidValue, match="less than nothing"):
        pool.request(a_want(250, host_cpu_milli=-1))


def test_what_goes_with_a_share_where_nothing_is_said_may_be_configured(a_pool: MakePool) -> None:
    config = PoolConfig(host_cpu_milli=4000, host_memory_bytes=16 * GIB)
    pool = a_pool(*a_node(1), config=config)
    half = pool.lease(pool.hold(a_want(500), key="a"))
    assert [(it.cpu_milli, it.memory_bytes) for it in half.beside] == [(2000, 8 * GIB)]
    said = pool.lease(pool.hold(a_want(500, host_cpu_milli=1000), key="b"))
    assert [(it.cpu_milli, it.memory_bytes) for it in said.beside] == [(1000, 0)]
    assert pool.lease(pool.hold(a_want(125, kind=DeviceKind.CPU), key="c")).beside == ()


def test_what_is_taken_beside_shares_survives_a_restart(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    lease_id = pool.hold(a_want(250, host_cpu_milli=6000))
    pool.restart()
    pool.join("node-1", holders=[pool.seen(lease_id)])
    assert pool.pool.free("CPU-node-1-cpu").compute_milli == 250
    assert pool.state(pool.request(a_want(250, host_cpu_milli=3000), key="b")) is S.QUEUED


def test_who_waits_for_a_cpu_gets_the_cores_of_a_lease_from_before_a_restart(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1))
    lease_id = pool.hold(a_want(250, host_cpu_milli=8000))
    pool.restart()
    pool.join("node-1", holders=[pool.seen(lease_id)])
    waits = pool.request(a_want(250, kind=DeviceKind.CPU), key="b")
    assert pool.state(waits) is S.QUEUED
    pool.end(lease_id)
    assert pool.state(waits) is S.ATTACHING


def test_a_spread_gang_takes_its_part_of_each_node(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1, 2), *a_node(2, 1))
    gang = replace(a_want(1000, host_cpu_milli=9001), count=3, spread=True)
    lease = pool.lease(pool.request(gang))
    assert {it.device_id: it.cpu_milli for it in lease.beside} == {
        "CPU-node-1-cpu": 2 * 3001,
        "CPU-node-2-cpu": 3001,
    }


def test_whoever_waits_for_many_cores_is_not_overtaken_for_ever(a_pool: MakePool) -> None:
    """Cores are kept for the first in line like devices are."""
    pool = a_pool(*a_node(1))
    held = [pool.hold(a_want(250, host_cpu_milli=2000), key=f"small-{it}") for it in range(4)]
    large = pool.request(a_want(250, host_cpu_milli=6000), key="large")
    later = pool.request(a_want(250, host_cpu_milli=2000), key="later")
    for lease_id in held[:3]:
        pool.end(lease_id)
    assert pool.state(large) is S.ATTACHING
    assert pool.state(later) is S.QUEUED
    pool.end(held[3])
    assert pool.state(later) is S.ATTACHING


def test_an_idle_lease_is_taken_back_for_its_cores(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1), config=PoolConfig(least_run_ms=0, notice_ms=0, reclaim_idle_ms=60_000))
    idle = pool.hold(a_want(250, host_cpu_milli=8000), key="a", owner="ann")
    pool.handle(ev.ActivitySeen(lease_id=idle, busy=False, idle_ms=0, **pool.when))
    waits = pool.request(a_want(1000, host_cpu_milli=4000), key="b", owner="bob")
    pool.advance(120_000)
    assert pool.state(idle) is S.ENDING
    pool.detach(idle)
    assert pool.state(waits) is S.ATTACHING


# --- models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["A100", "a100 80gb", "NVIDIA A100-SXM4-80GB"])
def test_a_model_is_meant_by_words_of_its_name(a_pool: MakePool, model: str) -> None:
    pool = a_pool(*a_node(1, model="Tesla T4"), *a_node(2, model="NVIDIA A100-SXM4-80GB"))
    assert node_of(pool, pool.request(a_want(250, model=model))) == "node-2"


def test_a_model_that_nobody_has_is_refused_with_those_there_are(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1, model="Tesla T4"))
    with pytest.raises(NoSuchDevice, match="Tesla T4"):
        pool.request(a_want(250, model="A10"))


def test_a_model_that_is_taken_is_waited_for(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1, 1, model="Tesla T4"), *a_node(2, 1, model="NVIDIA A100-SXM4-80GB"))
    held = pool.hold(a_want(1000, model="A100"), key="a")
    waits = pool.request(a_want(250, model="A100"), key="b")
    assert pool.state(waits) is S.QUEUED
    assert "model A100" in pool.pool.reason(waits)
    pool.end(held)
    assert node_of(pool, waits) == "node-2"


# --- placement ----------------------------------------------------------------------------------


def test_bid_price_keeps_away_from_models_that_others_insist_on(a_pool: MakePool) -> None:
    pool = a_pool(*a_node(1, model="NVIDIA A100-SXM4-80GB"), *a_node(2, model="Tesla T4"))
    for number in range(60):  # prices are learnt from what is asked for
        pool.end(pool.hold(a_want(500, model="A100"), key=f"{number}"))
    assert node_of(pool, pool.request(a_want(500), key="any")) == "node-2"
    assert node_of(pool, pool.request(a_want(500, model="A100"), key="insists")) == "node-1"


def test_bid_price_keeps_cores_for_idle_gpus(a_pool: MakePool) -> None:
    """A request with many cores goes where they strand no GPU."""
    pool = a_pool(*a_node(1, 4, cores=16), *a_node(2, 1, cores=16))
    for number in range(60):
        pool.end(pool.hold(a_want(1000, host_cpu_milli=4000), key=f"{number}"))
    assert node_of(pool, pool.request(a_want(250, host_cpu_milli=8000), key="many")) == "node-2"
