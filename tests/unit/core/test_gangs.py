"""Several devices at once: all or nothing, on one node or across, without a deadlock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import PrepareAttach
from jupyter_gpupool.core.errors import DoesNotFitNow, InvalidValue, NeverFits
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_mig_instance, a_want
from tests.support.pools import MakePool

S = LeaseState


def a_gang(count: int, milli: int = 1000, *, spread: bool = False) -> Want:
    return replace(a_want(milli), count=count, spread=spread)


def devices_of(pool: PoolDriver, lease_id: str) -> list[str]:
    found = [pool.pool.device(share.device_id) for share in pool.lease(lease_id).shares]
    return [f"{it.node_id[5:]}/{it.name}" for it in found if it is not None]


@pytest.fixture
def two_nodes(a_pool: MakePool) -> PoolDriver:
    """Make a pool of two nodes with two GPUs each."""
    return a_pool(*(a_device(f"cuda{it}", node_id=f"node-{node}") for node in (1, 2) for it in (0, 1)))


def test_a_gang_gets_all_of_its_devices_on_one_node(two_nodes: PoolDriver) -> None:
    two_nodes.hold(a_want(500, device="cuda0"))
    lease_id = two_nodes.request(a_gang(2))
    assert devices_of(two_nodes, lease_id) == ["2/cuda0", "2/cuda1"]
    assert two_nodes.lease(lease_id).node_id == "node-2"
    assert [it.compute_milli for it in two_nodes.lease(lease_id).shares] == [1000, 1000]


def test_shares_of_a_gang_are_on_different_devices(two_nodes: PoolDriver) -> None:
    lease_id = two_nodes.request(a_gang(2, 250))
    assert devices_of(two_nodes, lease_id) == ["1/cuda0", "1/cuda1"]


def test_a_gang_gets_all_or_nothing(two_nodes: PoolDriver) -> None:
    held = [two_nodes.hold(a_want(250, device=f"GPU-{it}" if it < 0 else "cuda0")) for it in (0, 1)]
    taken = two_nodes.hold(a_want(1000, device="CUDA-node-2-cuda0"))
    gang = two_nodes.request(a_gang(2))
    assert two_nodes.state(gang) is S.QUEUED
    assert two_nodes.lease(gang).shares == ()
    two_nodes.end(taken)
    assert two_nodes.state(gang) is S.ATTACHING
    assert len(held) == 2


def test_a_gang_that_may_be_spread_takes_devices_of_several_nodes(two_nodes: PoolDriver) -> None:
    two_nodes.hold(a_want(1000, device="CUDA-node-1-cuda0"))
    lease_id = two_nodes.request(a_gang(3, spread=True))
    assert sorted(devices_of(two_nodes, lease_id)) == ["1/cuda1", "2/cuda0", "2/cuda1"]


def test_a_gang_that_may_be_spread_stays_on_one_node_where_it_fits(two_nodes: PoolDriver) -> None:
    assert devices_of(two_nodes, two_nodes.request(a_gang(2, spread=True))) == ["1/cuda0", "1/cuda1"]


def test_each_agent_is_told_of_the_shares_that_are_on_its_node(two_nodes: PoolDriver) -> None:
    lease_id = two_nodes.request(a_gang(4, spread=True))
    (order,) = two_nodes.told(PrepareAttach)
    home = two_nodes.lease(lease_id).node_id
    assert order.node_id == home
    assert {it.device_id[5:11] for it in order.lease.shares} == {home}
    assert len(two_nodes.lease(lease_id).shares) == 4


def test_two_gangs_do_not_take_halves_of_what_both_want(two_nodes: PoolDriver) -> None:
    held = [two_nodes.hold(a_want(1000, device=f"CUDA-node-{node}-cuda0")) for node in (1, 2)]
    gangs = [two_nodes.request(a_gang(2)) for _ in range(2)]
    assert [two_nodes.state(it) for it in gangs] == [S.QUEUED, S.QUEUED]
    two_nodes.end(held[0])
    assert [two_nodes.state(it) for it in gangs] == [S.ATTACHING, S.QUEUED]
    two_nodes.end(held[1])
    assert [two_nodes.state(it) for it in gangs] == [S.ATTACHING, S.ATTACHING]


def test_small_requests_do_not_starve_a_gang(two_nodes: PoolDriver) -> None:
    held = [two_nodes.hold(500) for _ in range(8)]
    gang = two_nodes.request(a_gang(2))
    for _ in range(40):
        if two_nodes.state(gang) is not S.QUEUED:
            break
        small = two_nodes.request(500)
        two_nodes.end(held.pop(0))
        if two_nodes.state(small) is S.ATTACHING:
            two_nodes.attach(small)
            held.append(small)
    assert two_nodes.state(gang) is S.ATTACHING


def test_a_gang_is_resized_on_all_of_its_devices(two_nodes: PoolDriver) -> None:
    lease_id = two_nodes.hold(a_gang(2, 250))
    two_nodes.resize(lease_id, 500)
    two_nodes.apply(lease_id)
    assert [it.compute_milli for it in two_nodes.lease(lease_id).shares] == [500, 500]
    two_nodes.hold(a_want(500, device="CUDA-node-1-cuda1"))
    with pytest.raises(DoesNotFitNow, match="cuda1 on node-1"):
        two_nodes.resize(lease_id, 750)
    assert two_nodes.lease(lease_id).pending == ()


def test_a_gang_that_is_spread_ends_when_one_of_its_nodes_is_lost(two_nodes: PoolDriver) -> None:
    lease_id = two_nodes.hold(a_gang(4, spread=True))
    other = "node-1" if two_nodes.lease(lease_id).node_id == "node-2" else "node-2"
    two_nodes.leave(other)
    two_nodes.advance(20_000)
    assert two_nodes.state(lease_id) is S.ENDED
    # its process is still on the node that is there, which offers nothing until that is confirmed to be gone
    here = f"CUDA-{two_nodes.lease(lease_id).node_id}-cuda0"
    assert two_nodes.pool.withheld(here) is not None
    two_nodes.detach(lease_id)
    assert two_nodes.pool.withheld(here) is None


def test_an_owner_may_have_more_of_each_device_of_a_gang_that_takes_leases_of_one_owner(
    a_pool: MakePool,
) -> None:
    pool = a_pool(*(a_device("cuda0", node_id=f"node-{node}", one_owner=True) for node in (1, 2)))
    pool.hold(a_gang(2, 500, spread=True))
    assert {tuple(devices_of(pool, pool.request(500))) for _ in range(2)} == {("1/cuda0",), ("2/cuda0",)}
    assert pool.state(pool.request(100, owner="bob")) is S.QUEUED


def test_a_gang_survives_a_restart_of_the_pool(two_nodes: PoolDriver) -> None:
    lease_id = two_nodes.hold(a_gang(2))
    two_nodes.restart()
    two_nodes.join("node-1", holders=[two_nodes.seen(lease_id)])
    two_nodes.join("node-2")
    assert two_nodes.pool.free("CUDA-node-1-cuda1").compute_milli == 0
    two_nodes.end(lease_id)
    assert two_nodes.pool.free("CUDA-node-1-cuda1").compute_milli == 1000


def test_more_devices_than_a_node_has_never_fit_unless_they_may_be_spread(two_nodes: PoolDriver) -> None:
    with pytest.raises(NeverFits, match=r"at most 2 such devices on one node.*or let them be on several"):
        two_nodes.request(a_gang(3))
    with pytest.raises(NeverFits, match="at most 4 such devices in the pool"):
        two_nodes.request(a_gang(5, spread=True))
    with pytest.raises(InvalidValue):
        two_nodes.request(a_gang(0))


def test_a_gang_of_instances_gets_each_of_them_whole(a_pool: MakePool) -> None:
    pool = a_pool(*(a_mig_instance(f"cuda0-mig{it}", 2, memory_bytes=20 * GIB) for it in range(3)))
    lease_id = pool.request(replace(a_want(250, kind=DeviceKind.CUDA), count=2))
    assert [(it.compute_milli, it.memory_bytes) for it in pool.lease(lease_id).shares] == [
        (1000, 20 * GIB)
    ] * 2


def test_who_would_not_wait_for_a_gang_is_told_at_once(two_nodes: PoolDriver) -> None:
    for node in (1, 2):
        two_nodes.hold(a_want(500, device=f"CUDA-node-{node}-cuda0"))
    with pytest.raises(DoesNotFitNow):
        two_nodes.request(a_gang(2), wait_ms=0)
    two_nodes.handle(ev.TimePassed(**two_nodes.when))
