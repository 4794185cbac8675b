"""What it costs to watch eight GPUs once a second, with their health.

The GPUs are those of the fake driver that the tests use (compiled here), so that every call is really made;
where this machine has GPUs of its own, they are measured too. In the same run and at the same pace: the same
NVML calls made by pynvml alone, which nothing that reads as much can do without.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _common import HERE, CouldNotMeasure, Report, percentile, run_benchmark

sys.path.insert(0, str(HERE.parent))
from tests.support.fake_gpus import FakeGPUs

GPUS = 8


def measure(report: Report) -> None:
    """Measure eight fake GPUs, and real ones where there are any."""
    if not (shutil.which("cc") or shutil.which("gcc")):
        raise CouldNotMeasure("there is no C compiler for the fake driver; install gcc.")
    seconds = 4.0 if report.quick else 60.0
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as directory:
        fake = FakeGPUs(Path(directory)).a100(GPUS)
        taken = _sample({**os.environ, **fake.environment()}, seconds)
    if taken["problem"]:
        raise CouldNotMeasure(taken["problem"])
    _report(report, taken, f"{GPUS} fake GPUs", goal="< 1")
    real = _sample(dict(os.environ), seconds)
    if real["problem"]:
        report.notes.append(f"No real GPU was measured: {real['problem']}")
    else:
        _report(report, real, f"{real['gpus']} x {real['model']}", goal="")
    report.notes.append(f"{taken['readings']} readings a sample, {taken['hertz']:.2f} samples a second.")


def _report(report: Report, taken: dict[str, Any], what: str, *, goal: str) -> None:
    report.add(f"sampler with health, {what} at 1 Hz (of one core)", taken["ours"] * 100, "%", goal)
    report.add(f"peer: the same NVML calls alone, {what}", taken["bare"] * 100, "%")
    report.ratio(f"sampler / calls alone, {what}", taken["ours"], taken["bare"])
    report.add(
        f"a consumer's wait for the newest sample, p99, {what}", percentile(taken["waits"], 99) * 1e3, "ms"
    )


def _sample(environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """Run the sampler in a process of its own: it can load one driver's library only."""
    command = [sys.executable, str(HERE / "_sampler_process.py"), str(seconds)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=seconds + 60, check=False
    )
    if done.returncode != 0:
        raise CouldNotMeasure(f"the process that samples failed: {done.stderr[-2000:]}")
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


if __name__ == "__main__":
    sys.exit(run_benchmark("What watching GPUs costs", measure))
