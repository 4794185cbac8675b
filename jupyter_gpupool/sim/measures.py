"""What is measured while a workload is played.

Rules of this module: sums are kept in integers as time passes, so that nothing depends on how often anybody
looks; what still waits at the end counts as having waited until then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
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
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        total = sum(sizes.values()) or 1
        # the part of the demand that does not fit into so many free thousandths of one device
        self._beyond = [sum(n for size, n in sizes.items() if size > room) / total for room in range(1001)]

    def of(self, free: Mapping[str, int]) -> float:
        """Return the part; 0 when nothing is free."""
        total = sum(free.values())
        if not total:
            return 0.0
        return sum(room * self._beyond[room] for room in free.values() if room) / total


class Meter:
    """Integrals over time, and their means over equal parts of the time until the horizon.

    Attributes
    ----------
    held_milli, busy_milli, waiting : int
        Compute held now, compute of leases in use now, and requests in the queue now.
    """

    def __init__(self, horizon_ms: int, points: int = POINTS) -> None:
        self.held_milli = self.busy_milli = self.waiting = 0
        self.totals = [0, 0, 0]
        self.rows: list[tuple[int, int, int]] = []
        self.ends_ms = [round(horizon_ms * (at + 1) / points) for at in range(points)]
        self._now_ms = 0
        self._part = [0, 0, 0]

    @property
    def next_end_ms(self) -> int | None:
        """When the current part of the time ends; None behind the horizon."""
        return self.ends_ms[len(self.rows)] if len(self.rows) < len(self.ends_ms) else None

    def advance(self, now_ms: int) -> bool:
        """Let time pass, at most to the end of the current part; return whether that was reached."""
        end = self.next_end_ms
        if end is None:
            return False
        reached = now_ms >= end
        passed = (end if reached else now_ms) - self._now_ms
        if passed > 0:
            part = self._part
            part[0] += self.held_milli * passed
            part[1] += self.busy_milli * passed
            part[2] += self.waiting * passed
            self._now_ms += passed
        if reached:
            self._close(end)
        return reached

    def _close(self, end_ms: int) -> None:
        self.rows.append((self._part[0], self._part[1], self._part[2]))
        self.totals = [total + part for total, part in zip(self.totals, self._part, strict=True)]
        self._part = [0, 0, 0]

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
    lost_ms: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
