"""Whether a cell runs: told to the pool, so that it knows which leases nobody uses.

Rules of this module: a cell pays for setting a flag and nothing else; a thread tells when a cell begins, and
when none has run for a while. A pool that is away is told later; nobody waits for it.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

#: After a cell has ended it is told only when no other has begun for so long, seconds.
SETTLE_SECONDS = 5.0
#: Pause before the pool is told again when it could not be reached, seconds; it doubles up to the longest.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0

#: Tells the pool whether a cell runs, and for how many seconds none has; raises when it cannot.
Tell = Callable[[bool, float], None]


class ActivityReporter:
    """Follows the cells of a shell while this process holds a lease.

    Parameters
    ----------
    shell : InteractiveShell
        The notebook's shell.
    tell : callable
        Tells the pool.
    settle_seconds : float
        How long no cell runs before that is told.
    """

    def __init__(self, shell: Any, tell: Tell, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._shell = shell
        self._tell = tell
        self._settle_seconds = settle_seconds
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._running = False
        #: True when a cell has begun since the thread last looked, however short it was.
        self._began = False
        self._ended = time.monotonic()
        #: What the pool was told last: whether a cell runs; None when it has to be told.
        self._told: bool | None = None
        self._stop: threading.Event | None = None

    def open(self, *, running: bool) -> None:
        """Follow cells from now on.

        Parameters
        ----------
        running : bool
            Whether one runs now.
        """
        with self._lock:
            self._running, self._ended = running, time.monotonic()
            self._told = None
            self._wake.set()
            if self._stop is not None:
                return
            stop = self._stop = threading.Event()
        self._shell.events.register("pre_run_cell", self._cell_starts)
        self._shell.events.register("post_run_cell", self._cell_ends)
        thread = threading.Thread(
            target=contextvars.Context().run,
            args=(self._run, stop),
            name="jupyter_gpupool activity",
            daemon=True,
        )
        thread.start()

    def close(self) -> None:
        """Follow them no more; waits for nothing."""
        with self._lock:
            stop, self._stop = self._stop, None
        if stop is None:
            return
        stop.set()
        self._wake.set()
        self._shell.events.unregister("pre_run_cell", self._cell_starts)
        self._shell.events.unregister("post_run_cell", self._cell_ends)

    def again(self) -> None:
        """Tell it anew: the pool does not know it."""
        self._told = None
        self._wake.set()

    def _cell_starts(self, *_: object) -> None:
        self._running = self._began = True
        if self._told is not True:
            self._wake.set()

    def _cell_ends(self, *_: object) -> None:
        self._ended = time.monotonic()
        self._running = False
        self._wake.set()

    def _run(self, stop: threading.Event) -> None:
        """Tell what changes until it is stopped."""
        pause = FIRST_PAUSE_SECONDS
        while not stop.is_set():
            self._wake.clear()
            busy, self._began = self._running or self._began, False
            idle_seconds = time.monotonic() - self._ended
            if not busy and self._told is True and idle_seconds < self._settle_seconds:
                self._wake.wait(self._settle_seconds - idle_seconds)
                continue
            if busy is self._told:
                self._wake.wait(None if self._running or not busy else self._settle_seconds)
                continue
            try:
                self._told = busy  # before: a change meanwhile is told with the next round
                self._tell(busy, 0.0 if busy else idle_seconds)
                pause = FIRST_PAUSE_SECONDS
            except Exception:  # whatever it is: no traceback of ours in somebody's notebook
                self._told = None
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
