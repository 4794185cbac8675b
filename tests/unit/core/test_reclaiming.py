"""Leases are taken back lazily: for who waits and is entitled, with notice, and never more than needed."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import IllegalTransition, QuotaExceeded
from jupyter_gpupool.core.leases import EndReason, LeaseState, Priority, Want
from jupyter_gpupool.core.quotas.model import Amount, Group, Quotas, Rules
from jupyter_gpupool.core.reclaim import LOOK_MS
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.pools import MakePool

MINUTE = 60_000
IDLE, NOTICE, RUN = 10 * MINUTE, MINUTE, 5 * MINUTE


def lazy(**changes: object) -> PoolConfig:
    return PoolConfig(**{"reclaim_idle_ms": IDLE, "notice_ms": NOTICE, "least_run_ms": 0, **changes})  # type: ignore[arg-type]


def does(pool: PoolDriver, lease_id: str, *, busy: bool = False, idle_ms: int = 0) -> None:
    pool.handle(ev.ActivitySeen(lease_id=lease_id, busy=busy, idle_ms=idle_ms, **pool.when))


def pin(pool: PoolDriver, lease_id: str, pinned: bool = True) -> None:
    pool.handle(ev.PinRequested(lease_id=lease_id, pinned=pinned, **pool.when))


def is_noticed(pool: PoolDriver, lease_id: str) -> bool:
    return pool.lease(lease_id).notice_ms is not None


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    return a_pool(a_device("cuda0"), config=lazy())


# --- idle ---------------------------------------------------------------------------------------


def test_an_idle_lease_is_told_and_then_taken_when_somebody_waits(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    waits = pool.request(250, owner="bob")
    pool.advance(IDLE)
    assert is_noticed(pool, held)
    assert "nothing has run here for 10 min. Run a cell to keep it." in pool.lease(held).notice_detail
    assert "bob" not in pool.lease(held).notice_detail
    pool.advance(NOTICE - 1)
    assert pool.state(held) is LeaseState.ACTIVE
    pool.advance(1)
    assert (pool.state(held), pool.lease(held).end_reason) == (LeaseState.ENDING, EndReason.RECLAIMED)
    assert pool.lease(held).end_detail.startswith("taken back: somebody waits")
    pool.detach(held)
    assert pool.state(waits) is LeaseState.ATTACHING


def test_an_idle_lease_is_left_alone_when_nobody_waits(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pool.advance(100 * IDLE)
    assert not is_noticed(pool, held)
    assert pool.pool.next_deadline_ms() is None


def test_a_lease_of_which_nothing_is_known_is_not_idle(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    pool.request(250, owner="bob")
    pool.advance(100 * IDLE)
    assert not is_noticed(pool, held)


def test_a_notice_is_withdrawn_when_the_holder_does_something(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(IDLE)
    does(pool, held, busy=True)
    assert not is_noticed(pool, held)
    does(pool, held)
    pool.advance(IDLE - 1)
    assert not is_noticed(pool, held)
    pool.advance(1)
    assert is_noticed(pool, held)


@pytest.mark.parametrize("how", ["cancelled", "served"])
def test_a_notice_is_withdrawn_when_nobody_waits_any_more(pool: PoolDriver, how: str) -> None:
    small, held = pool.hold(250), pool.hold(750)
    does(pool, held)
    does(pool, small, busy=True)
    waits = pool.request(250, owner="bob")
    pool.advance(IDLE)
    assert is_noticed(pool, held)
    if how == "cancelled":
        pool.release(waits)
    else:
        pool.end(small)
        assert pool.state(waits) is LeaseState.ATTACHING
    assert not is_noticed(pool, held)


def test_only_as_many_are_taken_as_are_needed_and_those_idle_longest(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    held = [pool.hold(250) for _ in range(4)]
    for number, lease_id in enumerate(held):
        does(pool, lease_id, idle_ms=0)
        pool.advance(MINUTE if number < 3 else 0)
    pool.request(500, owner="bob")
    pool.advance(IDLE)
    assert [is_noticed(pool, it) for it in held] == [True, True, False, False]


def test_two_who_wait_are_planned_for_at_once(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda1"), config=lazy())
    held = [pool.hold(1000), pool.hold(1000)]
    for lease_id in held:
        does(pool, lease_id)
    waits = [pool.request(1000, owner="bob"), pool.request(1000, owner="cyd")]
    pool.advance(IDLE + NOTICE)
    for lease_id in held:
        pool.detach(lease_id)
    assert {pool.state(it) for it in waits} == {LeaseState.ATTACHING}


def test_while_the_room_is_on_its_way_nobody_else_is_told(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    first, second = pool.hold(500), pool.hold(500)
    does(pool, first, idle_ms=0)
    does(pool, second, idle_ms=0)
    pool.request(500, owner="bob")
    pool.advance(IDLE + NOTICE)
    ending = [it for it in (first, second) if pool.state(it) is LeaseState.ENDING]
    pool.advance(20_000)
    assert len(ending) == 1
    assert not any(is_noticed(pool, it) for it in {first, second} - {*ending})


def test_a_lease_is_never_taken_within_its_minimum_run_time(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(reclaim_idle_ms=MINUTE, least_run_ms=RUN))
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(RUN - 1)
    assert not is_noticed(pool, held)
    pool.advance(1)
    assert is_noticed(pool, held)


def test_who_was_just_served_is_not_taken_for_who_was_taken(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    waits = pool.request(1000, owner="bob")
    pool.advance(IDLE + NOTICE)
    pool.detach(held)
    pool.attach(waits)
    does(pool, waits, busy=True)
    pool.request(1000, owner="ann")
    pool.advance(100 * IDLE)
    assert pool.state(waits) is LeaseState.ACTIVE
    assert not is_noticed(pool, waits)


def test_another_notebook_of_the_same_owner_counts_as_somebody_who_waits(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250)
    pool.advance(IDLE)
    assert pool.lease(held).notice_detail.startswith("another request of yours waits")


def test_all_devices_of_a_gang_are_freed_together(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device(f"cuda{number}") for number in range(3)), config=lazy())
    held = [pool.hold(1000) for _ in range(3)]
    for lease_id in held[:2]:
        does(pool, lease_id)
        pool.advance(MINUTE)
    gang = pool.request(Want(compute_milli=1000, count=2), owner="bob")
    pool.advance(IDLE - MINUTE)
    assert [is_noticed(pool, it) for it in held] == [True, True, False]
    pool.advance(NOTICE)
    for lease_id in held[:2]:
        pool.detach(lease_id)
    assert len(pool.lease(gang).shares) == 2


def test_nothing_is_taken_where_reclaim_is_off(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(reclaim_idle_ms=None))
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(100 * IDLE)
    assert not is_noticed(pool, held)


def test_what_is_idle_for_very_long_is_taken_though_nobody_waits(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(release_idle_ms=6 * IDLE))
    held, kept = pool.hold(250), pool.hold(250)
    does(pool, held)
    does(pool, kept, busy=True)
    pool.advance(6 * IDLE)
    assert is_noticed(pool, held)
    pool.advance(NOTICE)
    assert pool.lease(held).end_reason is EndReason.RECLAIMED
    assert pool.state(kept) is LeaseState.ACTIVE


def test_after_a_restart_of_the_service_what_is_unknown_again_is_not_taken(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(IDLE)
    assert is_noticed(pool, held)
    pool.restart()
    pool.join(holders=[pool.seen(held)])
    pool.advance(2 * NOTICE)
    assert pool.state(held) is LeaseState.ACTIVE
    assert not is_noticed(pool, held)
    does(pool, held, idle_ms=IDLE)
    pool.advance(NOTICE - 1)
    assert pool.state(held) is LeaseState.ACTIVE, "a new notice is a whole one"
    pool.advance(1)
    assert pool.state(held) is LeaseState.ENDING


def test_nothing_is_taken_while_the_journal_cannot_be_written(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(LOOK_MS)
    pool.handle(ev.JournalFailed(**pool.when))
    pool.advance(2 * IDLE)
    assert not is_noticed(pool, held)
    pool.handle(ev.JournalRecovered(**pool.when))
    assert is_noticed(pool, held)


# --- pins ---------------------------------------------------------------------------------------


def test_a_pinned_lease_is_kept_until_it_is_unpinned(pool: PoolDriver) -> None:
    held = pool.hold(1000)
    does(pool, held)
    pin(pool, held)
    pool.request(250, owner="bob")
    pool.advance(3 * IDLE)
    assert not is_noticed(pool, held)
    pin(pool, held, pinned=False)
    assert is_noticed(pool, held)
    pin(pool, held)
    assert not is_noticed(pool, held)


def test_a_pin_that_the_quota_does_not_allow_is_refused(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=Quotas(each=Rules(pins=1))))
    first, second = pool.hold(250), pool.hold(250)
    pin(pool, first)
    with pytest.raises(QuotaExceeded):
        pin(pool, second)
    pin(pool, first, pinned=False)
    pin(pool, second)


def test_a_pin_counts_only_while_the_quota_allows_pins(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    held = pool.hold(1000)
    pin(pool, held)
    pool.config = lazy(quotas=Quotas(each=Rules(pins=0)))
    pool.restart()
    pool.join(holders=[pool.seen(held)])
    does(pool, held)
    pool.request(250, owner="bob")
    pool.advance(IDLE)
    assert is_noticed(pool, held)


def test_only_what_is_held_can_be_pinned(pool: PoolDriver) -> None:
    pool.hold(1000)
    with pytest.raises(IllegalTransition):
        pin(pool, pool.request(250))


# --- in use -------------------------------------------------------------------------------------


def deserving(owner: str = "bob", milli: int = 500) -> Quotas:
    return Quotas(owners={owner: Rules(deserved_milli=Amount.each(milli))})


def test_what_is_in_use_is_taken_for_an_owner_who_has_less_than_they_deserve(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=deserving()))
    held = pool.hold(1000)
    does(pool, held, busy=True)
    pool.request(500, owner="bob")
    assert is_noticed(pool, held)
    assert "who has less than they deserve" in pool.lease(held).notice_detail
    does(pool, held)
    does(pool, held, busy=True)
    assert is_noticed(pool, held), "doing something keeps only what was idle"
    pool.advance(NOTICE)
    assert pool.lease(held).end_reason is EndReason.RECLAIMED


@pytest.mark.parametrize(
    ("quotas", "milli"),
    [
        (Quotas(), 500),
        (deserving(milli=400), 500),
        (deserving("ann", 1000), 500),
        (Quotas(each=Rules(deserved_milli=Amount.each(1000))), 500),
    ],
    ids=["nobody deserves more", "beyond what is deserved", "the other deserves it", "both deserve it"],
)
def test_what_is_in_use_is_kept(a_pool: MakePool, quotas: Quotas, milli: int) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=quotas))
    held = pool.hold(1000)
    does(pool, held, busy=True)
    pool.request(milli, owner="bob")
    pool.advance(10 * IDLE)
    assert not is_noticed(pool, held)


def test_an_idle_lease_within_what_its_owner_deserves_is_kept(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=deserving("ann", 750)))
    held = [pool.hold(250) for _ in range(4)]
    for lease_id in held:
        does(pool, lease_id)
    more = pool.request(500, owner="bob")
    pool.advance(10 * IDLE)
    assert not any(is_noticed(pool, it) for it in held)
    pool.release(more)
    pool.request(250, owner="bob")
    pool.advance(LOOK_MS)
    assert sum(is_noticed(pool, it) for it in held) == 1


def test_a_group_keeps_what_it_deserves(a_pool: MakePool) -> None:
    course = Group(
        name="course", rules=Rules(deserved_milli=Amount.each(1000)), owners=frozenset({"ann", "bob"})
    )
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=Quotas(groups=(course,))))
    held = pool.hold(1000)
    does(pool, held)
    stranger = pool.request(250, owner="cyd")
    pool.advance(IDLE)
    assert not is_noticed(pool, held)
    pool.release(stranger)
    pool.request(250, owner="bob")  # within the group it stays within the group
    pool.advance(IDLE)
    assert is_noticed(pool, held)


def urgent(milli: int) -> Want:
    return Want(compute_milli=milli, priority=Priority.HIGH)


def test_a_higher_class_takes_from_who_has_more_than_a_fair_share(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    held = [pool.hold(500), pool.hold(500)]
    pool.request(urgent(500), owner="bob")
    assert sum(is_noticed(pool, it) for it in held) == 1


def test_a_higher_class_does_not_take_more_than_a_fair_share(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    held = [pool.hold(500), pool.hold(500)]
    pool.request(urgent(1000), owner="bob")
    pool.advance(IDLE)
    assert not any(is_noticed(pool, it) for it in held)


def test_a_high_priority_cannot_keep_a_device_for_ever(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy())
    held = [pool.hold(urgent(500)), pool.hold(urgent(500))]
    pool.request(urgent(500), owner="bob")
    assert not any(is_noticed(pool, it) for it in held)
    pool.advance(61 * MINUTE)
    assert sum(is_noticed(pool, it) for it in held) == 1


def test_nothing_in_use_is_taken_where_that_is_off(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(quotas=deserving(), preempt=False))
    held = pool.hold(1000)
    pool.request(urgent(500), owner="bob")
    pool.advance(10 * IDLE)
    assert not is_noticed(pool, held)


def test_an_unknown_policy_is_named_with_those_that_exist() -> None:
    from jupyter_gpupool.core.policies.evictions import evict_policy

    with pytest.raises(Exception, match="longest_idle, most_over, newest"):
        evict_policy("random")


def test_without_a_grace_period_there_is_still_a_notice_first(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), config=lazy(notice_ms=0))
    held = pool.hold(1000)
    does(pool, held)
    pool.request(a_want(250), owner="bob")
    pool.advance(IDLE)
    assert pool.lease(held).end_reason is EndReason.RECLAIMED
    assert pool.lease(held).notice_ms == IDLE


def test_the_same_events_lead_to_the_same_effects(a_pool: MakePool) -> None:
    def played() -> list[object]:
        pool = a_pool(*(a_device(f"cuda{it}") for it in range(4)), config=lazy(quotas=deserving()))
        seen: list[object] = []
        held = [pool.hold(500, owner="ann" if it % 2 else "cyd") for it in range(8)]
        for lease_id in held:
            does(pool, lease_id)
        for milli in (1000, 250, 500):
            pool.request(milli, owner="bob" if milli == 500 else "dan")
        for _ in range(4):
            pool.advance(IDLE)
            seen += pool.journal.rows.values()
        return seen

    assert played() == played()
