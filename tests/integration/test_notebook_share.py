"""A notebook whose metadata say a share has it with its first cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool

pytestmark = [pytest.mark.slow, pytest.mark.beside]


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool(pool_environment) as running:
        yield running


def write(path: Path, entry: object) -> dict[str, str]:
    book = {"cells": [], "metadata": {"gpupool": entry}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book))
    return {"JPY_SESSION_NAME": str(path)}


def test_the_share_is_there_with_the_first_cell(
    pool: PoolProcess, pool_environment: dict[str, str], tmp_path: Path
) -> None:
    said = write(tmp_path / "a.ipynb", {"share": 0.25, "kind": "cpu"})
    with notebook({**pool_environment, **said}) as book:
        assert "This notebook's metadata ask for 0.25 of a CPU device" in book.first.stderr
        (lease,) = pool.get("/api/v1/leases").body
        assert (lease["compute_milli"], lease["holder"]["pid"]) == (250, book.pid)
        assert book.ok("1").stderr == ""


def test_what_is_wrong_is_a_sentence_and_the_cell_runs(
    pool: PoolProcess, pool_environment: dict[str, str], tmp_path: Path
) -> None:
    said = write(tmp_path / "a.ipynb", {"share": 7})
    with notebook({**pool_environment, **said}) as book:
        assert "more than one device" in book.first.stderr
        assert "Traceback" not in book.first.text
        assert pool.get("/api/v1/leases").body == []
