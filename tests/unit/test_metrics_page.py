"""The documentation's tables of metrics and indicators: made from the code, and complete."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_gpupool.backends.nvidia.health.indicators import INDICATORS
from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_PREFIX,
    POOL,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    READINGS,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield importlib.import_module("metrics_page")
    for name in ("metrics_page", "comments"):
        sys.modules.pop(name, None)


def test_the_table_has_every_metric_once(page: ModuleType) -> None:
    rows = [line.split("`")[1] for line in page.tables().splitlines() if line.startswith("| `")]
    expected = [page.served_name(DEVICE_PREFIX, metric) for metric in CATALOGUE.values()]
    for table in (POOL_DEVICE, POOL_LEASE, POOL):
        expected += [page.served_name(PREFIX, metric) for metric in table.values()]
    assert rows == expected
    assert len(set(rows)) == len(rows)


def test_the_table_explains_every_metric(page: ModuleType) -> None:
    for line in page.tables().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 5, line
            assert cells[3].endswith("."), line


def test_the_table_has_every_indicator(page: ModuleType) -> None:
    text = page.indicators()
    assert all(f"| `{name}` |" in text for name in INDICATORS)
    assert "13, 31, 43, 45, 68, 109" in text


def test_the_page_is_in_the_documentation() -> None:
    text = (DOCS / "metrics.md").read_text()
    assert "_generated/metrics.md" in text
    assert "_generated/indicators.md" in text
    assert "\nmetrics\n" in (DOCS / "index.md").read_text()


def test_the_readings_of_documents_are_in_the_catalogue() -> None:
    assert set(READINGS) <= set(CATALOGUE)
