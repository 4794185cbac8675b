"""The example notebook runs from top to bottom, as everybody's first notebook must."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.pool_process import running_pool

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "first_lease.ipynb"
TOUR = ROOT / "docs" / "examples" / "tour.ipynb"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shown(notebook: Any, cell_id: str) -> str:
    """Return all that a cell of the notebook shows, as text."""
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    texts = []
    for output in cell.outputs:
        texts += [output.get("text", ""), "\n".join(output.get("traceback", []))]
        texts.append(output.get("data", {}).get("text/plain", ""))
    return _COLOURS.sub("", "\n".join(texts))


@pytest.mark.parametrize("path", [EXAMPLE, TOUR], ids=["first lease", "tour"])
def test_the_example_is_valid_and_carries_no_outputs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []
    assert not any("load_ext" in cell.source for cell in notebook.cells if cell.cell_type == "code")


#: A process of its own, because nbclient leaves its sockets to the garbage collector.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=100, extra_arguments=["--ext=jupyter_gpupool"]).execute()
nbformat.write(notebook, sys.argv[2])
"""


def run(path: Path, environment: dict[str, str], done_path: Path) -> Any:
    """Run a notebook from top to bottom, and return it with what it shows."""
    command = [sys.executable, "-c", EXECUTE, str(path), str(done_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return nbformat.read(done_path, as_version=4)


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_the_tour_runs_with_the_configuration_of_the_hosted_machine(pool_environment, tmp_path):
    environment = pool_environment | {"JUPYTER_CONFIG_PATH": str(ROOT / "binder")}
    with running_pool(environment, embedded=True) as pool:
        notebook = run(TOUR, environment, tmp_path / "run.ipynb")
        assert pool.get("/api/v1/leases").body == []
    assert shown(notebook, "pool").count("emulated") >= 4
    assert "cpu" in shown(notebook, "pool")
    assert "0.25 of" in shown(notebook, "request")
    assert "The pool at" in shown(notebook, "monitor")
    assert "0.5 of" in shown(notebook, "resize")
    assert "900" in shown(notebook, "refused")
    assert "0.5 of" in shown(notebook, "why")
    assert "333332833333500000 computed" in shown(notebook, "cpu")
    assert "'epoch': 7" in shown(notebook, "learned")
    assert "Released" in shown(notebook, "release")
    assert "ended" in shown(notebook, "python")
    assert "Panel(" in shown(notebook, "panel")
    assert "device-hours" in shown(notebook, "usage")


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_the_example_runs_from_top_to_bottom(pool_environment, tmp_path):
    with running_pool(pool_environment, embedded=True) as pool:
        notebook = run(EXAMPLE, pool_environment, tmp_path / "run.ipynb")
        assert pool.get("/api/v1/leases").body == []
    assert "0.25 of cpu" in shown(notebook, "request")
    assert "compute" in shown(notebook, "request")
    accuracy = re.search(r"([\d.]+)% of the test digits", shown(notebook, "train"))
    assert accuracy is not None
    assert float(accuracy[1]) > 90
    assert "This went past the memory of lease" in shown(notebook, "too-much")
    assert "active" in shown(notebook, "alive")
    assert "0.35 of cpu" in shown(notebook, "resize")
    assert "Released" in shown(notebook, "release")
    assert "LeaseState.ENDED" in shown(notebook, "python")
    assert "tensor(" in shown(notebook, "cell")
    assert "device-hours" in shown(notebook, "usage")
