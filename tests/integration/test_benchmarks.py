"""Every benchmark measures something when it is asked for a quick look, and says so when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
#: What speaks the protocol of another runner; `test_kernel_states.py` drives it.
NO_TABLE = {"state_adapter"}
#: These have tests of their own, in tests/unit/sim, on workloads that are small enough.
ELSEWHERE = {"notebook_day", "placement_openb"}
SCRIPTS = sorted({path.stem for path in BENCHMARKS.glob("[a-z]*.py")} - ELSEWHERE - NO_TABLE)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_quick_look_gives_figures_beside_their_goals(name: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick", "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())["figures"]
    assert any(figure["goal"] for figure in figures)
    assert any(figure["unit"] == "x" for figure in figures), "a ratio, so that machines can be compared"
    # a figure that is not listed stands in a table, under the names of its row and column
    assert all(figure["name"] in done.stdout for figure in figures if figure.get("listed", True))


def test_a_benchmark_that_cannot_measure_fails_and_says_why() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "from _common import CouldNotMeasure, run_benchmark\n"
        "def measure(report): raise CouldNotMeasure('there is no disk.')\n"
        "sys.exit(run_benchmark('Nothing', measure))"
    )
    command = [sys.executable, "-c", script, str(BENCHMARKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "there is no disk" in done.stderr
