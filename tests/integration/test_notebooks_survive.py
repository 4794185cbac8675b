"""Whole notebooks, with a checkpoint and a fresh kernel after every cell: as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.notebook import Cell, notebook

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.timeout(600)]


def cells_of(name: str) -> list[str]:
    """Return the code of a notebook, cell by cell."""
    read = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return [cell["source"] for cell in read["cells"] if cell["cell_type"] == "code"]


def shown(cell: Cell) -> tuple[str, list[dict[str, Any]]]:
    """Return what a person sees below a cell; pictures by their bytes."""
    kept = ("text/plain", "image/png")
    return cell.stdout, [{kind: it[kind] for kind in kept if kind in it} for it in cell.displays]


@pytest.mark.parametrize("name", ["exploring", "searching", "training"])
def test_a_fresh_kernel_after_every_cell_changes_nothing(
    pool_environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    cells = cells_of(name)
    work = tmp_path / "work"
    work.mkdir()
    there = f"import os; os.chdir({str(work)!r})"
    with notebook(pool_environment) as book:
        book.ok(there)
        expected = [shown(book.ok(cell)) for cell in cells]
    seen = []
    for number, cell in enumerate(cells):
        with notebook(pool_environment) as book:
            book.ok("%gpupool restore walk" if number else there)
            seen.append(shown(book.ok(cell)))
            book.ok("%gpupool checkpoint walk")
            os.kill(book.pid, signal.SIGKILL)
    assert seen == expected
