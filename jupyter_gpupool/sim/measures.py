"""What is measured while a workload is played.

Rules of this module: sums are kept in integers as time passes, so that nothing depends on how often anybody
looks; what still waits at the end counts as having waited until then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: How many points a series over time has.
POINTS = 240
#: Below this a wait counts as none, milliseconds.
AT_ONCE_MS = 1000
_HOUR_MILLI_MS = 1000 * 3_600_000


@dataclass(slots=True)
class Waits:
    """Waits of one kind, milliseconds."""

    served: list[int] = field(default_factory=list)
    unserved: list[int] = field(default_factory=list)

    def summary(self) -> WaitSummary:
        """Return percentiles over all, those included that were never served."""
        ordered = sorted(self.served + self.unserved)
        at_once = sum(it <= AT_ONCE_MS for it in self.served)
        count = len(ordered)
        return WaitSummary(
            count=count,
            served=len(self.served),
            p50_seconds=percentile(ordered, 0.50) / 1000,
            p95_seconds=percentile(ordered, 0.95) / 1000,
            p99_seconds=percentile(ordered, 0.99) / 1000,
            longest_seconds=(ordered[-1] if ordered else 0) / 1000,
            within_1s=at_once / count if count else 1.0,
            curve=_curve(ordered),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitSummary:
    """Waits of one kind.

    Attributes
    ----------
    count, served : int
        How many there were, and how many of them ended with a share.
    p50_seconds, p95_seconds, p99_seconds, longest_seconds : float
        Over all of them; who still waits at the end has waited until then.
    within_1s : float
        The part of all that was served within a second.
    curve : tuple of (float, float)
        Seconds, and the part of all that waited no longer.
    """

    count: int
    served: int
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    longest_seconds: float
    within_1s: float
    curve: tuple[tuple[float, float], ...]


def percentile(ordered: Sequence[int], part: float) -> int:
    """Return the smallest value that at least a part of all values do not exceed; 0 of none."""
    if not ordered:
        return 0
    rank = -(-round(part * 1_000_000) * len(ordered) // 1_000_000)
    return ordered[max(0, min(len(ordered), rank) - 1)]


def _curve(ordered: Sequence[int], points: int = 120) -> tuple[tuple[float, float], ...]:
    """Return the distribution at times that are spread evenly by their logarithm."""
    if not ordered:
        return ()
    top = max(1000, ordered[-1])
    times = sorted({round(100 * (top / 100) ** (at / points)) for at in range(points + 1)})
    return tuple((ms / 1000, _up_to(ordered, ms)) for ms in times)


def _up_to(ordered: Sequence[int], ms: int) -> float:
    return bisect_left(ordered, ms + 1) / len(ordered)


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 when all are alike, 1/n when one has everything."""
    squares = sum(it * it for it in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


class Fragmentation:
    """Which part of what is free the sizes that are asked for could not use.

    Parameters
    ----------
    sizes : mapping of int to int
        How often each share size is asked for.
    rooms : iterable of int
        What is free of each device in the beginning, thousandths.
    """

    def __init__(self, sizes: Mapping[int, int], rooms: Iterable[int] = ()) -> None:
        self._asked = sum(sizes.values()) or 1
        # how much of the demand does not fit into so many free thousandths of one device
        self._beyond = [sum(n for size, n in sizes.items() if size > room) for room in range(1001)]
        self._free = self._lost = 0
        for room in rooms:
            self.change(0, room)

    def change(self, before: int, after: int) -> None:
        """Take over that what is free of a device is another amount."""
        self._free += after - before
        self._lost += after * self._beyond[after] - before * self._beyond[before]

    @property
    def part(self) -> float:
        """The part; 0 when nothing is free."""
        return self._lost / self._asked / self._free if self._free else 0.0


class Meter:
    """Integrals over time, and their means over equal parts of the time until the horizon.

    Whoever changes something lets time pass first (`advance`).

    Attributes
    ----------
    held_milli, busy_milli, waiting : int
        Compute held now, compute of leases in use now, and requests in the queue now.
    end_ms : int
        When the current part of the time ends; the horizon, behind it.
    """

    __slots__ = ("_part", "busy_milli", "end_ms", "ends_ms", "held_milli", "rows", "totals", "waiting")

    def __init__(self, horizon_ms: int, points: int = POINTS) -> None:
        self.held_milli = self.busy_milli = self.waiting = 0
        self.totals = [0, 0, 0]
        self.rows: list[tuple[int, int, int]] = []
        self.ends_ms = [round(horizon_ms * (at + 1) / points) for at in range(points)]
        self.end_ms = self.ends_ms[0]
        # what the integrals of this part will be at its end, if nothing changes
        self._part = [0, 0, 0]

    def hold(self, milli: int, now_ms: int) -> None:
        """Note that so much more (or less) compute is held from now on."""
        self.held_milli += milli
        self._add(0, milli, now_ms)

    def use(self, milli: int, now_ms: int) -> None:
        """Note that so much more (or less) compute is in use from now on."""
        self.busy_milli += milli
        self._add(1, milli, now_ms)

    def queue(self, requests: int, now_ms: int) -> None:
        """Note that so many more (or fewer) requests wait from now on."""
        self.waiting += requests
        self._add(2, requests, now_ms)

    def _add(self, which: int, more: int, now_ms: int) -> None:
        if now_ms < self.end_ms:  # the last part ends at the horizon, and nothing counts behind it
            self._part[which] += more * (self.end_ms - now_ms)

    def advance(self, now_ms: int) -> bool:
        """Close the current part of the time, if it is over; return whether it was."""
        if now_ms < self.end_ms or len(self.rows) == len(self.ends_ms):
            return False
        self.rows.append((self._part[0], self._part[1], self._part[2]))
        self.totals = [total + part for total, part in zip(self.totals, self._part, strict=True)]
        begins_ms, following = self.end_ms, len(self.rows)
        if following < len(self.ends_ms):
            self.end_ms = self.ends_ms[following]
        width = self.end_ms - begins_ms
        self._part = [self.held_milli * width, self.busy_milli * width, self.waiting * width]
        return True

    def means(self) -> list[tuple[float, float, float, float]]:
        """Return for each part of the time its end in hours, and mean devices held, in use, and requests."""
        found, start = [], 0
        for end, (held, busy, waiting) in zip(self.ends_ms, self.rows, strict=False):
            width = max(1, end - start)
            found.append((end / 3_600_000, held / width / 1000, busy / width / 1000, waiting / width))
            start = end
        return found

    @property
    def held_hours(self) -> float:
        """Device-hours held."""
        return self.totals[0] / _HOUR_MILLI_MS

    @property
    def busy_hours(self) -> float:
        """Device-hours in use."""
        return self.totals[1] / _HOUR_MILLI_MS


@dataclass(slots=True)
class OwnerTime:
    """How long an owner's cells ran and waited for a share, milliseconds."""

    ran_ms: int = 0
    waited_ms: int = 0

    @property
    def wanted(self) -> bool:
        """Whether the owner wanted to compute at all."""
        return self.ran_ms > 0 or self.waited_ms > 0

    @property
    def served(self) -> float:
        """The part of the time in which the owner wanted to compute, and could."""
        return self.ran_ms / (self.ran_ms + self.waited_ms) if self.ran_ms else 0.0


@dataclass(slots=True)
class Counts:
    """What happened, how often.

    Attributes
    ----------
    requests, granted, cancelled, refused, unserved : int
        Requests up to the horizon, and what became of them; each is one of the last four.
    facts, steps : int
        Facts that the pool was given, and things that happened to people or were due.
    notices, taken, taken_in_use, released_idle, culled, came_back : int
        Leases whose holder was told that they will be taken back; that were, for somebody who waited; of
        these, during a cell; that were taken back because nobody used them for long; that ended because
        their idle kernel was culled; and cells that found their share gone.
    pinned, pins_refused : int
        Leases that their owners pinned, and those that a quota did not let them pin.
    lost_ms : int
        How long cells had run that were cut off.
    """

    requests: int = 0
    granted: int = 0
    cancelled: int = 0
    refused: int = 0
    unserved: int = 0
    facts: int = 0
    steps: int = 0
    notices: int = 0
    taken: int = 0
    taken_in_use: int = 0
    released_idle: int = 0
    culled: int = 0
    came_back: int = 0
    pinned: int = 0
    pins_refused: int = 0
    lost_ms: int = 0
    refusals: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class Played:
    """What was measured in one run.

    Attributes
    ----------
    requests, cells : Waits
        How long requests waited for their grant, and cells for the share they need.
    """

    meter: Meter
    counts: Counts = field(default_factory=Counts)
    requests: Waits = field(default_factory=Waits)
    cells: Waits = field(default_factory=Waits)
    owners: dict[str, OwnerTime] = field(default_factory=dict)
    fragmentation: list[float] = field(default_factory=list)
    ended_ms: int = 0
