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

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "first_lease.ipynb"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shown(notebook: Any, cell_id: str) -> str:
    """Return all that a cell of the notebook shows, as text."""
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    texts = []
    for output in cell.outputs:
        texts += [output.get("text", ""), "\n".join(output.get("traceback", []))]
        texts.append(output.get("data", {}).get("text/plain", ""))
    return _COLOURS.sub("", "\n".join(texts))


def test_the_example_is_valid_and_carries_no_outputs():
    notebook = nbformat.read(EXAMPLE, as_version=4)
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


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_the_example_runs_from_top_to_bottom(pool_environment, tmp_path):
    command = [sys.executable, "-c", EXECUTE, str(EXAMPLE), str(tmp_path / "run.ipynb")]
    with running_pool(pool_environment, embedded=True) as pool:
        done = subprocess.run(
            command, env=pool_environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        assert pool.get("/api/v1/leases").body == []
    notebook = nbformat.read(tmp_path / "run.ipynb", as_version=4)
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
