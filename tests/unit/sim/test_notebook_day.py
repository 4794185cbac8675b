"""The benchmark of a notebook class, on a class that is small enough for a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.sim.compare import USUAL, parse_policy, play
from jupyter_gpupool.sim.notebook_class import NotebookClass
from jupyter_gpupool.sim.pools import parse_pool

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "notebook_day.py"
POOL, USERS, DAYS, SEED = "4xT4-16GB", 50, 2, 1


@pytest.mark.slow
def test_ours_serves_three_times_the_users_who_wait_less(tmp_path: Path) -> None:
    report = tmp_path / "day.json"
    options = [
        "--pool",
        POOL,
        "--users",
        USERS,
        "--days",
        DAYS,
        "--seeds",
        SEED,
        "--no-search",
        "--json",
        report,
    ]
    command = [sys.executable, str(SCRIPT), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert report.exists(), done.stderr
    document = json.loads(report.read_text())
    whole, ours = (document["runs"][way][0] for way in "ac")
    assert ours["requests"]["p99_seconds"] < 0.25 * whole["requests"]["p99_seconds"]
    assert ours["success"] >= 0.999
    assert ours["held_hours"] < whole["held_hours"]
    for line in ("device-hours held", "wait of a request, p99", "fairness (Jain)", "(c) cells x 1.5"):
        assert line in done.stdout
    workload = NotebookClass(users=3 * USERS, days=DAYS, seed=SEED).workload()
    larger = play(parse_pool(POOL), workload, parse_policy(f"{USUAL},share=0.25"))
    assert larger.requests.p95_seconds <= whole["requests"]["p95_seconds"]
