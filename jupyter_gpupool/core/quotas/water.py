"""Sharing an amount out: what is deserved first, then the surplus by weight.

As water fills a vessel: the surplus rises in all columns in proportion to their weights, and whoever has got
what was asked for takes no more of it. Claims are kept by the level at which they are filled, so that a
change of one costs no look at the others.

Rule of this module: integers, rounded down, so that never more is given than there is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

#: Levels at which claims are filled are kept as whole numbers of this part of their unit.
_FINE = 1_000_000_000


class Claim(NamedTuple):
    """What one of several asks for.

    Attributes
    ----------
    base : int
        What it deserves of what it asks for.
    need : int
        What it asks for beyond that.
    weight : int
        Its weight, at least 1.
    """

    base: int
    need: int
    weight: int


class Level(NamedTuple):
    """How high the water stands: how much each claim gets is found from it and the claim alone.

    Attributes
    ----------
    base, of_base : int
        So much of what is deserved is given, of so much; 0 and 0 when all of it is.
    surplus, weight : int
        So much of the surplus is given to so much weight; a weight of 0 when everybody gets all.
    """

    base: int
    of_base: int
    surplus: int
    weight: int

    def share(self, claim: Claim) -> int:
        """Return what a claim gets."""
        if self.base < self.of_base:
            return claim.base * self.base // self.of_base
        if not self.weight:
            return claim.base + claim.need
        return claim.base + min(claim.need, self.surplus * claim.weight // self.weight)


#: The level at which everybody gets all.
ENOUGH = Level(0, 0, 0, 0)


class Vessel:
    """The claims of all who share one amount."""

    __slots__ = ("_at", "_available", "_keys", "_level", "base", "weight")

    def __init__(self) -> None:
        self.base = 0
        self.weight = 0
        # keys in order, and what is filled at each of them: needs and weights summed
        self._keys: list[int] = []
        self._at: dict[int, list[int]] = {}
        self._available = -1
        self._level: Level | None = None

    def replace(self, before: Claim | None, after: Claim | None) -> None:
        """Take one claim out, and another one in."""
        if before == after:
            return
        if before is not None:
            self._count(before, -1)
        if after is not None:
            self._count(after, 1)
        self._level = None

    def _count(self, claim: Claim, sign: int) -> None:
        self.base += sign * claim.base
        if not claim.need:
            return
        self.weight += sign * claim.weight
        key = claim.need * _FINE // claim.weight
        there = self._at.get(key)
        if there is None:
            there = self._at[key] = [0, 0]
            insort(self._keys, key)
        there[0] += sign * claim.need
        there[1] += sign * claim.weight
        if not there[1]:
            del self._at[key], self._keys[bisect_left(self._keys, key)]

    def level(self, available: int) -> Level:
        """Find how high so much water stands."""
        if self._level is None or available != self._available:
            self._available = available
            self._level = self._fill(available)
        return self._level

    def _fill(self, available: int) -> Level:
        if available < self.base:
            return Level(available, self.base, 0, 1)
        surplus, weight = available - self.base, self.weight
        for key in self._keys:
            if surplus * _FINE < key * weight:
                break
            need, of_weight = self._at[key]
            surplus, weight = surplus - need, weight - of_weight
        # where everybody gets all, it stays the same level whatever is left
        return Level(0, 0, surplus, weight) if weight else ENOUGH
