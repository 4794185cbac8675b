"""Capacity that an administrator reserves for a group and a time: a class on Tuesday from 9 to 11.

So many whole devices are kept free for the group: nobody else gets a share of a device that would be needed
when the time begins. Devices that others are on then anyway may be shared further.

Rules of this module: it keeps others from being granted, and takes nothing away from whoever has it. Nothing
here reads a clock: every event brings both times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import HOLDING, Lease, LeaseState
from jupyter_gpupool.core.quotas.model import Quotas
from jupyter_gpupool.core.shares import format_duration

if TYPE_CHECKING:
    from jupyter_gpupool.core.ledger import Ledger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
#: Minutes in a day.
DAY_MINUTES = 24 * 60
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: A hold shorter than this is not worth to be proposed.
_WORTH_MS = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved:
    """Devices that are reserved.

    Attributes
    ----------
    name : str
        What for.
    devices : int
        How many whole devices.
    kind : DeviceKind
        Of which kind.
    group : str
        For which group of the quotas, with the groups in it; empty for none.
    owners : frozenset of str
        For which owners.
    weekdays : frozenset of int
        On which days of each week, 0 for Monday; empty for ``day`` only.
    day : date or None
        On which day, where it is once.
    from_minute, to_minute : int
        From when to when, minutes of the day in ``zone``.
    zone : tzinfo
        Where it is that time.
    lead_ms : int
        How long before its begin leases without a known end count as running into it.

    Raises
    ------
    InvalidValue
        If it is for nobody, of nothing, or never.
    """

    name: str
    devices: int
    kind: DeviceKind = DeviceKind.CUDA
    group: str = ""
    owners: frozenset[str] = frozenset()
    weekdays: frozenset[int] = frozenset()
    day: date | None = None
    from_minute: int
    to_minute: int
    zone: tzinfo = UTC
    lead_ms: int = 2 * 3_600_000

    def __post_init__(self) -> None:
        """See that it says something."""
        if self.devices < 1 or not (self.group or self.owners):
            raise InvalidValue(f"Reservation “{self.name}” is of nothing, or for nobody.")
        if not 0 <= self.from_minute < self.to_minute <= DAY_MINUTES:
            raise InvalidValue(f"Reservation “{self.name}” must begin before it ends, on the same day.")
        if bool(self.weekdays) is (self.day is not None) or not self.weekdays <= set(range(7)):
            raise InvalidValue(f"Reservation “{self.name}” is either on one day, or on days of each week.")

    def times(self, wall_ms: int) -> Times | None:
        """Return the time that it is now or will be next; None when it is over for good."""
        local = (_EPOCH + wall_ms * _MS).astimezone(self.zone).date()
        days = [self.day] if self.day is not None else [local + timedelta(days=it) for it in range(-1, 9)]
        for day in days:
            if self.day is None and day.weekday() not in self.weekdays:
                continue
            times = Times(self._at(day, self.from_minute), self._at(day, self.to_minute), day)
            if times.end_ms > wall_ms:
                return times
        return None

    def _at(self, day: date, minute: int) -> int:
        if minute == DAY_MINUTES:
            day, minute = day + timedelta(days=1), 0
        at = datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=self.zone)
        return (at - _EPOCH) // _MS


class Times(NamedTuple):
    """One time at which devices are reserved.

    Attributes
    ----------
    start_ms, end_ms : int
        From when to when: UTC, milliseconds since the epoch.
    day : date
        The day where it is.
    """

    start_ms: int
    end_ms: int
    day: date


class _Due(NamedTuple):
    """A reservation and the time of it that matters now, in pool time."""

    what: Reserved
    start_ms: int
    end_ms: int
    day: date


@dataclass
class Reservations:
    """All reservations of a pool.

    Attributes
    ----------
    all : tuple of Reserved
        What is reserved.
    quotas : Quotas
        Says who is in which group.
    """

    all: tuple[Reserved, ...] = ()
    quotas: Quotas = field(default_factory=Quotas)
    #: UTC less pool time, milliseconds; None before the first event.
    _offset_ms: int | None = None
    _due: list[_Due] = field(default_factory=list)
    _until_ms: int = -1

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Take over one moment in both times."""
        if not self.all:
            return
        offset_ms = wall_ms - now_ms
        if offset_ms == self._offset_ms and now_ms < self._until_ms:
            return
        self._offset_ms = offset_ms
        found = ((it, it.times(wall_ms)) for it in self.all)
        self._due = [
            _Due(it, times.start_ms - offset_ms, times.end_ms - offset_ms, times.day)
            for it, times in found
            if times is not None
        ]
        self._until_ms = min((it.end_ms for it in self._due), default=now_ms + 3_600_000)

    def wakes_ms(self, ledger: Ledger) -> int | None:
        """Pool time at which requests may go on because a reservation is over; None when none wait."""
        if not self._due or not ledger.any_waiting():
            return None
        return min(it.end_ms for it in self._due)

    def may_use(self, what: Reserved, owner: str) -> bool:
        """Whether a reservation is for an owner."""
        if owner in what.owners:
            return True
        return bool(what.group) and any(name == what.group for name, _ in self.quotas.chain(owner))

    # --- grants -----------------------------------------------------------------------------------

    def may_grant(self, ledger: Ledger, lease: Lease, device_ids: tuple[str, ...], now_ms: int) -> bool:
        """Whether a request may get these devices, as far as reservations go."""
        if not self._due or not device_ids:
            return True
        account = ledger.accounts.get(device_ids[0])
        kind = account.device.kind if account is not None and account.device is not None else None
        if kind is None:
            return True
        new = set(device_ids)
        return all(
            new.isdisjoint(free) or len(free - new) >= kept
            for _, kept, free in self._in_the_way(ledger, lease, kind, now_ms)
        )

    def reason(self, ledger: Ledger, lease: Lease, now_ms: int) -> str:
        """Say which reservation keeps a request waiting for which there is room; a clause, empty for none."""
        kind = lease.want.kind
        if not self._due or kind is None:
            return ""
        for due, kept, free in self._in_the_way(ledger, lease, kind, now_ms):
            if len(free) - lease.want.count < kept:
                return _described(due, now_ms)
        return ""

    def _in_the_way(
        self, ledger: Ledger, lease: Lease, kind: DeviceKind, now_ms: int
    ) -> Iterator[tuple[_Due, int, set[str]]]:
        """Yield what a request would run into, how many devices are kept then, and which are free then."""
        until_ms = None if lease.hold_ms is None else now_ms + lease.hold_ms
        met = [
            it
            for it in self._due
            if it.what.kind is kind
            and not self.may_use(it.what, lease.owner)
            and (it.start_ms - now_ms <= it.what.lead_ms if until_ms is None else it.start_ms < until_ms)
        ]
        for due in met:
            beside = [it for it in met if it.start_ms < due.end_ms and due.start_ms < it.end_ms]
            yield due, sum(it.what.devices for it in beside), self._free(ledger, due, beside)

    def _free(self, ledger: Ledger, due: _Due, beside: list[_Due]) -> set[str]:
        """List the devices on offer on which nobody else will be when a reservation begins."""
        free = {
            account.device_id
            for account in ledger.accounts.values()
            if account.device is not None
            and account.device.kind is due.what.kind
            and ledger.withheld(account) is None
        }
        for lease in ledger.leases.values():
            if lease.state not in HOLDING or free.isdisjoint(it.device_id for it in lease.shares):
                continue
            if any(self.may_use(it.what, lease.owner) for it in beside):
                continue
            if _lasts_to(lease, due.start_ms):
                free.difference_update(it.device_id for it in lease.shares)
        return free


def _lasts_to(lease: Lease, at_ms: int) -> bool:
    """Whether a held lease may still be there at some time."""
    if lease.state is LeaseState.ENDING:
        return lease.overdue
    ends = [it for it in (lease.notice_ms, _said_ms(lease)) if it is not None]
    return not ends or min(ends) > at_ms


def _said_ms(lease: Lease) -> int | None:
    if lease.hold_ms is None or lease.granted_ms is None:
        return None
    return lease.granted_ms + lease.hold_ms


def _described(due: _Due, now_ms: int) -> str:
    what = due.what
    number = "device is" if what.devices == 1 else "devices are"
    devices = f"{what.devices} {what.kind.value.upper()} {number}"
    said = f"{devices} reserved for {what.name} {describe_times(what, due.day)}"
    left_ms = due.start_ms - now_ms
    if left_ms >= _WORTH_MS:
        return f"{said}; until then it could run with --for, {format_duration(left_ms / 1000)} at most"
    return said


def describe_times(what: Reserved, day: date | None = None) -> str:
    """Write when it is: "on Tue 8 Dec from 09:00 to 11:00 (Europe/Berlin)"."""
    if day is None and what.day is None:
        days = " and ".join(WEEKDAYS[it] for it in sorted(what.weekdays))
    else:
        day = day or what.day
        assert day is not None  # noqa: S101 - it is one or the other
        days = f"{WEEKDAYS[day.weekday()][:3]} {day.day} {_MONTHS[day.month - 1]}"
    return f"on {days} from {_clock(what.from_minute)} to {_clock(what.to_minute)} ({what.zone})"


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
