"""How far a checkpoint or restore is, and whether it is to stop.

Rule of this module: whoever is asked is asked in the thread that called, and not more often than it matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jupyter_gpupool.state.errors import Cancelled

#: Nobody looks at progress more often, seconds.
_PAUSE_SECONDS = 0.05


class Ticker:
    """Tells how far it is, and raises when it is to stop.

    Parameters
    ----------
    progress : callable or None
        Called with bytes done, all bytes, and what is being done.
    cancel : callable or None
        Asked whether to stop.
    doing : str
        "checkpoint" or "restore".
    """

    def __init__(
        self,
        progress: Callable[[int, int, str], None] | None,
        cancel: Callable[[], bool] | None,
        doing: str,
    ) -> None:
        self._progress, self.cancel, self._doing = progress, cancel, doing
        self._next = time.monotonic() + _PAUSE_SECONDS
        self.done_bytes = 0
        self.total_bytes = 0
        self.what = ""

    def tick(self, what: str = "") -> None:
        """Go on to another variable."""
        if time.monotonic() >= self._next:
            self.what = what or self.what
            self._tell()

    def add(self, nbytes: int) -> None:
        """Count bytes that are done."""
        self.done_bytes += nbytes
        self.tick()

    def reached(self, nbytes: int) -> None:
        """Take in how many bytes are done so far."""
        self.done_bytes = nbytes
        self.tick()

    def check(self) -> None:
        """Stop if that was asked for."""
        if self.cancel is not None and self.cancel():
            raise Cancelled(f"The {self._doing} was stopped; nothing was changed.")

    def _tell(self) -> None:
        self._next = time.monotonic() + _PAUSE_SECONDS
        if self._progress is not None:
            total = max(self.total_bytes, self.done_bytes)
            self._progress(self.done_bytes, total, self.what)
        self.check()
