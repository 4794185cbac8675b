"""Runs the self-test, and leaves nothing behind.

Rules of this module: whatever ends it (a signal, Ctrl-C, an error), children end and what was made for them
goes with them; progress goes to stderr, so that stdout is the result alone.
"""

from __future__ import annotations

import datetime
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from jupyter_gpupool._version import version
from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.paths import data_dir
from jupyter_gpupool.selftest.claims import SelfTestDoc
from jupyter_gpupool.selftest.cpu import prove_cpu
from jupyter_gpupool.selftest.gpu import GPUTest
from jupyter_gpupool.selftest.record import Record


class NotOnThisSystem(GPUPoolError):
    """Raised where there is nothing to test: devices are only leased on Linux. Run it on the node."""

    code = "not_on_this_system"


class Progress:
    """Says on stderr what is being done: one changing line in a terminal, else a line each."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()

    def tell(self, what: str) -> None:
        """Show what is being done now."""
        seconds = time.monotonic() - self._began
        line = f"{seconds:5.0f} s  {what}"
        if self._terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(f"\r\x1b[K{line[: max(20, width - 1)]}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def done(self) -> None:
        """Leave an empty line where the changing one was."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def run_selftest(device: str = "") -> SelfTestDoc:
    """Run all claims about this machine.

    Parameters
    ----------
    device : str
        Name or id of the only device that is tried; empty for all.
    """
    if not sys.platform.startswith("linux"):
        raise NotOnThisSystem(
            "Devices are leased on Linux only, so there is nothing to test here.",
            hint="Run it on the machine that has the devices.",
        )
    progress = Progress()
    record, book = Record(progress.tell), ProbeBook(data_dir() / PROBES_FILE)
    began = time.monotonic()
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        with _interruptible(), tempfile.TemporaryDirectory(prefix="jgp-st-") as folder:
            if device in {"", "cpu"}:
                prove_cpu(record, book)
            if device != "cpu":
                GPUTest(record, Path(folder), book).run(device)
    finally:
        progress.done()
    return SelfTestDoc(
        version=version(),
        when=when,
        machine={"system": f"{platform.system()} {platform.release()}", **record.machine},
        rungs=record.rungs,
        claims=record.claims,
        seconds=round(time.monotonic() - began, 1),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGTERM end the run as Ctrl-C does: by unwinding it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
