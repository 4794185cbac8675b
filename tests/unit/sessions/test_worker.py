"""The process of a worker, where there is nothing for it to do."""

from __future__ import annotations

import subprocess
import sys

from jupyter_gpupool.sessions.worker import FAILED, ORPHANED


def run(told: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a worker's process with this on its input."""
    command = [sys.executable, "-m", "jupyter_gpupool.sessions.worker"]
    return subprocess.run(command, input=told, capture_output=True, timeout=60, check=False)


def test_a_worker_whose_kernel_died_before_it_said_anything_ends() -> None:
    done = run(b'{"format": 1, "na')
    assert (done.returncode, done.stdout, done.stderr) == (ORPHANED, b"", b"")


def test_an_order_that_cannot_be_read_is_one_sentence() -> None:
    done = run(b'{"format": 1}\n')
    assert done.returncode == FAILED
    assert done.stderr.count(b"\n") == 1
    assert b"cannot be read" in done.stderr
