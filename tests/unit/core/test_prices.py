"""What a part of a device is worth."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.placement.demand import Demand, DemandBook, demand_of, stranded
from jupyter_gpupool.core.placement.prices import worth_table
from jupyter_gpupool.core.placement.rooms import Ask, Room
from jupyter_gpupool.core.policies.score.bid_price import bid_price
from jupyter_gpupool.core.policies.score.fgd import fgd, fragmentation
from jupyter_gpupool.core.policies.score.strand import strand

#: Sizes that people really asked for, by how often (the shares of a public trace).
SIZES = {1000: 4355, 810: 1078, 470: 750, 320: 328, 650: 253, 230: 140, 460: 128, 590: 75, 160: 74, 550: 72}


def test_without_requests_a_part_is_worth_its_size() -> None:
    worth = worth_table({})
    assert [worth[milli] for milli in (0, 250, 810, 1000)] == [0, 0.25, 0.81, 1]


@pytest.mark.parametrize(
    ("milli", "value"),
    [(160, 0), (460, 1 / 2), (470, 1 / 2), (810, 1), (1000, 1)],
)
def test_a_size_costs_what_it_displaces(milli: int, value: float) -> None:
    assert worth_table(SIZES)[milli] == pytest.approx(value, abs=1e-6)


def test_two_halves_share_a_device_where_halves_are_what_is_asked_for() -> None:
    worth = worth_table({500: 10})
    assert (worth[499], worth[500], worth[999], worth[1000]) == (0, 0.5, 0.5, 1)


def test_a_device_whose_cores_are_taken_is_stranded() -> None:
    room = Room("A100", 8_000, 0, (1000, 1000, 500))
    assert stranded(room, cores_per_device=8.0) == pytest.approx(1.5)
    assert stranded(room, cores_per_device=2.0) == 0
    assert stranded(room, cores_per_device=0.0) == 0


def test_scarce_models_are_left_to_those_who_insist_on_them() -> None:
    capacity = {"A100": 1, "T4": 9}
    insisting = [Ask(1000, 0, 1, 1000, ("A100",))] * 5
    demand = demand_of([*insisting, *[Ask(1000, 0, 1, 1000)] * 5], capacity)
    assert demand.pressure["A100"] == 1.0
    assert demand.pressure["T4"] == 0.0
    free = Ask(1000, 0, 1, 1000)
    rare, common = Room("A100", 64_000, 0, (1000,)), Room("T4", 64_000, 0, (1000,))
    assert bid_price(free, rare, demand).score < bid_price(free, common, demand).score
    assert bid_price(insisting[0], rare, demand).score == bid_price(insisting[0], common, demand).score


def test_without_statistics_bid_prices_are_strand() -> None:
    ask, room = Ask(1000, 0, 1, 470), Room("T4", 8000, 0, (530, 1000))
    assert bid_price(ask, room, Demand()) == strand(ask, room, Demand())


def test_a_share_goes_where_it_spoils_least() -> None:
    demand = demand_of(
        [Ask(0, 0, 1, milli) for milli, times in SIZES.items() for _ in range(times)], {"T4": 2}
    )
    assert bid_price(Ask(0, 0, 1, 190), Room("T4", 0, 0, (1000, 190)), demand).devices == (1,)


def test_fragmentation_is_what_typical_requests_cannot_use() -> None:
    typical = demand_of([Ask(4000, 0, 1, 500)] * 3 + [Ask(4000, 0, 1, 1000)], {"T4": 1}).typical
    assert fragmentation(Room("T4", 8000, 0, (1000, 400)), typical) == pytest.approx(400)
    assert fragmentation(Room("T4", 8000, 0, (600,)), typical) == pytest.approx(0.25 * 600)
    assert fragmentation(Room("T4", 1000, 0, (1000, 400)), typical) == pytest.approx(1400)


def test_fgd_takes_the_device_that_is_of_least_use_to_others() -> None:
    demand = demand_of([Ask(0, 0, 1, 1000)] * 3 + [Ask(0, 0, 1, 300)], {"T4": 2})
    assert fgd(Ask(0, 0, 1, 300), Room("T4", 0, 0, (1000, 400)), demand).devices == (1,)


def test_what_was_counted_can_be_written_down_and_taken_over() -> None:
    book, again = DemandBook({"T4": 2}), DemandBook({"T4": 2})
    due = [book.count(Ask(1000, 0, 1, milli)) for milli in (250, 500) for _ in range(50)]
    assert [number + 1 for number, now in enumerate(due) if now] == [50, 100]
    again.restore(book.rows())
    assert again.demand() == book.demand()
    assert again.demand().requests == 100
