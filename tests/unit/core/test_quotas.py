"""Quotas on a pool: checked on every grow, on the sum over owners and groups, in the turn that decides."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, QuotaExceeded
from jupyter_gpupool.core.leases import HOLDING, Lease, LeaseState, Priority, Want
from jupyter_gpupool.core.quotas import Amount, Group, Limits, Quotas, Rules
from jupyter_gpupool.core.quotas.model import DEFAULT
from jupyter_gpupool.testing import GIB, PoolDriver, a_device
from tests.support.books import DEVICE_HOUR, HOUR_MS
from tests.support.pools import MakePool

CUDA = [a_device(f"cuda{n}", kind=DeviceKind.CUDA, memory_bytes=40 * GIB) for n in range(4)]
#: Quotas, and the name of an order unless it is the fair one.
PoolWith = Callable[..., PoolDriver]
QUEUED, ATTACHING = LeaseState.QUEUED, LeaseState.ATTACHING


def limited(**limits: object) -> Rules:
    """Make rules that only limit."""
    return Rules(limits=Limits(**limits))  # type: ignore[arg-type]


def at_once(milli: int) -> Rules:
    """Limit the compute that is held at once."""
    return limited(compute_milli=Amount.each(milli))


def a_course(rules: Rules, each: Rules = DEFAULT) -> Quotas:
    """Make quotas with one group of two owners."""
    return Quotas(groups=(Group(name="course", rules=rules, each=each, owners=frozenset({"ann", "bob"})),))


@pytest.fixture
def pool_with(a_pool: MakePool) -> PoolWith:
    """Make pools of four GPUs with quotas."""
    return lambda quotas, order="fair": a_pool(*CUDA, config=PoolConfig(quotas=quotas, order=order))


def want(milli: int, **more: object) -> Want:
    """Want a part of a GPU."""
    return Want(compute_milli=milli, kind=DeviceKind.CUDA, **more)  # type: ignore[arg-type]


def test_what_would_fit_later_waits_and_says_for_which_quota(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(owners={"ann": at_once(500)}))
    held = pool.hold(want(500))
    waits = pool.request(want(250))
    assert pool.state(waits) is QUEUED
    reason = pool.pool.reason(waits)
    assert "the quota of ann allows 0.5 of a CUDA device at once, and 0.5 is held" in reason
    pool.end(held)
    assert pool.state(waits) is ATTACHING


def test_what_a_quota_keeps_waiting_keeps_nobody_else_waiting(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(owners={"ann": at_once(500)}), "fifo")
    pool.hold(want(500))
    assert pool.state(pool.request(want(250))) is QUEUED
    assert pool.state(pool.request(want(1000), owner="bob")) is ATTACHING


def test_what_can_never_be_allowed_is_refused_at_once_with_what_could(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(at_once(2000), each=at_once(500)))
    with pytest.raises(QuotaExceeded) as refused:
        pool.request(want(750))
    assert refused.value.message == "The quota of ann allows 0.5 of a CUDA device at once, and 0 is held."
    assert refused.value.hint == "Ask for at most 0.5; an administrator of the pool can raise it."
    assert not pool.pool.leases


def test_who_would_not_wait_is_told_the_quota(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(at_once(1000)))
    pool.hold(want(750))
    with pytest.raises(QuotaExceeded) as refused:
        pool.request(want(500), owner="bob", wait_ms=0)
    assert "group “course” allows 1 CUDA device at once, and 0.75 is held" in refused.value.message
    assert refused.value.hint.startswith("Ask for at most 0.25;")


def test_the_sum_over_a_group_counts(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(at_once(1000)))
    pool.hold(want(750))
    assert pool.state(pool.request(want(500), owner="bob")) is QUEUED
    assert pool.state(pool.request(want(500), owner="eve")) is ATTACHING


def test_memory_is_limited_also_where_none_was_named(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=limited(memory_bytes=Amount.each(15 * GIB))))
    pool.hold(want(250))  # 10 GiB
    waits = pool.request(want(250))
    assert pool.state(waits) is QUEUED
    assert pool.state(pool.request(want(250, memory_bytes=5 * GIB))) is ATTACHING
    with pytest.raises(QuotaExceeded, match=r"15\.0 GiB of CUDA memory at once, and 15\.0 GiB is held"):
        pool.request(want(500))


def test_the_number_of_leases_is_limited(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=limited(leases=2)))
    for _ in range(2):
        pool.hold(want(100))
    waits = pool.request(want(100))
    assert "allows 2 leases at once, and 2 are held" in pool.pool.reason(waits)


def test_hours_of_a_week_are_limited_and_begin_anew_on_monday(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=limited(week_milli_ms=Amount.each(2 * DEVICE_HOUR))))
    held = pool.hold(want(1000))
    pool.advance(2 * HOUR_MS)
    pool.end(held)
    waits = pool.request(want(100))
    assert "allows 2.0 CUDA device-hours a week, and 2.0 are used" in pool.pool.reason(waits)
    with pytest.raises(QuotaExceeded) as refused:
        pool.request(want(100), wait_ms=0)
    assert "It begins anew on Monday" in refused.value.hint
    pool.advance(6 * 24 * HOUR_MS)
    # the driver's clock begins on Tuesday, 14 November 2023, at 22:13:20 UTC
    assert pool.lease(waits).granted_ms == 438_400_000


def test_a_grow_is_checked_and_a_shrink_is_not(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(at_once(1000)))
    held = pool.hold(want(500, device="cuda0"))
    pool.hold(want(500, device="cuda1"), owner="bob")
    with pytest.raises(QuotaExceeded, match="“course” allows 1 CUDA device at once, and 1 is held"):
        pool.resize(held, 750)
    pool.resize(held, 250)
    pool.apply(held)
    assert pool.state(pool.request(want(250))) is ATTACHING


def test_until_a_smaller_size_is_in_force_the_larger_one_counts(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=at_once(1000)))
    held = pool.hold(want(1000))
    pool.resize(held, 500)
    waits = pool.request(want(500))
    assert pool.state(waits) is QUEUED
    pool.apply(held)
    assert pool.state(waits) is ATTACHING


@pytest.mark.parametrize(
    ("asked", "count", "got", "devices"),
    [(1000, 1, 500, 1), (250, 1, 250, 1), (250, 4, 250, 2), (1000, 4, 500, 1)],
)
def test_at_most_takes_what_is_left(
    pool_with: PoolWith, asked: int, count: int, got: int, devices: int
) -> None:
    pool = pool_with(Quotas(each=at_once(1000)))
    pool.hold(want(500))
    lease = pool.lease(pool.request(want(asked, count=count, at_most=True)))
    assert lease.state is ATTACHING
    assert (lease.want.compute_milli, len(lease.shares)) == (got, devices)


def test_at_most_keeps_within_memory_that_was_not_named(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=limited(memory_bytes=Amount.each(10 * GIB))))
    lease = pool.lease(pool.request(want(1000, at_most=True)))
    assert lease.state is ATTACHING
    assert lease.shares[0].memory_bytes <= 10 * GIB


def test_at_most_waits_where_nothing_is_left_now(pool_with: PoolWith) -> None:
    pool = pool_with(Quotas(each=at_once(500)))
    held = pool.hold(want(500))
    waits = pool.request(want(1000, at_most=True))
    assert pool.state(waits) is QUEUED
    pool.end(held)
    assert pool.lease(waits).shares[0].compute_milli == 500


def test_a_priority_that_is_not_allowed_is_refused(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(Rules(priorities=frozenset({Priority.LOW, Priority.NORMAL}))))
    with pytest.raises(QuotaExceeded, match=r"high is not for group “course”.* allows low and normal"):
        pool.request(want(100, priority=Priority.HIGH))
    assert pool.state(pool.request(want(100, priority=Priority.HIGH), owner="eve")) is ATTACHING


def test_a_restart_forgets_no_usage_and_no_limit(pool_with: PoolWith) -> None:
    pool = pool_with(a_course(at_once(1000)))
    pool.hold(want(750))
    pool.restart(down_ms=HOUR_MS)
    pool.join()
    assert pool.state(pool.request(want(500), owner="bob")) is QUEUED


@pytest.mark.parametrize("seed", range(8))
def test_no_interleaving_exceeds_a_quota(pool_with: PoolWith, seed: int) -> None:
    each = limited(compute_milli=Amount.each(1250), leases=3)
    group = limited(compute_milli=Amount.each(2000), memory_bytes=Amount.each(60 * GIB))
    pool = pool_with(a_course(group, each=each), "fair" if seed % 2 else "fifo")
    chance = random.Random(seed)
    for _ in range(150):
        pool.advance(chance.choice((0, 1000)))
        _one_step(pool, chance)
        held = [it for it in pool.pool.leases.values() if it.state in HOLDING]
        for owner in ("ann", "bob"):
            mine = [it for it in held if it.owner == owner]
            assert len(mine) <= 3
            assert sum(_taken(it) for it in mine) <= 1250
        assert sum(_taken(it) for it in held) <= 2000
        assert sum(share.memory_bytes for it in held for share in it.shares) <= 60 * GIB


def _taken(lease: Lease) -> int:
    taken = max(share.compute_milli for share in (*lease.shares, *lease.pending))
    return taken * lease.want.count


def _one_step(pool: PoolDriver, chance: random.Random) -> None:
    """Do something at random that may be refused."""
    live = list(pool.pool.leases)
    lease_id = chance.choice(live) if live else ""
    owner, size = chance.choice(("ann", "bob")), chance.randrange(50, 1001, 50)
    lease = pool.lease(lease_id) if lease_id else None
    try:
        match chance.randrange(6):
            case 0 | 1:
                asked = want(size, count=chance.choice((1, 1, 2)), at_most=chance.random() < 0.3)
                pool.request(asked, owner=owner)
            case 2 if lease is not None and lease.node_id:
                pool.attach(lease_id)
            case 3 if lease is not None:
                pool.resize(lease_id, size)
            case 4 if lease is not None and lease.pending:
                chance.choice((pool.apply, pool.refuse_limits))(lease_id)
            case _ if lease is not None:
                pool.end(lease_id)
    except GPUPoolError:
        return
