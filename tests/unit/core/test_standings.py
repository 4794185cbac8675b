"""How owners and groups stand, as leases come and go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Priority, Share
from jupyter_gpupool.core.policies.order import Standing
from jupyter_gpupool.core.quotas import Amount, Group, Limits, Quotas, Rules
from tests.support.books import DEVICE_HOUR, HOUR_MS, WALL_MS, Books


def standing(books: Books, owner: str = "ann") -> Standing:
    """Look at one owner."""
    return books.book.of([owner], books.now_ms)[owner]


def test_what_waits_is_asked_and_what_is_granted_is_held() -> None:
    books = Books()
    lease = books.ask(500)
    assert standing(books)[:3] == (0, 0, 500)
    books.grant(lease)
    assert standing(books)[:3] == (500, 0, 500)
    books.end(lease)
    assert standing(books)[:3] == (0, 0, 0)


def test_what_waited_for_any_kind_is_taken_out_of_no_line_when_it_is_granted() -> None:
    books = Books()
    books.ask(1000)
    lease = books.ask(400)
    undecided = books.put(replace(lease, want=replace(lease.want, kind=None)))
    assert standing(books).fair_milli == 1000
    books.grant(replace(undecided, want=lease.want))
    assert standing(books)[:3] == (400, 0, 1400)


def test_owners_share_what_is_scarce() -> None:
    books = Books(devices=2)
    books.hold(1000, count=2)
    books.ask(1000, "bob", count=2)
    assert [standing(books, owner).fair_milli for owner in ("ann", "bob")] == [1000, 1000]


def test_a_gang_counts_for_each_of_its_devices() -> None:
    books = Books()
    books.hold(500, count=4)
    assert standing(books).held_milli == 2000


def test_the_larger_of_two_sizes_counts_while_a_lease_is_resized() -> None:
    books = Books()
    lease = books.hold(500)
    books.put(replace(lease, pending=(Share(device_id="cuda0", compute_milli=750, memory_bytes=1),)))
    assert standing(books).held_milli == 750
    books.put(replace(lease, pending=(Share(device_id="cuda0", compute_milli=250, memory_bytes=1),)))
    assert standing(books).held_milli == 500


def test_a_group_stands_for_the_sum_of_its_owners() -> None:
    course = Group(name="course", owners=frozenset({"ann", "bob"}))
    books = Books(Quotas(groups=(course,)), devices=2)
    for owner in ("ann", "bob", "eve"):
        books.ask(1000, owner, count=2)
    assert standing(books, "eve").fair_milli == 1000
    assert standing(books, "ann").fair_milli == 500
    assert standing(books, "ann").above[0].fair_milli == 1000


def test_what_a_group_deserves_goes_to_it_before_others_share_the_rest() -> None:
    deserved = Rules(deserved_milli=Amount.each(3000), weight_milli=1)
    lab = Group(name="lab", rules=deserved, owners=frozenset({"ann"}))
    books = Books(Quotas(groups=(lab,)), devices=4)
    books.ask(1000, "ann", count=4)
    books.ask(1000, "bob", count=4)
    assert standing(books, "ann").fair_milli >= 3000
    assert standing(books, "bob").fair_milli <= 1000


def test_nobody_gets_a_share_of_what_the_limit_forbids() -> None:
    small = Rules(limits=Limits(compute_milli=Amount.each(500)))
    books = Books(Quotas(owners={"ann": small}), devices=2)
    books.ask(1000, "ann", count=2)
    books.ask(1000, "bob", count=2)
    assert standing(books, "ann").fair_milli == 500
    assert standing(books, "bob").fair_milli == 1500


def test_usage_fades_and_grows() -> None:
    books = Books()
    lease = books.hold(1000)
    books.pass_time(4 * HOUR_MS)
    books.end(lease)
    # an hour in a 4 h half-life: (1 - 1/2) * 4 h / ln 2
    assert standing(books).used_milli_ms == pytest.approx(2.885 * DEVICE_HOUR, rel=1e-3)
    books.pass_time(4 * HOUR_MS)
    assert standing(books).used_milli_ms == pytest.approx(1.4427 * DEVICE_HOUR, rel=1e-3)


def test_attained_service_begins_anew_after_idleness() -> None:
    books = Books()
    first = books.hold(500)
    books.pass_time(HOUR_MS)
    assert standing(books).attained_milli_ms == DEVICE_HOUR // 2
    second = books.hold(500)
    books.end(first)
    books.pass_time(HOUR_MS)
    assert standing(books).attained_milli_ms == DEVICE_HOUR
    books.end(second)
    assert standing(books).attained_milli_ms == 0
    books.hold(500)
    assert standing(books).attained_milli_ms == 0


def test_a_week_counts_from_monday_where_the_pool_is() -> None:
    books = Books(Quotas(time_zone=ZoneInfo("Europe/Berlin")))
    books.hold(500)
    monday = int(datetime(2023, 11, 19, 23, tzinfo=UTC).timestamp()) * 1000  # midnight in Berlin
    books.pass_time(monday - WALL_MS - HOUR_MS)
    line = next(books.book.lines_of("ann", DeviceKind.CUDA))[2]
    assert books.book.week_of_line(line, books.now_ms) == 500 * (monday - WALL_MS - HOUR_MS)
    books.pass_time(3 * HOUR_MS)
    assert books.book.week_of_line(line, books.now_ms) == 500 * 2 * HOUR_MS


def test_standings_survive_a_restart() -> None:
    course = Group(name="course", owners=frozenset({"ann", "bob"}))
    books = Books(Quotas(groups=(course,)))
    books.hold(500)
    books.pass_time(HOUR_MS)
    gone = books.hold(250, "bob", priority=Priority.HIGH)
    books.pass_time(HOUR_MS)
    books.end(gone)
    books.hold(250, "bob", priority=Priority.HIGH)
    books.ask(1000, "bob")
    books.pass_time(HOUR_MS // 2)
    before = books.book.of(["ann", "bob"], books.now_ms)
    weeks = [
        books.book.week_of_line(it[2], books.now_ms) for it in books.book.lines_of("ann", DeviceKind.CUDA)
    ]
    books.restart()
    assert books.book.of(["ann", "bob"], books.now_ms) == before
    again = [
        books.book.week_of_line(it[2], books.now_ms) for it in books.book.lines_of("ann", DeviceKind.CUDA)
    ]
    assert again == weeks
    assert weeks[1] == 500 * 5 * HOUR_MS // 2 + 250 * HOUR_MS + 250 * HOUR_MS // 2


def test_usage_runs_on_while_the_pool_is_down() -> None:
    books = Books()
    books.hold(1000)
    books.pass_time(HOUR_MS)
    books.now_ms += HOUR_MS
    books.restart()
    assert standing(books).attained_milli_ms == 2 * DEVICE_HOUR


def test_leases_of_an_old_journal_count_from_their_grants() -> None:
    books = Books()
    books.now_ms = HOUR_MS
    books.tick()
    lease = books.hold(1000)
    books.pass_time(HOUR_MS)
    fresh = Books()
    fresh.now_ms, fresh.leases = books.now_ms, {lease.id: lease}
    fresh.restart()
    assert standing(fresh).attained_milli_ms == DEVICE_HOUR
    line = next(fresh.book.lines_of("ann", DeviceKind.CUDA))[2]
    assert fresh.book.week_of_line(line, fresh.now_ms) == DEVICE_HOUR


def test_kinds_are_counted_apart() -> None:
    books = Books()
    lease = books.ask(500)
    books.put(replace(lease, want=replace(lease.want, kind=DeviceKind.CPU)))
    assert standing(books).of_kind(DeviceKind.CUDA).fair_milli == 0
    assert standing(books).of_kind(DeviceKind.CPU).held_milli == 0
    books.book.capacity({DeviceKind.CUDA: 1000, DeviceKind.CPU: 1000})
    assert standing(books).of_kind(DeviceKind.CPU).fair_milli == 500


def test_the_oldest_request_is_known() -> None:
    books = Books()
    first = books.ask(500)
    books.pass_time(10)
    second = books.ask(250)
    assert standing(books).oldest == first.id
    books.grant(first)
    assert standing(books).oldest == second.id
