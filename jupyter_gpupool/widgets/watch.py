"""The one thread that reads the pool for widgets, while somebody looks at one.

Rules of this module: at most one thread for a process, and none while nobody looks; it ends by itself when
the kernel has run nothing for a while, so that a page that was lost costs nothing; it raises nothing, and the
end of the interpreter waits for nobody.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Protocol

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import PoolDoc

#: Pause between two looks, seconds.
PERIOD_SECONDS = 2.0
#: Longest pause while the pool does not answer, seconds.
LONGEST_PAUSE_SECONDS = 30.0
#: After the last sign of life it looks for so long, seconds.
MOST_SECONDS = 600.0


class Viewer(Protocol):
    """Something that shows the pool."""

    def show(self, doc: PoolDoc) -> None:
        """Show what was read."""

    def fail(self, sentence: str) -> None:
        """Say that nothing could be read, and why."""

    def rest(self) -> None:
        """Say that nothing is read any more until somebody asks for it."""


class Watch:
    """Reads the pool for those who look.

    Parameters
    ----------
    read : callable
        Reads the snapshot of the pool; raises errors of ours when it cannot.
    period_seconds, most_seconds : float
        Pause between two looks, and for how long it looks after the last sign of life.
    """

    def __init__(
        self,
        read: Callable[[], PoolDoc],
        *,
        period_seconds: float = PERIOD_SECONDS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self._read = read
        self._period_seconds = period_seconds
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._viewers: list[Viewer] = []
        self._thread: threading.Thread | None = None
        self._ends = 0.0

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def sign_of_life(self) -> None:
        """Note that somebody is there: a cell was run, or a widget was looked at."""
        self._ends = time.monotonic() + self._most_seconds

    def look(self, viewer: Viewer) -> None:
        """Read for this viewer, too, from now on."""
        self.sign_of_life()
        with self._lock:
            if viewer not in self._viewers:
                self._viewers.append(viewer)
            self._wake.set()
            if self._thread is None:
                # an empty context: nothing that it does belongs to the cell that happens to run
                self._thread = threading.Thread(
                    target=contextvars.Context().run,
                    args=(self._run,),
                    name="jupyter_gpupool monitor",
                    daemon=True,
                )
                self._thread.start()

    def leave(self, viewer: Viewer) -> None:
        """Read for this viewer no more; the thread ends when it was the last."""
        with self._lock:
            if viewer in self._viewers:
                self._viewers.remove(viewer)
            self._wake.set()

    def _next(self) -> list[Viewer]:
        """Return who looks; with nobody left the next `look` starts another thread."""
        with self._lock:
            resting: list[Viewer] = []
            if time.monotonic() >= self._ends:
                resting, self._viewers = self._viewers, []
            if not self._viewers:
                self._thread = None
            looking = list(self._viewers)
        for viewer in resting:
            viewer.rest()
        return looking

    def _run(self) -> None:
        pause = self._period_seconds
        while viewers := self._next():
            self._wake.clear()
            try:
                doc = self._read()
            except (GPUPoolError, OSError) as error:
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                for viewer in viewers:
                    viewer.fail(str(error))
            else:
                pause = self._period_seconds
                for viewer in viewers:
                    viewer.show(doc)
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        """Pause; whoever leaves last ends it, a new viewer too."""
        self._wake.wait(max(0.0, min(seconds, self._ends - time.monotonic())))
