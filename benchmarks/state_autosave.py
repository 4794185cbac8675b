"""What saving by itself costs a running training loop: the same cells with it and without, turn by turn.

One fresh process has a shell as a notebook has it. Its cells train a small network on scikit-learn's digits,
one cell after the other, beside 100 MB that do not change; in every other turn the state is saved by itself
every few seconds, which is far more often than anybody asks for. A pair is one turn with it and the one
without next to it; the slowdown is the median over pairs.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from _common import HERE, CouldNotMeasure, Report, run_benchmark

#: How long the process may take, seconds.
_PROCESS_SECONDS = 600.0
#: How well the network does in the end at least: it has really trained.
_RIGHT = 0.9
_PREPARE = """
import numpy as np, sys, torch
sys.path.insert(0, {here!r})
from _training import Training
torch.set_num_threads(1)
training = Training()
beside = np.random.default_rng(0).standard_normal({beside})
"""
_CELL = "for _ in range(5): training.once()"


def measure(report: Report) -> None:
    """Measure pairs of turns in one process."""
    for needed in ("torch", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            raise CouldNotMeasure(f"the training loop needs {needed}, which is not installed.")
    every, seconds, pairs = ("1s", 3.0, 2) if report.quick else ("5s", 15.0, 8)
    found = _trained(every, seconds, pairs)
    if not found["saves"]:
        raise CouldNotMeasure("nothing was saved by itself: there is nothing to compare.")
    plain, saving = found["without"], found["with"]
    slower = [(mine / bare - 1) * 100 for mine, bare in zip(saving, plain, strict=True)]
    report.add("slowdown by saving by itself, median of pairs", median(slower), "%", "< 3")
    report.ratio("one cell with it / without it", median(saving), median(plain))
    report.add("slowdown, smallest of a pair", min(slower), "%")
    report.add("slowdown, largest of a pair", max(slower), "%")
    report.add("one cell without it", median(plain) * 1e3, "ms")
    report.add("snapshots that were taken by themselves", found["saves"], "")
    report.notes.append(
        f"{pairs} pairs of turns of {seconds:.0f} s, one cell after the other; saved every {every}, "
        f"and never for more than the share of the time that is allowed (5 %)."
    )


def _trained(every: str, seconds: float, pairs: int) -> dict[str, Any]:
    """Train in a fresh process; returns what it printed."""
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-", dir="/var/tmp") as folder:
        command = [sys.executable, str(HERE / "state_autosave.py"), "--train", folder, every, str(seconds)]
        try:
            done = subprocess.run(
                [*command, str(pairs)],
                capture_output=True,
                text=True,
                timeout=_PROCESS_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CouldNotMeasure(f"training took longer than {_PROCESS_SECONDS:.0f} s.") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPUPOOL ")]
    if done.returncode != 0 or len(lines) != 1:
        raise CouldNotMeasure(f"the process ended with status {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(lines[0].removeprefix("GPUPOOL "))
    if found["right"] < _RIGHT:
        raise CouldNotMeasure(f"the network is right in {found['right']:.0%} only: it has not trained.")
    return found


def train(folder: Path, every: str, seconds: float, pairs: int) -> None:
    """Train in turns, with saving and without, and print how long a cell took in each."""
    from state_adapter import new_shell, run_cells

    shell = new_shell(folder)
    import jupyter_gpupool as gpupool

    run_cells(shell, [_PREPARE.format(here=str(HERE), beside=100_000_000 // 8), *[_CELL] * 5])
    taken: dict[str, list[float]] = {"without": [], "with": []}
    gpupool.checkpoint("first")  # what the first save imports and writes is not part of the loop
    for number in range(pairs):
        for kind in ("without", "with") if number % 2 else ("with", "without"):
            gpupool.autosave(f"every {every}" if kind == "with" else "off")
            taken[kind].append(_turn(shell, seconds))
    gpupool.autosave("off")
    saves = sum(manifest.automatic for manifest in gpupool.snapshots())
    right = shell.user_ns["training"].right()
    print("GPUPOOL", json.dumps({**taken, "saves": saves, "right": right}), flush=True)


def _turn(shell: Any, seconds: float) -> float:
    """Run cells for so long; return how long one of them took on average, with all between them, seconds."""
    shell_cells, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        result = shell.run_cell(_CELL, store_history=True)
        result.raise_error()
        shell_cells += 1
    return (time.perf_counter() - begun) / shell_cells


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(run_benchmark("What saving by itself costs a training loop", measure))
