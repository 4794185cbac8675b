"""What is shown while a state is saved or restored, and how the stop button stops it.

Rules of this module: nothing is shown in the first second; while work goes on the stop button only sets a
flag, which the work asks for where it can stop without harm; pressed again, it interrupts as it always does.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.lines import Line

#: What takes no longer shows nothing, seconds.
QUIET_SECONDS = 1.0
#: Pause between two updates, seconds.
PAUSE_SECONDS = 0.25


class Nowhere:
    """A line that is not shown."""

    def put(self, text: str) -> None:
        """Show nothing: in a log nothing is written over."""

    def close(self) -> None:
        """Do nothing."""


class Meter:
    """Shows how far work is, and says whether to stop it.

    Parameters
    ----------
    verb : str
        What is done ("Saving").
    choose : callable
        Chooses the line where it is shown; called when there is something to show.
    clock : callable
        Seconds of a clock that never goes back.
    """

    def __init__(
        self, verb: str, choose: Callable[[], Line], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._verb, self._choose, self._clock = verb, choose, clock
        self._line: Line | None = None
        self._began = self._shown = clock()
        self._done = self._total = 0
        self._stopped = threading.Event()

    def progress(self, done_bytes: int, total_bytes: int, what: str = "") -> None:
        """Note how far it is; any thread may call it. What is done now is not shown."""
        self._done, self._total = done_bytes, total_bytes
        if threading.current_thread() is threading.main_thread():
            self._show()

    def cancel(self) -> bool:
        """Tell whether to stop; called often by the thread that waits."""
        if threading.current_thread() is threading.main_thread():
            self._show()
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have it stopped where that does no harm."""
        self._stopped.set()

    def close(self) -> None:
        """Take the line away."""
        if self._line is not None:
            self._line.close()

    def text(self) -> str:
        """Say how far it is: "Saving: 1.2 GiB of 3.4 GiB, 640.0 MiB/s"."""
        from jupyter_gpupool.core.shares import format_memory

        if not self._done:
            return self._verb
        known = self._total > self._done  # else nobody knows how much it is
        of = f" of {format_memory(self._total)}" if known else ""
        rate = self._done / max(self._clock() - self._began, 1e-3)
        return f"{self._verb}: {format_memory(self._done)}{of}, {format_memory(int(rate))}/s"

    def _show(self) -> None:
        now = self._clock()
        if now - self._began >= QUIET_SECONDS and now - self._shown >= PAUSE_SECONDS:
            self._shown = now
            self._line = self._line or self._choose()
            self._line.put(f"{self.text()}{', stopping' if self._stopped.is_set() else ''}")


@contextmanager
def metered(verb: str, choose: Callable[[], Line] | None = None) -> Iterator[Meter]:
    """Show how far work is, with the stop button asking it to stop, for the length of a ``with`` block."""
    meter = Meter(verb, choose or _line_here)
    before = _take_interrupts(meter)
    try:
        yield meter
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        meter.close()


def _line_here() -> Line:
    from jupyter_gpupool.kernel.snapshots.lines import line_here

    return line_here()


def _take_interrupts(meter: Meter) -> Any:
    """Have the first interrupt stop the work; return what was in force, None where that is not possible."""
    if threading.current_thread() is not threading.main_thread():
        return None
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        return None  # somebody wants interrupts to do nothing, or to end the process

    def asked(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        meter.stop()

    signal.signal(signal.SIGINT, asked)
    return before
