"""The simulator plays what it is given, loses no request, and measures what a recount finds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.sim.compare import PLAIN, USUAL, parse_policy, play
from jupyter_gpupool.sim.engine import Engine, Habits
from jupyter_gpupool.sim.measures import Fragmentation, Meter, Played, Waits, jain, percentile
from jupyter_gpupool.sim.notebook_class import NotebookClass
from jupyter_gpupool.sim.pools import parse_pool
from jupyter_gpupool.sim.workload import HOUR_MS, MINUTE_MS, Person, Visit, Workload, batch, once

ONE = parse_pool("T4-16GB")
TWO = parse_pool("2*2xT4-16GB")
#: Nothing is ever taken back.
KEEPS = PoolConfig(order="fifo", reclaim_idle_ms=None, release_idle_ms=None, preempt=False)
QUARTER, WHOLE = Want(compute_milli=250), Want(compute_milli=1000)


def visits(*people: Person, horizon_ms: int = HOUR_MS) -> Workload:
    return Workload(name="some", people=people, horizon_ms=horizon_ms)


def test_who_comes_second_waits_until_the_first_has_gone() -> None:
    people = [once("ann", 0, WHOLE, 10 * MINUTE_MS), once("bob", 4 * MINUTE_MS, WHOLE, 5 * MINUTE_MS)]
    played = Engine(ONE, batch("two", people), KEEPS).run()
    assert played.requests.served == [0, 6 * MINUTE_MS]
    assert sorted(played.cells.served) == [0, 6 * MINUTE_MS]
    assert played.owners["bob"].waited_ms == 6 * MINUTE_MS
    assert played.counts.granted == played.counts.requests == 2


def test_a_share_is_kept_in_pauses_and_used_in_cells() -> None:
    cells = ((5 * MINUTE_MS, 10 * MINUTE_MS), (20 * MINUTE_MS, 5 * MINUTE_MS))
    played = Engine(ONE, visits(Person("ann", (Visit(0, QUARTER, cells, stay_ms=HOUR_MS),))), KEEPS).run()
    assert played.meter.held_hours == pytest.approx(0.25)
    assert played.meter.busy_hours == pytest.approx(0.25 * 15 / 60)
    assert played.cells.served == [0, 0]


def test_an_idle_kernel_is_culled_and_its_next_cell_asks_again() -> None:
    cells = ((0, 10 * MINUTE_MS), (40 * MINUTE_MS, 5 * MINUTE_MS))
    habits = Habits(cull_ms=20 * MINUTE_MS, resume_ms=MINUTE_MS)
    played = Engine(ONE, visits(Person("ann", (Visit(0, WHOLE, cells),))), KEEPS, habits).run()
    assert (played.counts.culled, played.counts.came_back, played.counts.requests) == (1, 1, 2)
    # the second cell takes a minute longer
    assert played.meter.held_hours == pytest.approx((30 + 6) / 60)
    assert played.owners["ann"].ran_ms == 16 * MINUTE_MS


def test_a_share_that_nobody_uses_is_taken_for_somebody_who_waits() -> None:
    idle = Person("ann", (Visit(0, WHOLE, (), stay_ms=10 * HOUR_MS),))
    waits = once("bob", 20 * MINUTE_MS, WHOLE, 5 * MINUTE_MS)
    config = parse_policy("order=fair,reclaim_idle_minutes=10,notice_seconds=60,least_run_minutes=0").config
    played = Engine(ONE, visits(idle, waits), config).run()
    assert (played.counts.taken, played.counts.taken_in_use) == (1, 0)
    assert played.counts.notices >= 1
    assert max(played.requests.served) <= 2 * MINUTE_MS
    assert played.counts.granted == 2


def test_a_share_that_nobody_uses_for_long_is_given_up_though_nobody_waits() -> None:
    idle = Person("ann", (Visit(0, WHOLE, (), stay_ms=10 * HOUR_MS),))
    config = parse_policy("release_idle_minutes=30,notice_seconds=60,least_run_minutes=0").config
    played = Engine(ONE, visits(idle), config).run()
    assert (played.counts.taken, played.counts.released_idle) == (0, 1)
    assert played.meter.held_hours == pytest.approx(31 / 60, abs=0.02)


def test_who_wants_what_never_fits_is_refused_and_comes_again_for_something_else() -> None:
    never = Visit(0, Want(compute_milli=250, device="cuda9"), ((0, MINUTE_MS),))
    played = Engine(ONE, visits(Person("ann", (never, Visit(0, WHOLE, ((0, MINUTE_MS),))))), KEEPS).run()
    assert (played.counts.refused, played.counts.granted) == (1, 1)
    assert played.counts.refusals == {"no_such_device": 1}
    assert played.cells.served == [0]


def test_who_has_no_patience_leaves_the_queue() -> None:
    people = [once("ann", 0, WHOLE, HOUR_MS), once("bob", MINUTE_MS, WHOLE, HOUR_MS, 5 * MINUTE_MS)]
    played = Engine(ONE, batch("two", people), KEEPS).run()
    assert (played.counts.granted, played.counts.cancelled) == (1, 1)
    assert played.requests.unserved == [5 * MINUTE_MS]


def test_who_still_waits_at_the_end_has_waited_until_then() -> None:
    people = [once("ann", 0, WHOLE, 9 * HOUR_MS), once("bob", HOUR_MS, WHOLE, HOUR_MS)]
    played = Engine(ONE, batch("two", people), KEEPS, drain_ms=2 * HOUR_MS).run()
    assert played.counts.unserved == 1
    (waited,) = played.requests.unserved
    assert waited == played.ended_ms - HOUR_MS
    assert played.cells.unserved == [waited]


def test_a_million_devices_and_none_are_described_alike() -> None:
    summary = Waits().summary()
    assert (summary.count, summary.within_1s, summary.p99_seconds) == (0, 1.0, 0)
    assert percentile([], 0.5) == 0
    assert jain([]) == jain([0.0, 0.0]) == 1
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert Fragmentation({}, [500]).part == Fragmentation({500: 1}).part == 0


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values: list[int], part: float) -> None:
    found = percentile(sorted(values), part)
    assert found in values
    assert sum(it <= found for it in values) >= part * len(values) - 1e-9
    assert sum(it < found for it in values) < part * len(values)


@given(
    st.dictionaries(st.integers(1, 1000), st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=5),
)
def test_fragmentation_is_what_the_sizes_could_not_use(
    sizes: dict[int, int], rooms: list[tuple[int, int]]
) -> None:
    asked = [size for size, times in sizes.items() for _ in range(times)]
    lost = sum(room for _, room in rooms for size in asked if size > room) / len(asked)
    total = sum(room for _, room in rooms)
    measured = Fragmentation(sizes, [before for before, _ in rooms])
    for before, after in rooms:
        measured.change(before, after)
    assert measured.part == pytest.approx(lost / total if total else 0)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 9)), max_size=12), st.integers(1, 1000))
def test_a_meter_adds_up_to_the_integral(steps: list[tuple[int, int]], horizon: int) -> None:
    meter, now, total = Meter(horizon, points=7), 0, 0
    for passed, held in steps:
        meter.hold(held - meter.held_milli, now)
        total += held * max(0, min(now + passed, horizon) - min(now, horizon))
        now += passed
        while meter.advance(now):
            pass
    meter.hold(-meter.held_milli, now)
    while meter.advance(max(now, horizon)):
        pass
    assert meter.totals[0] == total
    assert len(meter.rows) == 7


_CELLS = st.lists(st.tuples(st.integers(0, 90 * MINUTE_MS), st.integers(1, 60 * MINUTE_MS)), max_size=4)
_VISITS = st.builds(
    Visit,
    st.integers(0, 90 * MINUTE_MS),
    st.builds(Want, compute_milli=st.sampled_from([250, 300, 500, 1000])),
    _CELLS.map(tuple),
    stay_ms=st.integers(0, 60 * MINUTE_MS),
    patience_ms=st.sampled_from([None, 10 * MINUTE_MS]),
)
_PEOPLE = st.lists(
    st.builds(
        Person, st.sampled_from(["ann", "bob", "cem"]), st.lists(_VISITS, min_size=1, max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=8,
)
_POLICIES = st.sampled_from(
    [PLAIN, USUAL, "order=fair,place=spread,reclaim_idle_minutes=1,release_idle_minutes=2,notice_seconds=5"]
)


@settings(max_examples=40, deadline=None)
@given(_PEOPLE, _POLICIES)
def test_no_request_is_lost_and_the_measures_agree_with_a_recount(people: list[Person], text: str) -> None:
    policy = parse_policy(text)
    written: list[WriteDown] = []
    workload = visits(*people, horizon_ms=3 * HOUR_MS)
    engine = Engine(ONE, workload, policy.config, policy.habits, on_write=written.append)
    played = engine.run()
    counts = played.counts
    assert counts.requests == counts.granted + counts.cancelled + counts.refused + counts.unserved
    assert counts.requests == len(played.requests.served) + len(played.requests.unserved) + counts.refused
    engine.host.pool.check_invariants()
    _recount(written, played, workload.horizon_ms)


def _recount(written: list[WriteDown], played: Played, horizon_ms: int) -> None:
    """Add everything up anew from what was written down."""
    last = {it.lease.id: it.lease for it in written}
    asked = [it for it in last.values() if it.requested_ms <= horizon_ms]
    granted = [it for it in asked if it.granted_ms is not None]
    assert len(granted) == played.counts.granted
    assert sorted(it.granted_ms - it.requested_ms for it in granted if it.granted_ms is not None) == sorted(
        played.requests.served
    )
    held = sum(
        share.compute_milli
        * (min(horizon_ms, it.ended_ms if it.ended_ms is not None else horizon_ms) - it.granted_ms)
        for it in last.values()
        if it.granted_ms is not None and it.granted_ms < horizon_ms
        for share in it.shares
    )
    assert played.meter.totals[0] == held
    assert played.meter.totals[1] <= held
    states = Counter(it.state for it in last.values())
    assert states[LeaseState.QUEUED] >= played.counts.unserved


def test_the_same_seed_gives_the_same_figures() -> None:
    workload = NotebookClass(users=12, days=0.5, seed=5).workload()
    first, second = (play(TWO, workload, parse_policy(USUAL)) for _ in range(2))
    assert first.series == second.series
    assert (first.requests, first.cells, first.counts) == (second.requests, second.cells, second.counts)
    assert first.held_hours >= first.busy_hours > 0
    assert first.series[-1][0] == 12
