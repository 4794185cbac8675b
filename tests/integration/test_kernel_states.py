"""Every described state of a kernel, saved in one process and restored in a fresh one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel_states import State, states

ADAPTER = Path(__file__).resolve().parents[2] / "benchmarks" / "state_adapter.py"

pytestmark = [pytest.mark.slow, pytest.mark.beside]


def call(directory: Path, verb: str, *files: Path) -> str:
    """Make one call of the adapter's protocol; returns the verdict, and what went wrong."""
    command = [sys.executable, str(ADAPTER), verb, str(directory), *map(str, files)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100, check=False)
    said = done.stdout.splitlines()
    return said[-1] if said else f"died: {done.stderr[-2000:]}"


def written(path: Path, text: str) -> Path:
    """Write a file for the protocol."""
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("state", states(), ids=lambda state: state.name)
def test_a_state_comes_back_or_is_reported(state: State, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    work = tmp_path / "work"
    work.mkdir()
    assert call(work, "save", written(tmp_path / "cells.json", json.dumps(state.cells))) == "SAVED"
    said = call(work, "restore", written(tmp_path / "check.py", state.check))
    if not said.startswith("REPORTED"):
        assert said == "OK"
        return
    names = set(re.findall(r"\w+", said.removeprefix("REPORTED")))
    assert names <= state.may_report, f"{names} were reported, where {set(state.may_report)} may be"
    assert call(work, "restore", written(tmp_path / "rest.py", state.rest)) == "OK"
