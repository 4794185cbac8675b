"""What saving and restoring a notebook's state costs, beside pickle, torch.save and the disk.

For each kind of state every tool makes it in a fresh process, saves it, saves it again unchanged, and once
more after one element changed; a second fresh process, which has imported the libraries already, reads it.
Ours is saved and restored by the functions that the magics call. Every tool is imported before the clock
starts; a kernel imports ours in a thread where it saves by itself or offers to restore, and else with the
first checkpoint: what that takes is a row of its own. Every save ends with a sync. `.grad` of a model is
saved by us, and not by pickle.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from _common import HERE, CouldNotMeasure, Report, run_benchmark
from _speed_process import STATES

#: How long one process may take, seconds.
_PROCESS_SECONDS = 300.0
_MB = 1_000_000
Row = dict[str, float]


def measure(report: Report) -> None:
    """Measure every kind of state with every tool."""
    times = 1 if report.quick else 3
    for name, state in STATES.items():
        missing = [it for it in state.needs if importlib.util.find_spec(it) is None]
        if missing:
            raise CouldNotMeasure(f"{name} needs {', '.join(missing)}, which is not installed.")
        tools = ["none", "pickle", "gpupool", *(["torch"] if "torch" in state.needs else [])]
        rows = {tool: [_row(tool, name, quick=report.quick) for _ in range(times)] for tool in tools}
        middle = {tool: _middle(found) for tool, found in rows.items()}
        _report(report, name, middle)
    report.add("importing ours, once in a kernel", middle["gpupool"]["ready"] * 1e3, "ms")


def _row(tool: str, name: str, *, quick: bool) -> Row:
    """Save with a tool in a process, and load in another one."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-bench-", dir="/var/tmp"))
    try:
        row = _process(tool, name, "save", folder, quick)
        return row if tool == "none" else row | _process(tool, name, "load", folder, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _process(tool: str, name: str, verb: str, folder: Path, quick: bool) -> Row:
    size = "quick" if quick else "full"
    command = [sys.executable, str(HERE / "_speed_process.py"), tool, name, verb, str(folder), size]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROCESS_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CouldNotMeasure(f"{verb} of {name} took longer than {_PROCESS_SECONDS:.0f} s.") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPUPOOL ")]
    if done.returncode != 0 or len(lines) != 1:
        raise CouldNotMeasure(f"{verb} of {name} by {tool} failed: {done.stderr[-500:]}")
    found: Row = json.loads(lines[0].removeprefix("GPUPOOL "))
    return found


def _middle(rows: list[Row]) -> Row:
    return {key: median(row[key] for row in rows) for key in rows[0]}


def _report(report: Report, name: str, rows: dict[str, Row]) -> None:
    """Add all figures of one kind of state."""
    ours, pickle = rows["gpupool"], rows["pickle"]
    small = pickle["first_bytes"] < _MB
    for tool, said in (("gpupool", "ours"), ("pickle", "pickle 5 + fsync"), ("torch", "torch.save + fsync")):
        if tool in rows:
            report.add(f"{name}: first save, {said}", rows[tool]["first"] * 1e3, "ms")
    report.add(f"{name}: limit: write as much + fsync", pickle["disk"] * 1e3, "ms")
    if not small:
        report.ratio(f"{name}: first save / pickle 5 + fsync", ours["first"], pickle["first"], "< 1.3")
        report.ratio(f"{name}: first save / write + fsync", ours["first"], pickle["disk"])
    report.add(f"{name}: unchanged save", ours["unchanged"] * 1e3, "ms", "< 50" if small else "< 100")
    report.add(f"{name}: unchanged save, written", ours["unchanged_bytes"] / 1024, "KiB", "< 64")
    report.add(f"{name}: one element changed, save", ours["changed"] * 1e3, "ms", "< 150")
    report.add(f"{name}: one element changed, written", ours["changed_bytes"] / _MB, "MB", "< 8")
    report.add(f"{name}: load, ours", ours["load"] * 1e3, "ms")
    report.add(f"{name}: load, pickle", pickle["load"] * 1e3, "ms")
    if not small:
        report.ratio(f"{name}: load / pickle's load", ours["load"], pickle["load"], "< 1.2")
        report.add(f"{name}: load again, ours", ours["load_again"] * 1e3, "ms")
        report.ratio(f"{name}: load again / pickle's load again", ours["load_again"], pickle["load_again"])
    extra = max(0.0, ours["peak_bytes"] - rows["none"]["peak_bytes"])
    report.add(f"{name}: memory that saving takes at its peak", extra / 2**20, "MiB", "< 64")


if __name__ == "__main__":
    sys.exit(run_benchmark("What saving and restoring a notebook's state costs", measure))
