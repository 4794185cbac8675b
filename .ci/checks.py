"""Runs every check of the project, goes on after a failing one, and counts.

Rule of this module: the standard library only, since it runs before the environment is made. The last line
it prints is ``N passed, N failed``; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from lab_tryout import lab_answers
from wheel_tryout import wheel_checks

ROOT = Path(__file__).resolve().parent.parent
#: Longest time for one check, seconds; the whole run has to end within 90 minutes.
CHECK_SECONDS = 45 * 60


@dataclass
class Tally:
    """What passed so far, and the names of what failed."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, name: str, run: Callable[[], None]) -> bool:
        """Run one check that counts as one test; it fails by raising."""
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        try:
            run()
        except Exception as error:  # every fault of a check is its failure, and the others still run
            print(f"{name}: {error}", flush=True)
            self.failed.append(name)
            return False
        print(f"--- {name}: ok ({time.monotonic() - started:.0f} s)", flush=True)
        self.passed += 1
        return True

    def pytest(self, name: str, command: list[str], report: Path, environment: dict[str, str]) -> None:
        """Run pytest and count its tests one by one from its report."""
        print(f"\n=== {name}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=environment, timeout=CHECK_SECONDS, check=False)
        try:
            cases = ElementTree.parse(report).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            self.failed.append(f"{name} (no report: {error})")
            return
        failed_before = len(self.failed)
        for case in cases:
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                self.failed.append(f"{case.get('classname')}::{case.get('name')}")
            elif "skipped" not in outcomes:
                self.passed += 1
        if done.returncode != 0 and len(self.failed) == failed_before:
            self.failed.append(f"{name} (exit status {done.returncode})")


def shell(*command: str | Path, environment: dict[str, str], cwd: Path = ROOT) -> None:
    """Run a command; its exit status decides."""
    line = [str(part) for part in command]
    done = subprocess.run(line, cwd=cwd, env=environment, timeout=CHECK_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode} of {' '.join(line)}")


def lockfile_names_no_host() -> None:
    """Check that the lock of the front end works with any registry."""
    if '"resolved"' in (ROOT / "labextension" / "package-lock.json").read_text():
        raise RuntimeError(
            "labextension/package-lock.json names a registry; make it without resolved addresses"
        )


def run_all(tally: Tally, python: str, scratch: Path) -> None:
    """Run the checks in the order in which a fault is cheapest to see."""
    environment = dict(os.environ)
    venv = ROOT / ".venv"
    made = tally.check(
        "make the environment",
        lambda: shell("make", "environment-dev", f"PYTHON={python}", environment=environment),
    )
    if not made:
        return
    for target in ("lint", "types", "contracts", "front-end"):
        tally.check(f"make {target}", partial(shell, "make", target, environment=environment))
    tally.check("the front end's lock names no registry", lockfile_names_no_host)
    pytest = [str(venv / "bin" / "python"), "-m", "pytest", "-q", "--junitxml={}", "-m"]
    for name, arguments in (
        ("make test", ["make", "test", "ARGS=-q --junitxml={}"]),
        ("slow tests side by side", [*pytest, "slow and beside", "-n", "2", "--dist", "loadgroup"]),
        ("slow tests one by one", [*pytest, "slow and not beside"]),
    ):
        report = scratch / f"{name.replace(' ', '-')}.xml"
        command = [argument.format(report) for argument in arguments]
        tally.pytest(name, command, report, environment)
    tally.check("make lab opens JupyterLab with a pool", lambda: lab_answers(ROOT, scratch))
    tally.check("make docs", lambda: shell("make", "docs", environment=environment))
    wheel_checks(tally.check, root=ROOT, python=python, venv=venv, scratch=scratch)


def main() -> int:
    """Run everything and print the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="makes the virtual environments")
    options = parser.parse_args()
    tally = Tally()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpupool-ci-") as scratch:
        try:
            run_all(tally, options.python, Path(scratch))
        except Exception as error:  # the count has to come out whatever happens
            tally.failed.append(f"the run itself: {error!r}")
    print(f"\nAll checks took {time.monotonic() - started:.0f} s.")
    for name in tally.failed:
        print(f"FAILED {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed", flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
