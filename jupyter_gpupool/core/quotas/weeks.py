"""Calendar weeks in a time zone.

Rule of this module: a week begins on Monday at midnight where the pool's people are, so that one in which
the clocks are changed has 167 or 169 hours. Nothing here reads a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

#: The first moment of the era that the calendar is asked about.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Week(NamedTuple):
    """One week.

    Attributes
    ----------
    start_ms, end_ms : int
        When it begins, and when the next one does: UTC, milliseconds since the epoch.
    """

    start_ms: int
    end_ms: int


def week_of(wall_ms: int, zone: tzinfo) -> Week:
    """Find the week that a moment is in.

    Parameters
    ----------
    wall_ms : int
        UTC, milliseconds since the epoch.
    zone : tzinfo
        Where it is a week.
    """
    local = (_EPOCH + wall_ms * _MS).astimezone(zone)
    monday = local.date() - timedelta(days=local.weekday())
    starts = [datetime(day.year, day.month, day.day, tzinfo=zone) for day in (monday, monday + _SEVEN)]
    return Week(*((start - _EPOCH) // _MS for start in starts))


_SEVEN = timedelta(days=7)
