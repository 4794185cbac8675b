"""Policies as people write them, and the reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.sim.charts import Chart, Line
from jupyter_gpupool.sim.compare import PLAIN, Outcome, parse_policy
from jupyter_gpupool.sim.notebook_class import NotebookClass
from jupyter_gpupool.sim.options import parse_sizes
from jupyter_gpupool.sim.pools import parse_pool
from jupyter_gpupool.sim.report_html import report_html
from jupyter_gpupool.sim.simulation import Simulation, simulate
from jupyter_gpupool.sim.table import EXPLAINED, ROWS, percent, seconds


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    workload = NotebookClass(users=10, days=0.5, seed=2).workload()
    policies = [parse_policy("usual,share=0.25"), parse_policy("plain")]
    return simulate(parse_pool("2xT4-16GB"), workload, policies, seed=2)


def test_settings_are_read_with_their_units() -> None:
    policy = parse_policy(
        "order=fair, place=pack ,reclaim_idle_minutes=2,notice_seconds=5,share=1/4,preempt=no"
    )
    config = policy.config
    assert (config.order, config.place, config.reclaim_idle_ms, config.notice_ms) == (
        "fair",
        "pack",
        120_000,
        5000,
    )
    assert config.preempt is False
    assert policy.habits.share_milli == 250
    assert parse_policy("reclaim_idle_minutes=never").config.reclaim_idle_ms is None
    assert parse_policy("cull_hours=2,resume_ms=5,stretch=1.5").habits.stretch == 1.5


def test_a_second_policy_is_what_changes_of_the_first() -> None:
    first = parse_policy("order=fair,share=0.5,notice_seconds=7")
    second = parse_policy("order=fifo", first)
    assert second.config == replace(first.config, order="fifo")
    assert second.habits == first.habits
    assert parse_policy("plain").config == parse_policy(PLAIN).config


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("order=best", "fair, fifo"),
        ("place=anywhere", "best_fit"),
        ("evict=nobody", "longest_idle"),
        ("colour=blue", "reclaim_idle_seconds|minutes|hours"),
        ("quotas=1", "There is no setting"),
        ("fifo", "Write it as"),
        ("order=", "Write it as"),
        ("notice_seconds=soon", "notice_seconds=soon"),
        ("notice_seconds=-1", "number from 0"),
        ("notice_seconds=never", "number from 0"),
        ("notice_seconds=nan", "number from 0"),
        ("preempt=maybe", "neither yes nor no"),
        ("share=7", "7"),
        ("stretch=0", "0 times"),
    ],
)
def test_settings_that_mean_nothing_are_refused_with_what_there_is(text: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(told)):
        parse_policy(text)


def test_sizes_are_read_with_their_weights() -> None:
    assert parse_sizes("0.25:7, 0.5:2,1") == {250: 7, 500: 2, 1000: 1}
    assert parse_sizes("")
    for wrong in ("0.25:x", "0.25:-1", "0.25:nan", "big"):
        with pytest.raises(InvalidValue):
            parse_sizes(wrong)


def test_every_figure_is_shown_and_has_its_unit(simulation: Simulation) -> None:
    for row in ROWS:
        for outcome in simulation.outcomes:
            assert row.show(outcome)
    assert [seconds(it) for it in (0, 42, 150, 7200, 90_000)] == ["0 s", "42 s", "2.5 min", "2 h", "25 h"]
    assert [percent(it) for it in (0, 0.5, 0.99999, 1)] == ["0.0 %", "50.0 %", "99.99 %", "100.0 %"]


def test_json_holds_every_figure(simulation: Simulation) -> None:
    document = json.loads(encode(simulation.document()))
    assert document["seed"] == 2
    for shown, outcome in zip(document["outcomes"], simulation.outcomes, strict=True):
        assert shown["policy"] == outcome.policy
        assert shown["events"] == outcome.counts.facts + outcome.counts.steps
        assert shown["requests"]["p95_seconds"] == outcome.requests.p95_seconds
        assert len(shown["series"]) == 240


def test_the_report_needs_nothing_else_and_says_everything(simulation: Simulation) -> None:
    page = report_html(simulation)
    assert not re.search(r"<script|https?://|@import|url\(|<link|<img", page)
    assert "prefers-color-scheme: dark" in page
    for row in ROWS:
        assert row.name in page
    for sentence in (*EXPLAINED, *simulation.notes):
        assert sentence.split("'")[0] in page
    assert page.count("<figure>") == 6
    for drawing in re.findall(r"<svg viewBox=\"0 0 640.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)  # noqa: S314 - our own text


def test_what_people_wrote_is_escaped(simulation: Simulation) -> None:
    outcomes = tuple(replace(it, policy="<b>&") for it in simulation.outcomes)
    page = report_html(replace(simulation, workload="<script>x</script>", outcomes=outcomes))
    assert "<script" not in page
    assert "&lt;b&gt;&amp;" in page


@pytest.mark.parametrize("points", [[], [(0.0, 0.0)], [(0.0, 0.0), (1e-9, 5.0)], [(0.0, 1e12), (1e6, 0.0)]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_chart_of_nothing_or_of_much_stays_on_its_page(
    points: list[tuple[float, float]], logarithmic: bool
) -> None:
    line = Line(name="a & b", look="a", points=points, filled=True)
    drawing = Chart(title="t", across="x", up="y", lines=[line], logarithmic=logarithmic).svg()
    root = ElementTree.fromstring(drawing)  # noqa: S314 - our own text
    for path in root.iter("path"):
        numbers = [float(it) for it in re.findall(r"-?[\d.]+", path.attrib["d"])]
        assert all(0 <= it <= 640 for it in numbers)


def test_a_pool_where_nothing_happens_is_described(simulation: Simulation) -> None:
    workload = NotebookClass(users=1, days=0.1, seed=1, idle_sessions=1).workload()
    quiet = simulate(parse_pool("T4-16GB"), workload, [parse_policy("usual")])
    outcome: Outcome = quiet.outcomes[0]
    assert outcome.cells.count == 0
    assert outcome.fairness == 1
    assert report_html(quiet)
