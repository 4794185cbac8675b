"""Policies: found by name, and choosing well."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies import order_policy, place_policy
from jupyter_gpupool.core.policies.order.fifo import fifo
from jupyter_gpupool.core.policies.place import Candidate
from jupyter_gpupool.core.policies.place.best_fit import best_fit
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.testing import GIB, a_device, a_want
from tests.support.pools import MakePool


def a_candidate(name: str, free_milli: int, free_gib: int, memory_gib: int = 1) -> Candidate:
    taken = 100, memory_gib * GIB
    return Candidate(a_device(name), *taken, free_milli - taken[0], free_gib * GIB - taken[1])


def test_best_fit_leaves_the_least_compute() -> None:
    chosen = best_fit([a_candidate("cuda0", 900, 1), a_candidate("cuda1", 200, 70)])
    assert chosen.device.name == "cuda1"


def test_best_fit_looks_at_memory_where_compute_is_equal() -> None:
    chosen = best_fit([a_candidate("cuda0", 500, 70), a_candidate("cuda1", 500, 20)])
    assert chosen.device.name == "cuda1"


def test_best_fit_counts_what_the_request_takes() -> None:
    chosen = best_fit([a_candidate("cuda0", 500, 40, 39), a_candidate("cuda1", 500, 20, 10)])
    assert chosen.device.name == "cuda0"


def test_best_fit_decides_a_tie_by_id_whatever_the_order() -> None:
    same = [a_candidate(f"cuda{i}", 500, 20) for i in range(4)]
    assert best_fit(same).device.name == best_fit(same[::-1]).device.name == "cuda0"


def test_policies_are_found_by_name() -> None:
    assert order_policy("fifo") is fifo
    assert place_policy("best_fit") is best_fit


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
