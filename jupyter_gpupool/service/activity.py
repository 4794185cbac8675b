"""Whether anybody uses this service: an embedded one ends by itself when nobody does.

Rule of this module: any request counts, and an open stream or long poll counts for as long as it is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """Remembers the last sign of a client.

    Parameters
    ----------
    monotonic : callable
        Seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self._open = 0

    def touch(self) -> None:
        """Note a request."""
        self._last = self._monotonic()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Note a client for as long as it stays."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self.touch()

    @property
    def idle_seconds(self) -> float:
        """For how long there has been no client."""
        return 0.0 if self._open else self._monotonic() - self._last
