"""Distributions that were published as quantiles, read in between.

Rule of this module: what is read depends on the table and the part alone; nothing is drawn here.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise


class Quantiles:
    """One distribution: between two points by the logarithm, next to zero in proportion.

    Parameters
    ----------
    points : tuple of (float, float)
        A part of all, and the value that so many do not exceed; ascending in both.
    """

    def __init__(self, *points: tuple[float, float]) -> None:
        self._parts = [part for part, _ in points]
        self.last = points[-1]
        self._first = points[0][1]
        #: For each gap between two points: where it begins, how wide it is, its lower value, and what that
        #: grows by over it: the ratio of both values, or their difference (negated) where the lower one is 0.
        self._gaps: list[tuple[float, float, float, float]] = []
        for (low, below), (high, above) in pairwise(points):
            grows = above / below if below > 0 else below - above
            self._gaps.append((low, high - low, below, grows))

    def at(self, part: float) -> float:
        """Return the value at a part of all."""
        place = bisect_right(self._parts, part)
        if place == 0:
            return self._first
        if place > len(self._gaps):
            return self.last[1]
        low, width, below, grows = self._gaps[place - 1]
        where = (part - low) / width
        if below <= 0:
            return below - where * grows
        return float(below * grows**where)
