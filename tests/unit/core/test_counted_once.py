"""A holder with a share of a CPU and cores beside a GPU runs in the larger of the two: it counts once."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState
CPU = "CPU-node-1-cpu"


def a_node(cores: int = 8) -> list[Device]:
    cpu = a_device("cpu", node_id="node-1", compute_units=cores, memory_bytes=64 * GIB)
    return [cpu, *(a_device(f"cuda{it}", node_id="node-1", memory_bytes=80 * GIB) for it in range(4))]


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    return a_pool(*a_node())


def of_cpu(milli: int, gib: int = 1) -> Want:
    return a_want(milli, memory_bytes=gib * GIB, kind=DeviceKind.CPU)


def free(pool: PoolDriver) -> tuple[int, int]:
    left = pool.pool.free(CPU)
    return left.compute_milli, left.memory_bytes // GIB


def test_the_larger_of_both_is_taken_in_each_dimension(pool: PoolDriver) -> None:
    pool.hold(of_cpu(250, gib=16), key="a")
    pool.hold(a_want(250, host_cpu_milli=4000, host_memory_bytes=8 * GIB), key="a")
    assert free(pool) == (500, 48)


def test_two_holders_are_not_counted_together(pool: PoolDriver) -> None:
    pool.hold(of_cpu(250, gib=16), key="a")
    pool.hold(a_want(250, host_cpu_milli=4000, host_memory_bytes=8 * GIB), key="b")
    assert free(pool) == (250, 40)


def test_when_one_of_both_ends_only_what_the_other_does_not_need_is_free(pool: PoolDriver) -> None:
    share = pool.hold(of_cpu(250, gib=16), key="a")
    beside = pool.hold(a_want(250, host_cpu_milli=4000, host_memory_bytes=8 * GIB), key="a")
    pool.end(beside)
    assert free(pool) == (750, 48)
    again = pool.hold(a_want(250, host_cpu_milli=4000, host_memory_bytes=8 * GIB), key="a")
    pool.end(share)
    assert free(pool) == (500, 56)
    pool.end(again)
    assert free(pool) == (1000, 64)


def test_whoever_has_the_whole_cpu_has_its_cores_beside_a_gpu_too(pool: PoolDriver) -> None:
    pool.hold(of_cpu(1000, gib=60), key="a")
    beside = pool.request(a_want(250, host_cpu_milli=8000, host_memory_bytes=60 * GIB), key="a")
    assert pool.state(beside) is S.ATTACHING
    other = pool.request(a_want(250, host_cpu_milli=1000), key="b")
    assert pool.state(other) is S.QUEUED


def test_whoever_has_all_cores_beside_a_gpu_can_have_the_cpu_too(pool: PoolDriver) -> None:
    pool.hold(a_want(250, host_cpu_milli=8000, host_memory_bytes=60 * GIB), key="a")
    share = pool.request(of_cpu(1000, gib=60), key="a")
    assert pool.state(share) is S.ATTACHING
    assert free(pool) == (0, 4)


def test_cores_that_go_with_each_gpu_by_configuration_do_not_wait_for_their_own_holder(
    a_pool: MakePool,
) -> None:
    pool = a_pool(*a_node(), config=PoolConfig(host_cpu_milli=4000, host_memory_bytes=16 * GIB))
    pool.hold(of_cpu(1000, gib=64), key="a")
    assert pool.state(pool.request(a_want(1000), key="a")) is S.ATTACHING


def test_who_waits_goes_on_as_soon_as_what_is_lacking_beside_its_own_part_is_free(pool: PoolDriver) -> None:
    pool.hold(of_cpu(250), key="a")
    in_the_way = [pool.hold(of_cpu(250), key=f"other-{it}") for it in range(3)]
    alike = pool.request(a_want(250, host_cpu_milli=4000), key="without")
    waits = pool.request(a_want(250, host_cpu_milli=4000), key="a")
    assert pool.state(waits) is S.QUEUED
    pool.end(in_the_way[0])
    assert (pool.state(waits), pool.state(alike)) == (S.QUEUED, S.QUEUED)  # kept for who came first
    pool.end(in_the_way[1])
    assert pool.state(alike) is S.ATTACHING
    pool.end(in_the_way[2])
    assert pool.state(waits) is S.ATTACHING


def test_who_gets_a_share_while_it_waits_is_looked_at_again(pool: PoolDriver) -> None:
    blocker = pool.hold(of_cpu(750), key="other")
    waits = pool.request(a_want(250, host_cpu_milli=2500), key="a")
    assert pool.state(waits) is S.QUEUED
    share = pool.request(of_cpu(125), key="a")
    assert pool.state(share) in (S.QUEUED, S.ATTACHING)
    pool.end(blocker)
    assert pool.state(waits) is S.ATTACHING
    assert pool.state(share) is S.ATTACHING
    assert free(pool)[0] == 687


def test_a_restart_counts_them_once_as_before(pool: PoolDriver) -> None:
    share = pool.hold(of_cpu(250, gib=16), key="a")
    beside = pool.hold(a_want(250, host_cpu_milli=4000, host_memory_bytes=8 * GIB), key="a")
    pool.restart()
    pool.join("node-1", holders=[pool.seen(share), pool.seen(beside)])
    assert free(pool) == (500, 48)


def test_an_estimate_knows_that_the_end_of_one_of_both_frees_little(pool: PoolDriver) -> None:
    pool.hold(of_cpu(1000), key="a", hold_ms=60_000)
    pool.hold(a_want(250, host_cpu_milli=8000), key="a", hold_ms=600_000)
    waits = pool.request(of_cpu(250), key="b")
    grant = pool.pool.why(waits).grant
    assert grant is not None
    assert grant.middle_ms >= pool.now_ms + 500_000
