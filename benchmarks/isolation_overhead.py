"""What it costs to work inside a full-size lease: the same training loop inside and outside, turn by turn.

Each turn is a fresh process (see _training.py) on a machine whose pool and agent run all the time. A pair is
one turn inside and one outside, in changing order; overhead is the median over pairs, so that a busy moment
that meets one pair decides nothing, and its spread is shown beside it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from statistics import median
from typing import Any

from _common import HERE, CouldNotMeasure, Report, percentile, run_benchmark, serving, world

#: How long one turn may take, seconds.
_TURN_SECONDS = 300.0
#: How well the network does after the loop at least: it has really trained.
_RIGHT = 0.9

#: Figures of others, for the reader: they are not measured here, and not on this machine.
_REPORTED = (
    "Reported by others, not measured here: GaiaGPU 1.0 % on average (its authors, on GPUs), "
    "nvshare 0.9 % on average (its author's thesis, managed memory on a GPU)."
)


def measure(report: Report) -> None:
    """Measure pairs."""
    for needed in ("torch", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            raise CouldNotMeasure(f"the training loop needs {needed}, which is not installed.")
    pairs, passes = (2, 10) if report.quick else (12, 100)
    inside: list[dict[str, Any]] = []
    outside: list[dict[str, Any]] = []
    with world() as environment, serving(environment, "--embedded"):
        _turn(environment, "outside", 1)  # what the disk has to read once
        for number in range(pairs):
            turns = [("inside", inside), ("outside", outside)]
            for where, taken in turns if number % 2 else reversed(turns):
                taken.append(_turn(environment, where, passes))
    _report(report, inside, outside)


def _turn(environment: dict[str, str], where: str, passes: int) -> dict[str, Any]:
    """Train in a fresh process; returns what it printed."""
    command = [sys.executable, str(HERE / "_training.py"), where, str(passes)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TURN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CouldNotMeasure(f"a turn {where} took longer than {_TURN_SECONDS:.0f} s.") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPUPOOL ")]
    if done.returncode != 0 or len(lines) != 1:
        raise CouldNotMeasure(f"a turn {where} ended with status {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(lines[0].removeprefix("GPUPOOL "))
    if passes > 1 and found["right"] < _RIGHT:
        raise CouldNotMeasure(f"the network trained {where} is right in {found['right']:.0%} only.")
    return found


def _report(report: Report, inside: list[dict[str, Any]], outside: list[dict[str, Any]]) -> None:
    walls, quiet, cpus = (
        [(mine[which] / bare[which] - 1) * 100 for mine, bare in zip(inside, outside, strict=True)]
        for which in ("wall", "quiet", "cpu")
    )
    report.add("overhead, median of pairs", median(walls), "%", "< 1")
    report.add("its spread: lower quartile of pairs", percentile(walls, 25), "%")
    report.add("its spread: upper quartile of pairs", percentile(walls, 75), "%")
    report.add("the same of passes that little disturbs (10th percentile)", median(quiet), "%", "< 1")
    report.add("the same in CPU time", median(cpus), "%")
    loops = [[turn["wall"] for turn in turns] for turns in (inside, outside)]
    report.add("training loop inside, median", median(loops[0]), "s")
    report.add("training loop outside, median", median(loops[1]), "s")
    report.ratio("inside / outside", median(loops[0]), median(loops[1]))
    report.notes += [f"{len(inside)} pairs. In force inside: {'; '.join(inside[0]['in_force'])}.", _REPORTED]


if __name__ == "__main__":
    sys.exit(run_benchmark("Overhead of a full-size lease", measure))
