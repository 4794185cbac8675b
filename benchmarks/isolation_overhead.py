"""What it costs to work inside a full-size lease: the same training loop inside and outside, turn by turn.

Several fresh processes (see _training.py), beside a pool and an agent that run all the time. In each of them
turns inside and outside follow each other, and what comes first changes from process to process. A pair is
one turn inside and the one outside next to it; overhead is the median over pairs, so that a busy moment that
meets one pair decides nothing, and its spread is shown beside it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from statistics import median
from typing import Any

from _common import HERE, CouldNotMeasure, Report, percentile, run_benchmark, serving, world

#: How long one process may take, seconds.
_PROCESS_SECONDS = 300.0
#: How well the network does in the end at least: it has really trained.
_RIGHT = 0.9
#: Figures of others, for the reader: they are not measured here, and not on this machine.
_REPORTED = (
    "Reported by others, not measured here: GaiaGPU 1.0 % on average (its authors, on GPUs), "
    "nvshare 0.9 % on average (its author's thesis, managed memory on a GPU)."
)

#: One turn: how long each pass took, and CPU time of all, seconds.
Turn = dict[str, Any]


def measure(report: Report) -> None:
    """Measure pairs."""
    for needed in ("torch", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            raise CouldNotMeasure(f"the training loop needs {needed}, which is not installed.")
    processes, rounds, passes = (2, 2, 10) if report.quick else (6, 8, 25)
    firsts = [("inside", "outside")[number % 2] for number in range(processes)]
    with world() as environment, serving(environment, "--embedded"):
        taken = [_trained(environment, first, rounds, passes) for first in firsts]
    inside, outside = ([turn for found in taken for turn in found[it]] for it in ("inside", "outside"))
    _report(report, inside, outside)
    report.notes += [
        f"{len(inside)} pairs of {passes} passes, in {processes} processes. "
        f"In force inside: {'; '.join(taken[0]['in_force'])}.",
        _REPORTED,
    ]


def _trained(environment: dict[str, str], first: str, rounds: int, passes: int) -> dict[str, Any]:
    """Train in a fresh process; returns what it printed."""
    command = [sys.executable, str(HERE / "_training.py"), first, str(rounds), str(passes)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PROCESS_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CouldNotMeasure(f"a process took longer than {_PROCESS_SECONDS:.0f} s.") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPUPOOL ")]
    if done.returncode != 0 or len(lines) != 1:
        raise CouldNotMeasure(f"a process ended with status {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(lines[0].removeprefix("GPUPOOL "))
    if found["right"] < _RIGHT:
        raise CouldNotMeasure(f"the network is right in {found['right']:.0%} only: it has not trained.")
    return found


def _wall(turn: Turn) -> float:
    return sum(turn["passes"])


def _report(report: Report, inside: list[Turn], outside: list[Turn]) -> None:
    """Add all figures."""
    pairs = list(zip(inside, outside, strict=True))
    walls = [(_wall(mine) / _wall(bare) - 1) * 100 for mine, bare in pairs]
    cpus = [(mine["cpu"] / bare["cpu"] - 1) * 100 for mine, bare in pairs]
    passes = [[it for turn in turns for it in turn["passes"]] for turns in (inside, outside)]
    quiet = [percentile(taken, 10) for taken in passes]
    report.add("overhead, median of pairs", median(walls), "%", "< 1")
    report.add("its spread: lower quartile of pairs", percentile(walls, 25), "%")
    report.add("its spread: upper quartile of pairs", percentile(walls, 75), "%")
    report.add(
        "overhead of passes that little disturbs (10th percentile)", (quiet[0] / quiet[1] - 1) * 100, "%"
    )
    report.add("overhead in CPU time, median of pairs", median(cpus), "%")
    report.add("one pass over the data inside, median", median(passes[0]) * 1000, "ms")
    report.add("one pass over the data outside, median", median(passes[1]) * 1000, "ms")
    report.ratio("inside / outside", median(passes[0]), median(passes[1]))


if __name__ == "__main__":
    sys.exit(run_benchmark("Overhead of a full-size lease", measure))
