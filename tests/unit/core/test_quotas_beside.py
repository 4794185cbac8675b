"""Quotas on cores and main memory beside shares: on the sum over owners and groups, whatever the device."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import QuotaExceeded
from jupyter_gpupool.core.leases import HOLDING, LeaseState, Want
from jupyter_gpupool.core.quotas import Group, Limits, Quotas, Rules
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState
NODE = [
    a_device("cpu", node_id="node-1", compute_units=64, memory_bytes=256 * GIB),
    *(a_device(f"cuda{it}", node_id="node-1", memory_bytes=80 * GIB) for it in range(8)),
]


def limited(**limits: int) -> Rules:
    """Make rules that only limit."""
    return Rules(limits=Limits(**limits))  # type: ignore[arg-type]


def two_levels(inner: Rules, outer: Rules, each: Rules) -> Quotas:
    """Make a group in a group, with two owners."""
    owners = frozenset({"ann", "bob"})
    groups = (
        Group(name="lab", rules=outer),
        Group(name="course", parent="lab", rules=inner, each=each, owners=owners),
    )
    return Quotas(groups=groups)


def beside(cores: int = 0, gib: int = 0, *, at_most: bool = False) -> Want:
    want = a_want(125, host_cpu_milli=cores * 1000, host_memory_bytes=gib * GIB)
    return replace(want, at_most=at_most)


def pool_with(a_pool: MakePool, quotas: Quotas) -> PoolDriver:
    return a_pool(*NODE, config=PoolConfig(quotas=quotas))


def test_cores_of_an_owner_are_limited_and_who_waits_is_told(a_pool: MakePool) -> None:
    pool = pool_with(a_pool, Quotas(each=limited(host_cpu_milli=8000)))
    held = pool.hold(beside(6), owner="ann")
    waits = pool.request(beside(4), owner="ann")
    assert pool.state(waits) is S.QUEUED
    said = "the quota of ann allows 8 cores beside devices at once, and 6 is held"
    assert said in pool.pool.reason(waits)
    assert pool.state(pool.request(beside(8), owner="bob")) is S.ATTACHING
    pool.end(held)
    assert pool.state(waits) is S.ATTACHING


def test_who_asks_for_none_is_not_kept(a_pool: MakePool) -> None:
    pool = pool_with(a_pool, Quotas(each=limited(host_cpu_milli=8000, host_memory_bytes=8 * GIB)))
    pool.hold(beside(8, 8), owner="ann")
    assert pool.state(pool.request(a_want(250), owner="ann")) is S.ATTACHING
    cpu = a_want(500, memory_bytes=64 * GIB, kind=DeviceKind.CPU)
    assert pool.state(pool.request(cpu, owner="ann")) is S.ATTACHING


@pytest.mark.parametrize(
    ("want", "message", "hint"),
    [
        (beside(17), "“course” allows 16 cores beside devices at once, and 0 is held", "at most 16 cores;"),
        (beside(0, 65), "“lab” allows 64.0 GiB of main memory", "at most 64.0 GiB of main memory;"),
        (beside(13), "quota of ann allows 12 cores", "at most 12 cores;"),
    ],
)
def test_what_can_never_be_allowed_names_the_limit_whose_it_is_and_what_fits(
    a_pool: MakePool, want: Want, message: str, hint: str
) -> None:
    inner, outer = limited(host_cpu_milli=16_000), limited(host_memory_bytes=64 * GIB)
    each = limited(host_cpu_milli=12_000) if "ann" in message else Rules()
    pool = pool_with(a_pool, two_levels(inner, outer, each))
    with pytest.raises(QuotaExceeded) as refused:
        pool.request(want, owner="ann")
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_the_sum_over_a_group_and_the_group_above_counts(a_pool: MakePool) -> None:
    quotas = two_levels(limited(host_cpu_milli=16_000), limited(host_memory_bytes=64 * GIB), Rules())
    pool = pool_with(a_pool, quotas)
    pool.hold(beside(10, 40), owner="ann")
    with pytest.raises(
        QuotaExceeded, match="“course” allows 16 cores beside devices at once, and 10 is held"
    ):
        pool.request(beside(8), owner="bob", wait_ms=0)
    with pytest.raises(QuotaExceeded) as refused:
        pool.request(beside(1, 32), owner="bob", wait_ms=0)
    assert (
        "“lab” allows 64.0 GiB of main memory beside devices at once, and 40.0 GiB" in refused.value.message
    )
    assert refused.value.hint.startswith("Ask for at most 24.0 GiB of main memory;")


def test_at_most_trims_to_what_is_left(a_pool: MakePool) -> None:
    pool = pool_with(a_pool, Quotas(each=limited(host_cpu_milli=8000, host_memory_bytes=16 * GIB)))
    pool.hold(beside(6), owner="ann")
    trimmed = pool.lease(pool.request(beside(8, 64, at_most=True), owner="ann"))
    assert trimmed.state is S.ATTACHING
    assert (trimmed.want.host_cpu_milli, trimmed.want.host_memory_bytes) == (2000, 16 * GIB)


def test_what_goes_with_a_gpu_by_configuration_counts_too(a_pool: MakePool) -> None:
    config = PoolConfig(host_cpu_milli=8000, quotas=Quotas(each=limited(host_cpu_milli=8000)))
    pool = a_pool(*NODE, config=config)
    pool.hold(a_want(500), owner="ann")
    pool.hold(a_want(500), owner="ann")
    assert pool.state(pool.request(a_want(500), owner="ann")) is S.QUEUED


def test_no_interleaving_of_requests_and_ends_exceeds_a_limit(a_pool: MakePool) -> None:
    quotas = two_levels(limited(host_cpu_milli=10_000), limited(host_memory_bytes=20 * GIB), Rules())
    pool, chance = pool_with(a_pool, quotas), random.Random(7)
    for step in range(200):
        live = [it.id for it in pool.pool.leases.values() if it.state in (S.QUEUED, S.ATTACHING)]
        if live and chance.random() < 0.45:
            pool.release(chance.choice(live))
        else:
            want = beside(chance.randint(0, 6), chance.randint(0, 12), at_most=chance.random() < 0.5)
            pool.request(want, owner=chance.choice(["ann", "bob"]), key=str(step))
        held = [it.want for it in pool.pool.leases.values() if it.state in HOLDING]
        assert sum(it.host_cpu_milli for it in held) <= 10_000
        assert sum(it.host_memory_bytes for it in held) <= 20 * GIB
        pool.advance(1000)
