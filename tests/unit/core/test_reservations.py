"""Devices that are reserved for a group and a time: kept free from others who would run into it."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpupool.core.causes import Cause
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import DoesNotFitNow, InvalidValue
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.core.quotas import Group, Quotas
from jupyter_gpupool.core.reservations import Reserved, describe_times
from jupyter_gpupool.testing import PoolDriver, a_device
from tests.support.pools import MakePool

MINUTE = 60_000
HOUR = 60 * MINUTE
BERLIN = ZoneInfo("Europe/Berlin")
#: The driver's time begins on Tuesday, 14 November 2023, 22:13:20 UTC: 23:13:20 in Berlin.
WEDNESDAY = 2


def a_class(**fields: object) -> Reserved:
    """Reserve two devices on Wednesday from 00:13 to 02:13, one hour after the driver begins."""
    usual: dict[str, object] = {
        "name": "the class",
        "devices": 2,
        "group": "course",
        "weekdays": frozenset({WEDNESDAY}),
        "from_minute": 13,
        "to_minute": 133,
        "zone": BERLIN,
        "lead_ms": 2 * HOUR,
    }
    return Reserved(**(usual | fields))  # type: ignore[arg-type]


def a_pool_with(a_pool: MakePool, *reservations: Reserved, devices: int = 3) -> PoolDriver:
    quotas = Quotas(
        groups=(
            Group(name="course", owners=frozenset({"teacher"})),
            Group(name="lab", parent="course", owners=frozenset({"pupil"})),
        )
    )
    config = PoolConfig(quotas=quotas, reservations=reservations)
    return a_pool(*(a_device(f"cuda{it}") for it in range(devices)), config=config)


def wall(zone: ZoneInfo, *when: int) -> int:
    return int(datetime(*when, tzinfo=zone).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_others_who_would_run_into_it_wait_and_are_told_why(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(1000, owner="bob")
    waits = pool.request(500, owner="ann")
    why = pool.pool.why(waits, pool.now_ms)
    assert why.cause is Cause.POLICY
    assert (
        "2 CUDA devices are reserved for the class on Wed 15 Nov from 00:13 to 02:13 (Europe/Berlin); "
        "until then it could run with --for, 59 min at most" in why.reason
    )


def test_who_is_done_before_it_begins_is_granted(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(1000, owner="bob")
    brief = pool.request(1000, owner="ann", hold_ms=50 * MINUTE)
    long = pool.request(1000, owner="ann", hold_ms=70 * MINUTE)
    assert (pool.state(brief), pool.state(long)) == (LeaseState.ATTACHING, LeaseState.QUEUED)


def test_it_is_there_for_the_group_and_for_the_groups_in_it(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(1000, owner="bob")
    pool.advance(90 * MINUTE)
    waits = pool.request(1000, owner="ann")
    for owner in ("teacher", "pupil"):
        assert pool.state(pool.request(1000, owner=owner)) is LeaseState.ATTACHING
    assert pool.state(waits) is LeaseState.QUEUED


def test_who_shares_a_device_that_is_lost_to_it_anyway_is_granted(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(500, owner="bob")
    assert pool.state(pool.request(500, owner="ann")) is LeaseState.ATTACHING
    assert pool.state(pool.request(500, owner="ann")) is LeaseState.QUEUED


def test_when_it_is_over_who_waited_is_granted_by_itself(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(1000, owner="bob")
    waits = pool.request(1000, owner="ann")
    pool.advance(170 * MINUTE)
    assert pool.state(waits) is LeaseState.QUEUED
    pool.advance(10 * MINUTE)
    assert pool.state(waits) is LeaseState.ATTACHING


def test_long_before_it_begins_leases_without_an_end_are_granted(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class(lead_ms=30 * MINUTE))
    for _ in range(3):
        assert pool.state(pool.request(1000, owner="ann")) is LeaseState.ATTACHING


def test_nothing_is_taken_from_who_has_it(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class(lead_ms=30 * MINUTE))
    held = [pool.hold(1000, owner="ann") for _ in range(3)]
    pool.advance(90 * MINUTE)
    assert {pool.state(it) for it in held} == {LeaseState.ACTIVE}


def test_two_at_one_time_add_up_and_two_at_different_times_do_not(a_pool: MakePool) -> None:
    one, two = a_class(devices=1), a_class(devices=1, name="other", group="", owners=frozenset({"carl"}))
    pool = a_pool_with(a_pool, one, two)
    pool.hold(1000, owner="bob")
    assert pool.state(pool.request(1000, owner="ann")) is LeaseState.QUEUED
    later = a_class(
        devices=1, name="later", group="", owners=frozenset({"carl"}), from_minute=200, to_minute=260
    )
    pool = a_pool_with(a_pool, a_class(devices=1, lead_ms=9 * HOUR), later)
    pool.hold(1000, owner="bob")
    assert pool.state(pool.request(1000, owner="ann", hold_ms=8 * HOUR)) is LeaseState.ATTACHING


def test_who_would_not_wait_is_told_how_long_it_could_run(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    pool.hold(1000, owner="bob")
    with pytest.raises(DoesNotFitNow, match="reserved for the class"):
        pool.request(1000, owner="ann", wait_ms=0)


def test_a_gang_counts_with_all_its_devices(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    assert pool.state(pool.request(Want(compute_milli=1000, count=2), owner="ann")) is LeaseState.QUEUED
    assert pool.state(pool.request(Want(compute_milli=1000, count=2), owner="pupil")) is LeaseState.ATTACHING


def test_a_restart_forgets_nothing(a_pool: MakePool) -> None:
    pool = a_pool_with(a_pool, a_class())
    held = pool.hold(1000, owner="bob")
    pool.restart()
    pool.join(holders=[pool.seen(held)])
    assert pool.state(pool.request(1000, owner="ann")) is LeaseState.QUEUED


# --- the calendar ---------------------------------------------------------------------------------


def test_a_time_is_that_of_the_clocks_on_the_wall_whatever_is_done_to_them() -> None:
    sunday = a_class(weekdays=frozenset({6}), from_minute=9 * 60, to_minute=11 * 60)
    before, after = (wall(BERLIN, 2026, 10, day, 12) for day in (20, 26))
    for now, day in ((before, date(2026, 10, 25)), (after, date(2026, 11, 1))):
        times = sunday.times(now)
        assert times is not None
        assert times.day == day
        assert times.start_ms == wall(BERLIN, day.year, day.month, day.day, 9)
        assert times.end_ms - times.start_ms == 2 * HOUR
    spring = a_class(weekdays=frozenset({6}), from_minute=0, to_minute=24 * 60).times(
        wall(BERLIN, 2026, 3, 28)
    )
    assert spring is not None
    assert spring.end_ms - spring.start_ms == 23 * HOUR


def test_it_is_on_until_its_last_moment_and_then_it_is_next_week() -> None:
    what = a_class(from_minute=9 * 60, to_minute=11 * 60)
    end = wall(BERLIN, 2026, 12, 9, 11)
    now, then = what.times(end - 1), what.times(end)
    assert now is not None
    assert then is not None
    assert (now.day, then.day) == (date(2026, 12, 9), date(2026, 12, 16))


def test_one_that_is_once_is_over_for_good() -> None:
    once = a_class(weekdays=frozenset(), day=date(2026, 12, 8))
    assert once.times(wall(BERLIN, 2026, 12, 1)) is not None
    assert once.times(wall(BERLIN, 2026, 12, 9)) is None
    assert describe_times(once) == "on Tue 8 Dec from 00:13 to 02:13 (Europe/Berlin)"
    assert describe_times(a_class()) == "on Wednesday from 00:13 to 02:13 (Europe/Berlin)"


@pytest.mark.parametrize(
    "fields",
    [
        {"devices": 0},
        {"group": ""},
        {"from_minute": 133},
        {"to_minute": 1441},
        {"weekdays": frozenset()},
        {"weekdays": frozenset({7})},
        {"day": date(2026, 12, 8)},
    ],
)
def test_what_means_nothing_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        a_class(**fields)
