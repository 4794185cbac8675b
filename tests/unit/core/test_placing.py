"""Policies: found by name, and choosing well."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies import order_policy, place_policy
from jupyter_gpupool.core.policies.order.fifo import fifo
from jupyter_gpupool.core.policies.score.bid_price import bid_price
from jupyter_gpupool.core.policies.scores import SCORES
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool


def test_policies_are_found_by_name() -> None:
    assert order_policy("fifo") is fifo
    assert place_policy("bid_price") is bid_price


def test_an_unknown_policy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidValue, match=r"“lifo”.*fifo"):
        Pool(PoolConfig(order="lifo"))
    with pytest.raises(InvalidValue, match=r"“worst_fit”.*best_fit"):
        Pool(PoolConfig(place="worst_fit"))


def test_small_leases_fill_one_device_before_they_open_another(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device(f"cuda{i}") for i in range(3)))
    for _ in range(4):
        pool.hold(250)
    free = [pool.pool.free(it).compute_milli for it in sorted(pool.pool.devices)]
    assert free == [0, 1000, 1000]
    assert pool.lease(pool.request(a_want(1000))).shares[0].device_id == "CUDA-node-1-cuda1"


def test_the_default_memory_is_of_the_device_that_was_chosen(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", memory_bytes=80 * GIB), a_device("cuda1", memory_bytes=40 * GIB))
    assert pool.lease(pool.request(500)).shares[0].memory_bytes == 20 * GIB
    assert pool.lease(pool.request(1000)).shares[0].memory_bytes == 80 * GIB


def devices_of(pool: PoolDriver, lease_id: str) -> list[str]:
    """Return the names of the devices that a lease has, with their nodes."""
    found = [pool.pool.device(share.device_id) for share in pool.lease(lease_id).shares]
    return [f"{it.node_id}/{it.name}" for it in found if it is not None]


@pytest.mark.parametrize("place", sorted(SCORES))
def test_every_policy_grants_what_fits_and_prefers_the_fuller_device(a_pool: MakePool, place: str) -> None:
    pool = a_pool(*(a_device(f"cuda{it}") for it in range(2)), config=PoolConfig(place=place))
    held = [pool.hold(500) for _ in range(4)]
    assert len({it for lease_id in held for it in devices_of(pool, lease_id)}) == 2
    assert pool.lease(pool.request(500)).shares == ()


def test_a_policy_that_spreads_takes_the_emptier_device(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device(f"cuda{it}") for it in range(2)), config=PoolConfig(place="spread"))
    assert devices_of(pool, pool.hold(250)) != devices_of(pool, pool.hold(250))


def test_the_node_on_which_a_holder_has_a_lease_comes_first(a_pool: MakePool) -> None:
    nodes = [a_device(name, node_id=f"node-{it}") for it in range(1, 4) for name in ("cpu", "cuda0")]
    pool = a_pool(*nodes)
    pool.hold(a_want(500, device="cuda0"))
    cpu = pool.hold(a_want(100, device="CPU-node-3-cpu"), key="kernel")
    assert pool.lease(cpu).node_id == "node-3"
    assert devices_of(pool, pool.request(500, key="kernel")) == ["node-3/cuda0"]
    assert devices_of(pool, pool.request(500, key="another")) == ["node-1/cuda0"]


def test_an_owner_fills_the_device_that_is_the_owners_already(a_pool: MakePool) -> None:
    shared = [a_device(f"cuda{it}", one_owner=True) for it in range(3)]
    pool = a_pool(*shared)
    for owner in ("ann", "bob"):
        pool.hold(250, owner=owner)
    of_bob = devices_of(pool, pool.hold(250, owner="bob"))
    assert of_bob == ["node-1/cuda1"]
    assert devices_of(pool, pool.hold(250, owner="cyd")) == ["node-1/cuda2"]
    assert devices_of(pool, pool.hold(750, owner="ann")) == ["node-1/cuda0"]


def test_prices_follow_what_is_asked_for_and_survive_a_restart(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device(f"cuda{it}") for it in range(2)))
    for _ in range(50):
        pool.end(pool.hold(810))
    rows = pool.pool.demand_rows()
    assert [(shape.milli, times) for shape, times in rows] == [(810, 50)]
    again = Pool(PoolConfig(), demand=rows)
    assert again.demand_rows() == rows
