"""When something that failed is tried again.

Rule of this module: pauses grow while faults follow each other, and shrink again after a time without any.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Decides when the next try is due.

    Parameters
    ----------
    shortest_seconds, longest_seconds : float
        Bounds of the pause between two tries.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, shortest_seconds: float, longest_seconds: float, clock: Callable[[], float]) -> None:
        self._shortest = shortest_seconds
        self._longest = longest_seconds
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget all tries: the next one is due at once."""
        self._pause = self._shortest
        self._tried: float | None = None
        self._due = -float("inf")

    @property
    def due(self) -> bool:
        """True when it may be tried (again)."""
        return self._clock() >= self._due

    def tried(self) -> None:
        """Note that it was tried now."""
        self._tried = self._clock()
        self._due = self._tried + self._pause

    def fault(self) -> None:
        """Note that what had worked failed afterwards; the pause after the next try grows."""
        recent = self._tried is not None and self._clock() - self._tried < 2 * self._longest
        self._pause = min(2 * self._pause, self._longest) if recent else self._shortest
