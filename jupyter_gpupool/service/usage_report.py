"""The report of usage: device-hours by whoever and whatever, held and really used.

Rules of this module: pure; sums are exact in thousandths of a device x milliseconds, also where a span is cut
by the end of a day, and rounded only when they are shown; what was not measured is not counted as unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from zoneinfo import ZoneInfo

from jupyter_gpupool.cluster.journal_groups import Memberships
from jupyter_gpupool.cluster.journal_spans import HOUR_MS, KnownDevice, MeasuredHour, Span
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.documents import UsageRowDoc

#: What a report can be split by.
DIMENSIONS = ("owner", "group", "kind", "model", "isolation")
#: Thousandths of a device x milliseconds in a device-second.
_DEVICE_SECOND = 1_000_000
#: Most periods in one report.
_MOST_PERIODS = 1000


class Every(Enum):
    """Into which periods a report is split."""

    #: Not at all.
    ALL = "all"
    #: Calendar days.
    DAY = "day"
    #: Calendar weeks, from Monday.
    WEEK = "week"
    #: Calendar months.
    MONTH = "month"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a report is to be of.

    Attributes
    ----------
    since_ms, until_ms : int
        UTC, milliseconds since the epoch.
    by : tuple of str
        Some of `DIMENSIONS`.
    every : Every
        Into which periods it is split.
    zone : tzinfo
        In which days begin.
    """

    since_ms: int
    until_ms: int
    by: tuple[str, ...] = DIMENSIONS
    every: Every = Every.ALL
    zone: tzinfo = UTC

    def periods(self) -> list[tuple[str, int, int]]:
        """Return the periods: how each is called, and from when to when.

        Raises
        ------
        InvalidValue
            If there are too many.
        """
        if self.every is Every.ALL:
            return [("", self.since_ms, self.until_ms)]
        found, begins = [], self._begin(self.since_ms)
        while (from_ms := _ms(begins)) < self.until_ms:
            after = self._next(begins)
            found.append((f"{begins:%Y-%m-%d}", max(from_ms, self.since_ms), min(_ms(after), self.until_ms)))
            begins = after
            if len(found) > _MOST_PERIODS:
                raise InvalidValue(
                    f"This report would have more than {_MOST_PERIODS} periods.",
                    hint="Ask for a shorter time, or longer periods.",
                )
        return found

    def _begin(self, at_ms: int) -> datetime:
        """Return when the period begins that a time is in; midnight by the calendar of the zone."""
        at = datetime.fromtimestamp(at_ms / 1000, self.zone)
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.every is Every.WEEK:
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self.every is Every.MONTH else day

    def _next(self, begins: datetime) -> datetime:
        """Return when the next period begins; aware datetimes of one zone add by the calendar."""
        if self.every is Every.MONTH:
            return (begins + timedelta(days=32)).replace(day=1)
        return begins + timedelta(days=7 if self.every is Every.WEEK else 1)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    InvalidValue
        If there is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidValue(f"“{name[:80]}” is no time zone.", hint="Write one as Europe/Berlin.") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a report is made from.

    Attributes
    ----------
    spans, measured
        Who held what when; what was measured.
    devices : mapping of str to KnownDevice
        By id.
    groups : Memberships
        Which group each owner was in, and when.
    prices : mapping of str to float
        Price of a device-hour, by words of the model's name.
    """

    spans: Iterable[Span]
    measured: Iterable[MeasuredHour]
    devices: Mapping[str, KnownDevice]
    groups: Memberships = field(default_factory=Memberships)
    prices: Mapping[str, float] = field(default_factory=dict)

    def price_of(self, model: str) -> float | None:
        """Return the price of a device-hour; the longest words that fit count."""
        fitting = [words for words in self.prices if words.lower() in model.lower()]
        return self.prices[max(fitting, key=len)] if fitting else None


@dataclass(slots=True)
class _Sum:
    held: int = 0
    busy: int = 0
    known: int = 0
    price: float | None = None
    leases: set[str] = field(default_factory=set)


def report(facts: Facts, wanted: Wanted) -> list[UsageRowDoc]:
    """Add usage up.

    Returns
    -------
    list of UsageRowDoc
        One for each period and combination of what it is split by, in order.
    """
    sums: dict[tuple[str, ...], _Sum] = {}
    for name, from_ms, until_ms in wanted.periods():
        for span in facts.spans:
            for group, since_ms, end_ms in facts.groups.times(span.owner, from_ms, until_ms):
                part = within(span, since_ms, end_ms)
                if part or since_ms <= span.from_ms < end_ms:
                    found = _sum(sums, facts, wanted, (name, group), span)
                    found.held += part
                    found.leases.add(span.lease_id)
                    _add_price(found, facts, span, part)
        for hour in facts.measured:
            at_ms = hour.hour * HOUR_MS
            if from_ms <= at_ms < until_ms:
                # an hour is not divided: it counts for the group at its end
                *_, (group, _, _) = facts.groups.times(hour.owner, at_ms, at_ms + HOUR_MS)
                found = _sum(sums, facts, wanted, (name, group), hour)
                found.busy += hour.busy_milli_ms
                found.known += hour.known_milli_ms
    return [_row(wanted, key, sums[key]) for key in sorted(sums)]


def within(span: Span, from_ms: int, until_ms: int) -> int:
    """Return what of a span is in a time; over times that join the parts add up to the whole exactly."""
    lasted = span.until_ms - span.from_ms
    if lasted <= 0:
        return span.used_milli_ms if from_ms <= span.from_ms < until_ms else 0

    def until(at_ms: int) -> int:
        passed = min(max(at_ms - span.from_ms, 0), lasted)
        return span.used_milli_ms * passed // lasted

    return until(until_ms) - until(from_ms)


def _sum(
    sums: dict[tuple[str, ...], _Sum],
    facts: Facts,
    wanted: Wanted,
    where: tuple[str, str],
    of: Span | MeasuredHour,
) -> _Sum:
    """Return the sum that something is added to; ``where`` is its period and its group."""
    name, group = where
    device = facts.devices.get(of.device_id)
    values = {
        "owner": of.owner,
        "group": group,
        "kind": device.kind if device else "",
        "model": device.model if device else "",
        "isolation": of.isolation,
    }
    return sums.setdefault((name, *(values[it] for it in wanted.by)), _Sum())


def _add_price(found: _Sum, facts: Facts, span: Span, part: int) -> None:
    device = facts.devices.get(span.device_id)
    price = facts.price_of(device.model) if device else None
    if price is not None:
        found.price = (found.price or 0.0) + price * part / _DEVICE_SECOND / 3600


def _row(wanted: Wanted, key: tuple[str, ...], found: _Sum) -> UsageRowDoc:
    return UsageRowDoc(
        period=key[0],
        **dict(zip(wanted.by, key[1:], strict=True)),
        held_device_seconds=found.held / _DEVICE_SECOND,
        measured_device_seconds=found.known / _DEVICE_SECOND,
        busy_device_seconds=found.busy / _DEVICE_SECOND,
        leases=len(found.leases),
        price=None if found.price is None else round(found.price, 6),
    )


def read_time(text: str, zone: tzinfo) -> int:
    """Read a day or a moment, in a zone where it says none; milliseconds since the epoch.

    Raises
    ------
    InvalidValue
        If it cannot be read.
    """
    try:
        at = datetime.fromisoformat(text)
        return _ms(at if at.tzinfo else at.replace(tzinfo=zone))
    except (ValueError, OverflowError, OSError):
        raise InvalidValue(
            f"“{text[:80]}” is neither a day nor a moment.", hint="Write 2026-12-01, or 2026-12-01T08:00."
        ) from None


def dimensions(text: str) -> Iterator[str]:
    """Read what a report is to be split by.

    Raises
    ------
    InvalidValue
        If one of them is unknown.
    """
    for word in dict.fromkeys(it.strip() for it in text.split(",") if it.strip()):
        if word not in DIMENSIONS:
            raise InvalidValue(
                f"A report cannot be split by “{word[:80]}”.", hint=f"Name some of {', '.join(DIMENSIONS)}."
            )
        yield word
