"""Why: position, who is in the way, policy or capacity, and for how long, probably."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.causes import Cause
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.core.quotas import Amount, Limits, Quotas, Rules
from jupyter_gpupool.core.why import Why
from jupyter_gpupool.testing import PoolDriver, a_device
from tests.support.pools import MakePool

MINUTE = 60_000


def why(pool: PoolDriver, lease_id: str) -> Why:
    return pool.pool.why(lease_id, pool.now_ms)


def practised(a_pool: MakePool, *devices: str, minutes: int = 10) -> PoolDriver:
    """Make a pool that has seen ten leases of ten minutes end."""
    pool = a_pool(*(a_device(it) for it in devices))
    for _ in range(10):
        lease_id = pool.hold(1000, owner="old")
        pool.advance(minutes * MINUTE)
        pool.end(lease_id)
    return pool


def test_who_is_first_is_told_who_is_in_the_way_and_until_when(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0", "cuda1")
    held = pool.hold(1000, hold_ms=30 * MINUTE)
    other = pool.hold(1000)
    pool.advance(4 * MINUTE)
    found = why(pool, pool.request(500, owner="bob"))
    assert (found.position, found.ahead, found.cause) == (1, 0, Cause.CAPACITY)
    assert found.waits_for == "0.5 of a CUDA device"
    assert [it.lease.id for it in found.blockers] == [other]
    assert held not in [it.lease.id for it in found.blockers]
    assert found.grant is not None
    assert found.grant.middle_ms == pool.now_ms + 6 * MINUTE
    assert not found.known
    assert any(it.startswith("Expected in 6 min (most likely") for it in found.sentences)


def test_what_everybody_said_is_no_guess(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    pool.hold(1000, hold_ms=30 * MINUTE)
    first = pool.request(1000, hold_ms=10 * MINUTE)
    second = pool.request(1000)
    for lease_id, minutes in ((first, 30), (second, 40)):
        found = why(pool, lease_id)
        assert found.grant is not None
        assert found.grant.middle_ms == pool.now_ms + minutes * MINUTE
        assert found.known
        assert any("at the latest" in it for it in found.sentences)


def test_where_nothing_is_known_nothing_is_guessed(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    pool.hold(1000)
    found = why(pool, pool.request(1000))
    assert found.grant is None
    assert found.sentences[-1].startswith("Nobody can tell when")


def test_those_ahead_are_granted_first_in_the_estimate(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0")
    pool.hold(1000)
    waiting = [pool.request(1000) for _ in range(3)]
    expected = [why(pool, it).grant for it in waiting]
    assert [it.middle_ms - pool.now_ms for it in expected if it is not None] == [
        10 * MINUTE,
        20 * MINUTE,
        30 * MINUTE,
    ]
    assert [why(pool, it).position for it in waiting] == [1, 2, 3]


def test_halves_share_a_device_in_the_estimate(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0")
    pool.hold(1000)
    waiting = [pool.request(500) for _ in range(3)]
    found = [why(pool, it).grant for it in waiting]
    assert [it.middle_ms - pool.now_ms for it in found if it is not None] == [
        10 * MINUTE,
        10 * MINUTE,
        20 * MINUTE,
    ]


def test_a_gang_waits_for_all_its_devices(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0", "cuda1")
    pool.hold(1000)
    pool.advance(3 * MINUTE)
    pool.hold(1000)
    found = why(pool, pool.request(Want(compute_milli=1000, count=2)))
    assert found.waits_for == "2 whole CUDA devices on one node"
    assert len(found.blockers) == 2
    assert found.grant is not None
    assert found.grant.middle_ms == pool.now_ms + 10 * MINUTE


def test_what_would_be_granted_now_is_named(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    pool.hold(750)
    pool.hold(1000)
    assert why(pool, pool.request(500)).would_fit == "0.25 of a CUDA device"
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    pool.hold(1000)
    gang = why(pool, pool.request(Want(compute_milli=1000, count=2)))
    assert gang.would_fit == "1 of a CUDA device"
    assert gang.sentences[-1] == "Granted now: 1 of a CUDA device."


def test_a_quota_is_policy_and_nobody_is_in_the_way(a_pool: MakePool) -> None:
    rules = Rules(limits=Limits(compute_milli=Amount.each(1000)))
    pool = a_pool(a_device("cuda0"), a_device("cuda1"), config=PoolConfig(quotas=Quotas(each=rules)))
    pool.hold(1000)
    found = why(pool, pool.request(500))
    assert found.cause is Cause.POLICY
    assert found.blockers == ()
    assert found.grant is None
    assert "limit" in found.reason or "quota" in found.reason


def test_a_pool_that_cannot_grant_anything_says_so(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    pool.hold(1000)
    lease_id = pool.request(1000)
    pool.leave()
    found = why(pool, lease_id)
    assert found.cause is Cause.POOL
    assert found.grant is None


def test_a_held_lease_says_what_happens_next_only(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    found = why(pool, pool.hold(500))
    assert found.cause is None
    assert found.sentences == (found.reason,)
    with pytest.raises(UnknownLease):
        why(pool, "lease_none")


def test_whether_waits_ended_when_it_was_said_is_counted(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0")
    assert pool.pool.accuracy == (0, 0)
    for minutes in (10, 10, 60):
        held = pool.hold(1000, owner="old")
        waits = pool.request(1000, owner="bob")
        assert why(pool, waits).grant is not None
        pool.advance(minutes * MINUTE)
        pool.end(held)
        assert pool.state(waits) is LeaseState.ATTACHING
        pool.release(waits)
        pool.detach(waits)
    assert pool.pool.accuracy == (3, 2)
    pool.hold(1000)
    said = why(pool, pool.request(1000)).sentences
    assert "Of the last 3 waits, 2 ended within what was told." in said


def test_what_was_told_first_counts_and_who_cancels_does_not(a_pool: MakePool) -> None:
    pool = practised(a_pool, "cuda0")
    held = pool.hold(1000, owner="old")
    kept, cancelled = pool.request(1000, owner="bob"), pool.request(1000, owner="bob")
    for lease_id in (kept, cancelled):
        why(pool, lease_id)
    pool.advance(30 * MINUTE)
    why(pool, kept)  # by now it is expected later: that does not help
    pool.release(cancelled)
    pool.end(held)
    assert pool.pool.accuracy == (1, 0)


def test_an_answer_is_quick_however_many_wait(a_pool: MakePool) -> None:
    pool = practised(a_pool, *(f"cuda{it}" for it in range(64)))
    for _ in range(64):
        pool.hold(1000)
    waiting = [pool.request(1000, owner=f"owner-{it % 7}") for it in range(300)]
    found = why(pool, waiting[-1])
    assert found.ahead == 299
    assert found.grant is not None
    assert found.grant.middle_ms == pool.now_ms + 50 * MINUTE
