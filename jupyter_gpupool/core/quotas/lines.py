"""What one owner, or group, holds, asks for and has used of one kind of device.

Rules of this module: a line changes only at moments of pool time that it is told, and a look at it at a
later moment changes nothing.
"""

from __future__ import annotations

import heapq
from datetime import tzinfo
from typing import NamedTuple

from jupyter_gpupool.core.quotas.fading import faded
from jupyter_gpupool.core.quotas.water import Claim, Vessel
from jupyter_gpupool.core.quotas.weeks import Week, week_of

#: No week yet.
_NO_WEEK = Week(0, 0)


class Calendar:
    """Where pool time stands in the calendar.

    Attributes
    ----------
    half_life_ms : int
        After which half of the usage is forgotten.
    """

    __slots__ = ("_offset_ms", "_week", "_zone", "half_life_ms")

    def __init__(self, zone: tzinfo, half_life_ms: int) -> None:
        self.half_life_ms = half_life_ms
        self._zone = zone
        self._offset_ms: int | None = None
        self._week = _NO_WEEK

    @property
    def known(self) -> bool:
        """Whether it has been told of any moment in both times."""
        return self._offset_ms is not None

    def set(self, now_ms: int, wall_ms: int) -> None:
        """Take over one moment in both times."""
        self._offset_ms = wall_ms - now_ms

    def wall_ms(self, now_ms: int) -> int | None:
        """Return UTC at a moment of pool time; None when it is not known."""
        return None if self._offset_ms is None else now_ms + self._offset_ms

    def next_week_ms(self, now_ms: int) -> int | None:
        """Return the pool time at which the week ends that a moment is in; None when it is not known."""
        wall_ms = self.wall_ms(now_ms)
        return None if wall_ms is None else now_ms + self.week(wall_ms).end_ms - wall_ms

    def week(self, wall_ms: int) -> Week:
        """Return the week that a moment is in."""
        if not self._week.start_ms <= wall_ms < self._week.end_ms:
            self._week = week_of(wall_ms, self._zone)
        return self._week


class Reading(NamedTuple):
    """What a line has used up to some moment: thousandths of a device x milliseconds.

    Attributes
    ----------
    used_milli_ms : int
        Usage that fades.
    attained_milli_ms : int
        Usage since it last held nothing.
    week : Week
        The week that the next number is about.
    week_milli_ms : int
        Usage in that week.
    """

    used_milli_ms: int = 0
    attained_milli_ms: int = 0
    week: Week = _NO_WEEK
    week_milli_ms: int = 0


class Line:
    """One line of the book.

    Attributes
    ----------
    held_milli, held_bytes : int
        Compute and memory that are held.
    queued_milli : int
        Compute that is waited for.
    at_ms : int
        Pool time up to which ``read`` counts.
    read : Reading
        What was used up to then.
    claim : Claim or None
        What it claims beside the others under the same group; None when nothing is asked.
    below : Vessel
        Claims of those below it (of a group).
    asked_below : int
        The sum of what those below it ask for.
    """

    __slots__ = (
        *("_seen", "asked_below", "at_ms", "below", "claim"),
        *("held_bytes", "held_milli", "queued_milli", "read"),
    )

    def __init__(self, at_ms: int = 0, read: Reading | None = None) -> None:
        self.held_milli = 0
        self.held_bytes = 0
        self.queued_milli = 0
        self.at_ms = at_ms
        self.read = read or Reading()
        self.claim: Claim | None = None
        self.below = Vessel()
        self.asked_below = 0
        #: What was spent, and up to when: it is the same for all that is asked at one moment.
        self._seen: tuple[int, tuple[int, int]] | None = None

    def glance(self, now_ms: int, calendar: Calendar) -> tuple[int, int]:
        """Do what `spent` does, for a moment that is asked about often."""
        if self._seen is None or self._seen[0] != now_ms:
            self._seen = (now_ms, self.spent(now_ms, calendar))
        return self._seen[1]

    def look(self, now_ms: int, calendar: Calendar) -> Reading:
        """Return what is used up to a moment that is not before the last change."""
        elapsed_ms = now_ms - self.at_ms
        if elapsed_ms <= 0:
            return self.read
        week, in_week = self.read.week, self.read.week_milli_ms + self.held_milli * elapsed_ms
        wall_ms = calendar.wall_ms(now_ms)
        if wall_ms is not None and wall_ms >= week.end_ms:
            week = calendar.week(wall_ms)
            in_week = self.held_milli * min(elapsed_ms, wall_ms - week.start_ms)
        return Reading(*self.spent(now_ms, calendar), week, in_week)

    def spent(self, now_ms: int, calendar: Calendar) -> tuple[int, int]:
        """Return the first two numbers of `look`, which are all that an order asks for."""
        elapsed_ms, read, held_milli = now_ms - self.at_ms, self.read, self.held_milli
        if elapsed_ms <= 0:
            return read.used_milli_ms, read.attained_milli_ms
        attained = read.attained_milli_ms + held_milli * elapsed_ms if held_milli else 0
        return faded(read.used_milli_ms, held_milli, elapsed_ms, calendar.half_life_ms), attained

    def hold(self, milli: int, memory_bytes: int, now_ms: int, calendar: Calendar) -> None:
        """Let it hold so much more from a moment on (less, if negative)."""
        if milli:
            self.read = self.look(now_ms, calendar)
            self.at_ms = max(self.at_ms, now_ms)
            self._seen = None
        self.held_milli += milli
        if not self.held_milli and self.read.attained_milli_ms:
            self.read = self.read._replace(attained_milli_ms=0)
        self.held_bytes += memory_bytes


class Oldest:
    """Leases by age, oldest first."""

    __slots__ = ("_heap", "_there")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._there: dict[str, int] = {}

    def add(self, since_ms: int, lease_id: str) -> None:
        """Take a lease in."""
        self._there[lease_id] = since_ms
        heapq.heappush(self._heap, (since_ms, lease_id))

    def drop(self, lease_id: str) -> None:
        """Take a lease out."""
        del self._there[lease_id]

    def first(self) -> tuple[int, str] | None:
        """Return since when the oldest lease is there, and its id; None when none is."""
        while self._heap:
            since_ms, lease_id = self._heap[0]
            if self._there.get(lease_id) == since_ms:
                return since_ms, lease_id
            heapq.heappop(self._heap)
        return None
