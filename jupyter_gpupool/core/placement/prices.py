"""What a part of a device is worth, from the sizes that people ask for.

Sizes that cannot be combined waste the rest of a device: 0.81 leaves 0.19 that nobody asks for, so it takes a
whole device in effect. The prices are the dual values of the cutting-stock problem: as high as possible for
what is asked, such that no set of sizes that fits one device costs more than one device. They are found by
column generation (Gilmore and Gomory, 1961), with a knapsack table for the dearest set.

Rules of this module: pure and deterministic; a bounded number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Sizes are rounded up to so many thousandths.
GRAIN_MILLI = 10
#: How many grains a device has.
_GRAINS = 1000 // GRAIN_MILLI
#: What counts as nothing, and after how many steps an answer is taken as it is.
_TINY, _MOST_PIVOTS = 1e-9, 400
#: Sizes beyond the most frequent ones are rare: they cost what their neighbours cost.
_MOST_SIZES = 24


def worth_table(histogram: Mapping[int, int]) -> tuple[float, ...]:
    """Return what a free part of a device is worth, in devices, by thousandths (0 to 1000).

    Parameters
    ----------
    histogram : mapping of int to int
        How often each size was asked for, by thousandths of one device.

    Returns
    -------
    tuple of float
        The value of the most valuable set of sizes that fits in so many thousandths; 1 at 1000.
    """
    sizes = _sizes(histogram)
    if not sizes:
        return tuple(milli / 1000 for milli in range(1001))
    grains, weights = zip(*sizes, strict=True)
    table = _knapsack(grains, _prices(grains, weights))[0]
    whole = table[_GRAINS]
    return tuple(table[milli // GRAIN_MILLI] / whole for milli in range(1001))


def _sizes(histogram: Mapping[int, int]) -> list[tuple[int, int]]:
    """Round sizes up to grains, and keep the most frequent."""
    merged: dict[int, int] = {}
    for milli, times in histogram.items():
        grains = min(_GRAINS, -(-milli // GRAIN_MILLI))
        if grains > 0 and times > 0:
            merged[grains] = merged.get(grains, 0) + times
    frequent = sorted(merged.items(), key=lambda it: (-it[1], it[0]))[:_MOST_SIZES]
    return sorted(frequent)


def _prices(grains: Sequence[int], weights: Sequence[int]) -> list[float]:
    """Solve the cutting-stock problem by column generation; its dual values are the prices."""
    basis = _Basis(grains, weights)
    for _ in range(_MOST_PIVOTS):
        prices = basis.prices()
        lowest = min(range(len(prices)), key=prices.__getitem__)
        if prices[lowest] < -_TINY:
            basis.enter_surplus(lowest)
            continue
        table, chosen = _knapsack(grains, prices)
        if table[_GRAINS] <= 1 + _TINY:
            break
        basis.enter_set(chosen)
    return [max(0.0, price) for price in basis.prices()]


class _Basis:
    """A basis of the linear program, by its inverse: sets of sizes, so many times each, cover what is asked.

    Parameters
    ----------
    grains, weights : sequence of int
        The sizes, and how often each is asked for.
    """

    def __init__(self, grains: Sequence[int], weights: Sequence[int]) -> None:
        size = len(grains)
        each = [_GRAINS // it for it in grains]
        self._inverse = [
            [1 / each[row] if row == column else 0.0 for column in range(size)] for row in range(size)
        ]
        # slightly different amounts keep the method from going round in circles
        self._amounts = [(weight + (row + 1) * 1e-6) / each[row] for row, weight in enumerate(weights)]
        self._costs = [1.0] * size

    def prices(self) -> list[float]:
        """Return the dual values."""
        rows = range(len(self._costs))
        return [sum(self._costs[row] * self._inverse[row][column] for row in rows) for column in rows]

    def enter_set(self, chosen: Sequence[int]) -> None:
        """Use a set of sizes."""
        self._pivot([sum(a * b for a, b in zip(row, chosen, strict=True)) for row in self._inverse], 1.0)

    def enter_surplus(self, size: int) -> None:
        """Let more of a size be covered than is asked for."""
        self._pivot([-row[size] for row in self._inverse], 0.0)

    def _pivot(self, column: Sequence[float], cost: float) -> None:
        """Take a column into the basis, in place of the one that reaches zero first."""
        leaving = min(
            (row for row, value in enumerate(column) if value > _TINY),
            key=lambda row: self._amounts[row] / column[row],
        )
        pivot = column[leaving]
        times = self._amounts[leaving] / pivot
        scaled = [value / pivot for value in self._inverse[leaving]]
        for row, factor in enumerate(column):
            if row != leaving and factor:
                self._amounts[row] = max(0.0, self._amounts[row] - factor * times)
                self._inverse[row] = [a - factor * b for a, b in zip(self._inverse[row], scaled, strict=True)]
        self._inverse[leaving], self._amounts[leaving], self._costs[leaving] = scaled, times, cost


def _knapsack(grains: Sequence[int], prices: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the dearest set for each room, and how often each size is in that of a whole device."""
    table, last = [0.0] * (_GRAINS + 1), [-1] * (_GRAINS + 1)
    items = list(enumerate(zip(grains, prices, strict=True)))
    for room in range(1, _GRAINS + 1):
        value, choice = table[room - 1], -1
        for index, (size, price) in items:
            if size <= room and table[room - size] + price > value + 1e-12:
                value, choice = table[room - size] + price, index
        table[room], last[room] = value, choice
    counts, room = [0] * len(grains), _GRAINS
    while room > 0:
        if (choice := last[room]) < 0:
            room -= 1
        else:
            counts[choice] += 1
            room -= grains[choice]
    return table, counts
