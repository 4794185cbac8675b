"""Options, scenarios, quotas, reservations and pins of a simulation: what is read, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool import app
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.core.quotas import Group, Limits, Quotas, Rules
from jupyter_gpupool.core.quotas.model import Amount
from jupyter_gpupool.core.reservations import Reserved
from jupyter_gpupool.sim.compare import Place, parse_policy, play
from jupyter_gpupool.sim.options import Options, parse_begin, read_options
from jupyter_gpupool.sim.owners import pinned, with_owners
from jupyter_gpupool.sim.pools import parse_pool
from jupyter_gpupool.sim.scenario import BadScenario, read_scenario
from jupyter_gpupool.sim.workload import HOUR_MS, MINUTE_MS, Person, Visit, Workload, batch, once

ONE = parse_pool("T4-16GB")
WHOLE = Want(compute_milli=1000)
#: Midnight of Monday, 7 December 2026, UTC.
MONDAY_MS = 1_796_601_600_000


def test_numbers_are_read_and_the_usual_holds_where_nothing_is_written() -> None:
    assert read_options({}) == Options()
    found = read_options({"users": "7", "days": 0.5, "load": "2.5", "seed": "-3", "policy": ""})
    assert found == Options(users=7, days=0.5, load=2.5, seed=-3)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"users": "many"}, "--users is “many”; it must be a whole number"),
        ({"users": ""}, "--users is “”"),
        ({"users": "1.5"}, "--users is “1.5”"),
        ({"users": "５"}, "--users is “５”"),
        ({"days": "1d"}, "--days is “1d”; it must be a number of days without a unit"),
        ({"days": "nan"}, "--days is “nan”"),
        ({"days": float("inf")}, "--days is “inf”"),
        ({"load": "2x"}, "--load is “2x”"),
        ({"idle_sessions": "70%"}, "--idle-sessions is “70%”; it must be a part of all sessions"),
        ({"seed": "abc"}, "--seed is “abc”"),
    ],
)
def test_what_is_no_number_is_refused_with_the_option_and_its_form(
    written: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidValue, match=re.escape(told)):
        read_options(written)


@pytest.mark.parametrize("text", ["today", "2026-13-01", "0001-01-01", "07.12.2026"])
def test_what_is_no_day_is_refused(text: str) -> None:
    assert parse_begin("") is None
    assert parse_begin("2026-12-07") == MONDAY_MS
    with pytest.raises(InvalidValue, match=re.escape(text)):
        parse_begin(text)


SCENARIO = """\
version: 1
pool: [8xT4-16GB, 2*2xT4-16GB@8/64GiB]
users: 9
sizes: {0.25: 7, 1: 3}
policy: {order: fifo, share: 0.5}
compare: plain
pinned: ["user-0*", user-0001]
journal: old/journal.sqlite
quotas: quotas.yaml
"""


def scenario(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path)


def test_a_scenario_says_what_a_command_line_would(tmp_path: Path) -> None:
    assert scenario(tmp_path, SCENARIO) == {
        "pool": "8xT4-16GB; 2*2xT4-16GB@8/64GiB",
        "users": "9",
        "sizes": "0.25:7,1:3",
        "policy": "order=fifo,share=0.5",
        "compare": "plain",
        "pinned": "user-0*,user-0001",
        "journal": str(tmp_path / "old/journal.sqlite"),
        "quotas": str(tmp_path / "quotas.yaml"),
    }
    assert scenario(tmp_path, "pool: openb:traces")["pool"] == f"openb:{tmp_path}/traces"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("just words", "line 1: a scenario must have version, pool"),
        ("usres: 5", "line 1: “usres” is not known; a scenario has version, pool"),
        ("users: 5\nversion: 2", "line 2: “version” is “2”"),
        ("policy: {order: {a: b}}", "line 1: “policy” must be written in one line"),
        ("pool: [", "line 1"),
        ("pinned: [*ann]", "Put patterns in quotes"),
    ],
)
def test_what_a_scenario_cannot_say_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadScenario, match=re.escape(told)):
        scenario(tmp_path, text)
    with pytest.raises(BadScenario, match="nowhere"):
        read_scenario(tmp_path / "nowhere.yaml")


def command(*argv: str) -> int | str | None:
    """Run the command in this process; return its status."""
    app.SimulateApp.clear_instance()
    with pytest.raises(SystemExit) as ended:
        app.SimulateApp.launch_instance(list(argv))
    app.SimulateApp.clear_instance()
    return ended.value.code


def test_a_scenario_is_played_and_what_is_typed_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quotas.yaml").write_text('groups: [{name: all, owners: ["user-*"], each: {pins: 0}}]')
    text = SCENARIO.replace("journal: old/journal.sqlite\n", "")
    (tmp_path / "scenario.yaml").write_text(text)
    assert command("--scenario", str(tmp_path / "scenario.yaml"), "--users", "4", "--days=0.2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["workload"] == "4 notebook users for 0.2 days"
    first, second = document["outcomes"]
    assert first["policy"] == "order=fifo,share=0.5"
    assert second["policy"].startswith("order=fifo,share=1,place=first_fit")
    counts = first["counts"]
    assert (counts["pinned"], counts["pins_refused"]) == (0, counts["granted"])


@pytest.mark.parametrize("words", [("--bogus", "3"), ("--user", "5"), ("somewhere",)])
def test_what_is_no_option_is_refused_instead_of_passed_over(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words, "--days=0.1") == 1
    told = capsys.readouterr()
    assert f"“{words[0]}” is no option of simulate. List them with --help." in told.err
    assert told.out == ""


def two(first: str = "ann", second: str = "bob") -> Workload:
    """Make a workload of one who holds the only device and does nothing, and one who wants it."""
    holds = Person(first, (Visit(0, WHOLE, (), stay_ms=10 * HOUR_MS),))
    return Workload(
        name="two", people=(holds, once(second, 20 * MINUTE_MS, WHOLE, 5 * MINUTE_MS)), horizon_ms=HOUR_MS
    )


RECLAIMS = parse_policy("reclaim_idle_minutes=10,notice_seconds=60,least_run_minutes=0")


def test_what_is_pinned_is_not_taken_back_unless_a_quota_says_so() -> None:
    free = play(ONE, two(), RECLAIMS)
    kept = play(ONE, pinned(two(), "a*"), RECLAIMS)
    may_not = Quotas(each=Rules(pins=0))
    refused = play(ONE, pinned(two(), "ann"), RECLAIMS, Place(quotas=may_not))
    assert (free.counts.taken, free.counts.pinned) == (1, 0)
    assert (kept.counts.taken, kept.counts.pinned, kept.counts.pins_refused) == (0, 1, 0)
    assert (refused.counts.taken, refused.counts.pinned, refused.counts.pins_refused) == (1, 0, 1)


def test_quotas_hold_in_a_simulation_and_what_they_refuse_is_counted() -> None:
    half = Rules(limits=Limits(compute_milli=Amount.each(500)))
    quotas = Quotas(groups=(Group(name="course", each=half, owners=frozenset({"b*"})),))
    outcome = play(ONE, two(), RECLAIMS, Place(quotas=with_owners(quotas, two())))
    assert outcome.counts.refusals == {"quota_exceeded": 1}
    assert (outcome.counts.granted, outcome.counts.refused) == (1, 1)


def test_owners_of_groups_are_found_by_patterns() -> None:
    groups = (Group(name="one", owners=frozenset({"user-1*", "cyd"})), Group(name="two"))
    people = [once(owner, 0, WHOLE, 1) for owner in ("user-10", "user-11", "user-20")]
    found = with_owners(Quotas(groups=groups), batch("some", people))
    assert found.group_of == {"user-10": "one", "user-11": "one", "cyd": "one"}
    assert with_owners(Quotas(), batch("some", people)) == Quotas()


@pytest.mark.parametrize("name", ["x*", "ANN", "änn"])
def test_a_name_that_means_nobody_is_refused_with_some_who_are_there(name: str) -> None:
    with pytest.raises(GPUPoolError, match=f"--pinned names “{re.escape(name)}”.*There are: ann, bob"):
        pinned(two(), name)
    quotas = Quotas(groups=(Group(name="course", owners=frozenset({f"{name}*"})),))
    with pytest.raises(GPUPoolError, match="Group “course”"):
        with_owners(quotas, two())


def test_a_reservation_keeps_others_away_on_its_day() -> None:
    quotas = Quotas(groups=(Group(name="course", owners=frozenset({"ann"})),))
    early = Reserved(
        name="class",
        devices=1,
        group="course",
        weekdays=frozenset({1}),
        from_minute=0,
        to_minute=60,
        lead_ms=0,
    )
    workload = batch("one", [once("bob", 10 * MINUTE_MS, WHOLE, 5 * MINUTE_MS)])
    waits = {}
    for day in ("2026-12-07", "2026-12-08"):
        place = Place(quotas=quotas, reservations=(early,), begins_ms=parse_begin(day))
        waits[day] = play(ONE, workload, RECLAIMS, place).requests.longest_seconds
    assert waits == {"2026-12-07": 0, "2026-12-08": 50 * 60}
