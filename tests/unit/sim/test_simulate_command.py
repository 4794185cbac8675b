"""`jupyter gpupool simulate` as a person runs it: real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.sim.command import run_command
from jupyter_gpupool.sim.options import Options

COMMAND = (sys.executable, "-m", "jupyter_gpupool", "simulate")
SMALL = ("--pool", "2xT4-16GB", "--users", "6", "--days", "0.25", "--seed", "3")


def run(*options: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, options)], capture_output=True, text=True, timeout=timeout, check=False
    )


def test_two_policies_are_compared_in_a_table_and_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run(*SMALL, "--compare", "plain", "--html", report)
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "6 notebook users for 0.25 days",
        "device-hours held",
        "order=fifo",
        "events in",
        str(report),
    ):
        assert words in done.stdout
    page = report.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<figure>") == 6


def test_json_is_the_same_for_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    documents = [json.loads(run(*SMALL, "--json").stdout)]
    assert run_command(Options(pool="2xT4-16GB", users=6, days=0.25, seed=3, as_json=True)) == 0
    documents.append(json.loads(capsys.readouterr().out))
    for document in documents:
        for outcome in document["outcomes"]:
            del outcome["seconds"]
    assert documents[0] == documents[1]
    assert documents[0]["outcomes"][0]["success"] == 1


def test_what_means_nothing_is_one_sentence_and_a_status() -> None:
    done = run(*SMALL, "--compare", "order=best")
    assert done.returncode == 1
    assert "fair, fifo" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(policy="place=nowhere"), "place"),
        (Options(users=-5), "-5 users"),
        (Options(journal="/nowhere/journal.sqlite"), "/nowhere/journal.sqlite"),
        (Options(begins="soon"), "soon"),
        (Options(pinned="nobody"), "nobody"),
        (Options(policy="reservations=5"), "no setting “reservations”"),
        (Options(days=0), "0 days"),
        (Options(pool="8xNOPE"), "8xNOPE"),
        (Options(openb="/nowhere/pods.csv"), "/nowhere/pods.csv"),
        (Options(pool="openb:/nowhere"), "/nowhere"),
        (Options(html="/nowhere/report.html"), "/nowhere/report.html"),
        (Options(load=-1), "load of -1"),
        (Options(journal="a", openb="b"), "at once"),
        (Options(sizes="big"), "big"),
    ],
)
def test_whatever_is_written_is_looked_at_before_anything_is_played(options: Options, told: str) -> None:
    with pytest.raises(GPUPoolError, match=re.escape(told)):
        run_command(options)


def test_nothing_is_started_where_no_pool_runs() -> None:
    done = run("--pool", "live")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 8


def test_it_can_be_interrupted(tmp_path: Path) -> None:
    command = [*COMMAND, "--users", "3000", "--days", "30", "--html", str(tmp_path / "report.html")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # the report's file is made when the options have been read: from then on it plays
        for _ in range(600):
            if (tmp_path / "report.html").exists() or child.poll() is not None:
                break
            _wait(child, 0.1)
        os.kill(child.pid, signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 130, errors
    assert "Traceback" not in errors


def _wait(child: subprocess.Popen[str], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
