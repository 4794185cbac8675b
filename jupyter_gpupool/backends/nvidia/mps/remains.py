"""Processes of a daemon that was killed.

Rules of this module: a process counts only when it bears MPS's name *and* its environment names our pipe
directory; it is ended by its pid and start time, after another look.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS, read_bytes, read_text

#: Name of daemon and servers in /proc, which keeps 15 characters.
_NAME = "nvidia-cuda-mps"
_POLL_SECONDS = 0.02


def mark_of(procfs: ProcFS, pid: int) -> ProcessMark | None:
    """Return a process's name for life; None when it is gone."""
    stat = procfs.stat(pid)
    return None if stat is None or stat.over else stat.mark


def of_daemon(procfs: ProcFS, pipes: Path) -> list[ProcessMark]:
    """List what lives of the daemon in a pipe directory: itself and its servers."""
    wanted = f"CUDA_MPS_PIPE_DIRECTORY={pipes}".encode()
    found = []
    for pid, stat in procfs.processes().items():
        if (read_text(f"{procfs.root}/{pid}/comm") or "").strip() != _NAME:
            continue
        if wanted in (read_bytes(f"{procfs.root}/{pid}/environ") or b"").split(b"\0"):
            found.append(stat.mark)
    return found


def end(procfs: ProcFS, marks: list[ProcessMark], *, seconds: float) -> list[ProcessMark]:
    """Kill processes and wait until they are gone; return those that are not."""
    for mark in marks:
        if procfs.alive(mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(mark.pid, signal.SIGKILL)
    return wait_gone(procfs, marks, seconds=seconds)


def wait_gone(procfs: ProcFS, marks: list[ProcessMark], *, seconds: float) -> list[ProcessMark]:
    """Wait until processes are gone; return those that are not in time."""
    deadline = time.monotonic() + seconds
    while (left := [mark for mark in marks if procfs.alive(mark)]) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return left
