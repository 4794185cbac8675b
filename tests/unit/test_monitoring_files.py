"""The dashboard and the alerts of the documentation ask for series that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_PREFIX,
    POOL,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    Kind,
    Metric,
)

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
ALERTS: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())["groups"][0][
    "rules"
]
_SERIES = re.compile(r"\bjupyter_gpupool_\w+")
_SELECTOR = re.compile(r"(jupyter_gpupool_\w+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*=~?")


def tables() -> Iterator[tuple[str, Metric]]:
    for metric in CATALOGUE.values():
        yield DEVICE_PREFIX, metric
    for table in (POOL_DEVICE, POOL_LEASE, POOL):
        for metric in table.values():
            yield PREFIX, metric


def served() -> dict[str, set[str]]:
    """Return the names of all series, with their labels."""
    found = {}
    for prefix, metric in tables():
        tails = {Kind.COUNTER: ["_total"], Kind.HISTOGRAM: ["_bucket", "_sum", "_count"]}.get(
            metric.kind, [""]
        )
        for tail in tails:
            found[prefix + metric.name + tail] = {*metric.labels, *(["le"] if tail == "_bucket" else [])}
    return found


def queries() -> list[str]:
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    asked += [it["query"] for it in DASHBOARD["templating"]["list"]]
    return asked + [rule["expr"] for rule in ALERTS]


def test_every_series_that_is_asked_for_is_served_with_these_labels() -> None:
    there = served()
    names = {name for query in queries() for name in _SERIES.findall(query)}
    assert len(names) > 15
    assert names <= there.keys()
    for query in queries():
        for name, selector in _SELECTOR.findall(query):
            assert set(_LABEL.findall(selector)) <= there[name], query


def test_every_panel_has_a_place_of_its_own_and_says_what_it_shows() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["description"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_alert_says_how_urgent_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")
        assert re.fullmatch(r"\d+m", rule["for"])
    asked = " ".join(rule["expr"] for rule in ALERTS)
    for what in ("device_health", "wait_seconds", "journal_commit_seconds", "journal_lag_seconds", "nodes"):
        assert what in asked
