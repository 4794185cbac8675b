"""``jupyter gpupool usage`` asks for calendar periods, and writes the same rows in each form."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.cli import usage
from jupyter_gpupool.cli.usage import UsageApp
from jupyter_gpupool.protocol.documents import UsageRowDoc
from jupyter_gpupool.service.usage_report import zone_of

BERLIN = zone_of("Europe/Berlin")
ROWS = [
    UsageRowDoc(
        owner=owner,
        model="A100",
        held_device_seconds=3601.0,
        measured_device_seconds=1800.0,
        busy_device_seconds=450.0,
        leases=2,
        price=price,
    )
    for owner, price in (("ann", 2.5), ("=bob", None))
]


def written(form: str) -> str:
    file = io.StringIO()
    usage.write_text(ROWS, form, file)
    return file.getvalue()


def test_csv_and_json_have_the_same_rows_and_hours_are_right_to_the_second():
    first, second = csv.DictReader(io.StringIO(written("csv")))
    assert first["owner"] == "ann"
    assert round(float(first["held_device_hours"]) * 3600) == 3601
    assert (first["used_device_hours"], first["unused_device_hours"]) == ("0.125", "0.375")
    assert second["price"] == ""
    assert second["owner"] == "'=bob"  # a spreadsheet takes it for text
    found: list[dict[str, Any]] = json.loads(written("json"))
    assert found[0]["held_device_hours"] == float(first["held_device_hours"])
    assert (found[1]["owner"], found[1]["price"]) == ("=bob", None)
    assert set(found[0]) == set(first)


def test_a_table_shows_hours_and_says_when_there_are_none():
    text = written("table")
    assert "held h" in text
    assert "1.00" in text
    file = io.StringIO()
    usage.write_text([], "table", file)
    assert "Nothing was held" in file.getvalue()


def test_parquet_needs_a_file_and_has_the_same_rows(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(usage.CannotWrite, match="--output"):
        usage.write_parquet(ROWS, "")
    usage.write_parquet(ROWS, str(tmp_path / "usage.parquet"))
    found = parquet.read_table(tmp_path / "usage.parquet").to_pylist()
    assert found == json.loads(written("json"))
    with pytest.raises(usage.CannotWrite, match="cannot be written"):
        usage.write_parquet(ROWS, str(tmp_path / "missing" / "usage.parquet"))


@pytest.mark.parametrize(
    ("period", "since", "until"),
    [
        ("today", "2026-03-30T00:00:00+02:00", ""),
        ("yesterday", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"),
        ("last-week", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"),
        ("last-month", "2026-02-01T00:00:00+01:00", "2026-03-01T00:00:00+01:00"),
    ],
)
def test_calendar_periods_begin_at_midnight_of_the_zone(period: str, since: str, until: str):
    app = UsageApp(period=period, zone="Europe/Berlin", by="owner")
    asked = app.query(datetime(2026, 3, 30, 9, tzinfo=BERLIN))  # clocks went forward the night before
    assert asked["since"] == since
    assert asked.get("until", "") == until
    assert (asked["by"], asked["zone"], asked["every"]) == ("owner", "Europe/Berlin", "all")
