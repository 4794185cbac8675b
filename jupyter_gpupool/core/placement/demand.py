"""What has been asked for so far, as policies use it.

Rules of this module: running statistics only, never the future; a `Demand` is a value, made anew now and
then by the book that counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jupyter_gpupool.core.placement.prices import worth_table
from jupyter_gpupool.core.placement.rooms import Ask, Room

#: Requests after which the statistics are drawn up anew; then after each so many.
_REFRESHES, _EVERY = (50, 100, 200, 400, 800), 800
#: Typical shapes are the most frequent ones that make up this part of all requests.
_TYPICAL_PART = 0.95


class Shape(NamedTuple):
    """A typical request; main memory is left out."""

    cpu_milli: int
    milli: int
    devices: int
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """Statistics of requests.

    Attributes
    ----------
    requests : int
        How many were counted; 0 for none yet.
    cores_per_device : float
        Cores that requests for devices ask for with each whole device; 0 when unknown.
    worth : tuple of float
        Worth of free thousandths of a device, in devices (0 to 1000).
    pressure : mapping of str to float
        By model, how scarce it is for those who insist on models: 0 not at all, 1 as scarce as can be.
    typical : tuple of (Shape, float)
        Typical requests and their parts of all.
    """

    requests: int = 0
    cores_per_device: float = 0.0
    worth: tuple[float, ...] = field(default_factory=lambda: worth_table({}))
    pressure: Mapping[str, float] = field(default_factory=dict)
    typical: tuple[tuple[Shape, float], ...] = ()


def demand_of(asks: Iterable[Ask], capacity: Mapping[str, int]) -> Demand:
    """Draw the statistics of these requests up.

    Parameters
    ----------
    asks : iterable of Ask
        The requests.
    capacity : mapping of str to int
        Devices of each model in the pool.
    """
    book = DemandBook(capacity)
    for ask in asks:
        book.count(ask)
    return book.demand()


class DemandBook:
    """Counts requests.

    Parameters
    ----------
    capacity : mapping of str to int
        Devices of each model in the pool.
    """

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self._capacity = dict(capacity)
        self._shapes: Counter[Shape] = Counter()
        self._requests = 0

    def set_capacity(self, capacity: Mapping[str, int]) -> None:
        """Take over how many devices of each model the pool has now."""
        self._capacity = dict(capacity)

    def count(self, ask: Ask) -> bool:
        """Count a request; tell whether the statistics should be drawn up anew."""
        self._shapes[Shape(ask.cpu_milli, ask.milli, ask.devices, ask.models)] += 1
        self._requests += 1
        return self._requests in _REFRESHES or (
            self._requests > _REFRESHES[-1] and self._requests % _EVERY == 0
        )

    def demand(self) -> Demand:
        """Draw the statistics up."""
        with_devices = [(shape, times) for shape, times in self._shapes.items() if shape.devices]
        sizes: Counter[int] = Counter()
        for shape, times in with_devices:
            sizes[shape.milli] += times * shape.devices
        return Demand(
            requests=self._requests,
            cores_per_device=_cores_per_device(with_devices),
            worth=worth_table(sizes),
            pressure=_pressure(with_devices, self._capacity),
            typical=_typical(self._shapes),
        )

    def rows(self) -> list[tuple[Shape, int]]:
        """List what was counted, so that it can be written down."""
        return sorted(self._shapes.items())

    def restore(self, rows: Iterable[tuple[Shape, int]]) -> None:
        """Take over what was written down."""
        self._shapes = Counter(dict(rows))
        self._requests = self._shapes.total()


def _cores_per_device(shapes: Sequence[tuple[Shape, int]]) -> float:
    devices = sum(shape.devices * shape.milli * times for shape, times in shapes)
    return sum(shape.cpu_milli * times for shape, times in shapes) / devices if devices else 0.0


def _pressure(shapes: Sequence[tuple[Shape, int]], capacity: Mapping[str, int]) -> dict[str, float]:
    """Compare the demand that insists on a model with the model's part of the pool."""
    total = sum(shape.devices * shape.milli * times for shape, times in shapes)
    devices = sum(capacity.values())
    wanted = dict.fromkeys(capacity, 0.0)
    for shape, times in shapes:
        allowed = [model for model in shape.models if model in capacity]
        room = sum(capacity[model] for model in allowed)
        for model in allowed:
            wanted[model] += times * shape.devices * shape.milli * capacity[model] / room if room else 0.0
    return {
        model: min(1.0, (wanted[model] / total) / (count / devices)) if total and count else 0.0
        for model, count in capacity.items()
    }


def _typical(shapes: Mapping[Shape, int]) -> tuple[tuple[Shape, float], ...]:
    """Choose the most frequent shapes, until they make up most of all requests."""
    total = sum(shapes.values())
    chosen: list[tuple[Shape, int]] = []
    taken = 0
    for shape, times in sorted(shapes.items(), key=lambda it: (it[1], it[0]), reverse=True):
        if taken >= _TYPICAL_PART * total:
            break
        chosen.append((shape, times))
        taken += times
    return tuple((shape, times / taken) for shape, times in chosen)


def stranded(room: Room, cores_per_device: float) -> float:
    """Return how many of a node's idle devices nobody can use, because its cores are taken; in devices."""
    if cores_per_device <= 0:
        return 0.0
    return max(0.0, (room.free_milli - room.cpu_milli / cores_per_device) / 1000)
