"""Water, fading and weeks: the arithmetic of quotas."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpupool.core.quotas.fading import faded
from jupyter_gpupool.core.quotas.water import Claim, Vessel
from jupyter_gpupool.core.quotas.weeks import week_of

HOUR_MS = 3_600_000


def shared(available: int, *claims: Claim) -> list[int]:
    """Share an amount out among claims."""
    vessel = Vessel()
    for claim in claims:
        vessel.replace(None, claim)
    level = vessel.level(available)
    return [level.share(claim) for claim in claims]


def test_the_surplus_is_shared_by_weight() -> None:
    assert shared(4000, Claim(0, 9000, 1000), Claim(0, 9000, 3000)) == [1000, 3000]


def test_who_asks_for_less_leaves_the_rest_to_the_others() -> None:
    assert shared(4000, Claim(0, 500, 1000), Claim(0, 9000, 1000), Claim(0, 9000, 1000)) == [500, 1750, 1750]


def test_what_is_deserved_comes_before_any_surplus() -> None:
    assert shared(4000, Claim(3000, 0, 1000), Claim(0, 4000, 9000)) == [3000, 1000]


def test_where_less_is_there_than_deserved_everybody_gets_the_same_part() -> None:
    assert shared(2000, Claim(3000, 0, 1000), Claim(1000, 500, 1000)) == [1500, 500]


def test_where_enough_is_there_everybody_gets_what_is_asked() -> None:
    assert shared(4000, Claim(0, 1500, 1000), Claim(500, 500, 1000)) == [1500, 1000]


def test_a_claim_that_is_taken_out_leaves_nothing_behind() -> None:
    vessel = Vessel()
    one, two = Claim(100, 900, 1000), Claim(0, 5000, 500)
    vessel.replace(None, one)
    vessel.replace(None, two)
    assert vessel.level(2000).share(two) == 1000
    vessel.replace(one, None)
    assert vessel.level(2000).share(two) == 2000
    vessel.replace(two, None)
    assert (vessel.base, vessel.weight) == (0, 0)


def test_usage_halves_with_each_half_life() -> None:
    assert faded(10**12, 0, HOUR_MS, HOUR_MS) == pytest.approx(5 * 10**11, abs=2)
    assert faded(10**12, 0, 3 * HOUR_MS, HOUR_MS) == pytest.approx(125 * 10**9, abs=2)
    assert faded(10**12, 0, HOUR_MS // 2, HOUR_MS) == pytest.approx(10**12 * 0.5**0.5, rel=1e-7)


def test_usage_of_what_is_held_for_ever_has_a_bound() -> None:
    bound = 1000 * HOUR_MS / 0.6931471805599453
    assert faded(0, 1000, 1000 * HOUR_MS, HOUR_MS) == pytest.approx(bound, rel=1e-9)
    assert faded(0, 1000, 1000, HOUR_MS) == pytest.approx(1000 * 1000, rel=1e-3)


def test_usage_does_not_depend_on_when_it_was_looked_at() -> None:
    once = faded(10**12, 250, 10 * HOUR_MS, 4 * HOUR_MS)
    used = 10**12
    for _ in range(1000):
        used = faded(used, 250, HOUR_MS // 100, 4 * HOUR_MS)
    assert used == pytest.approx(once, rel=1e-6)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "UTC"])
def test_a_week_begins_on_monday_at_midnight_where_people_are(zone: str) -> None:
    there = ZoneInfo(zone)
    noon = int(datetime(2026, 3, 25, 12, tzinfo=UTC).timestamp()) * 1000
    week = week_of(noon, there)
    start = datetime.fromtimestamp(week.start_ms / 1000, there)
    assert (start.weekday(), start.hour, start.minute) == (0, 0, 0)
    assert week.start_ms <= noon < week.end_ms
    assert week_of(week.end_ms, there).start_ms == week.end_ms
    assert week_of(week.end_ms - 1, there) == week


def test_the_week_in_which_clocks_go_forward_is_an_hour_short() -> None:
    week = week_of(int(datetime(2026, 3, 25, tzinfo=UTC).timestamp()) * 1000, ZoneInfo("Europe/Berlin"))
    assert week.end_ms - week.start_ms == 167 * HOUR_MS
