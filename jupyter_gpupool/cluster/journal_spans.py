"""Who held which device from when to when: what usage is counted from, in the journal.

Rules of this module: the spans of a lease join without a gap, and their sum is exactly what the lease has
used; a span is written in the transaction of the transition that ends it. What was measured is kept by the
hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.cluster.journal_groups import (
    FORGET_MEMBERSHIPS,
    MEMBERSHIPS,
    READ_MEMBERSHIPS,
    Membership,
    Memberships,
    membership_of,
    membership_row,
)
from jupyter_gpupool.cluster.journal_rows import inserts
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import HOLDING, Lease, LeaseState, Strength

#: What a transaction consists of.
Statements = Iterable[tuple[str, Sequence[object]]]
#: {} stands for the rows.
SPANS = (
    "INSERT INTO usage_spans (lease_id, owner, device_id, isolation, from_ms, until_ms, used_milli_ms) "
    "VALUES {}"
)
DEVICES = "INSERT OR REPLACE INTO usage_devices (id, kind, model) VALUES {}"
MEASURED = (
    "INSERT INTO usage_measured (lease_id, hour, owner, device_id, isolation, busy_milli_ms, known_milli_ms) "
    "VALUES {} ON CONFLICT (lease_id, hour) DO UPDATE SET busy_milli_ms = busy_milli_ms + "
    "excluded.busy_milli_ms, known_milli_ms = known_milli_ms + excluded.known_milli_ms"
)
READ_SPANS = (
    "SELECT lease_id, owner, device_id, isolation, from_ms, until_ms, used_milli_ms FROM usage_spans "
    "WHERE until_ms > ? AND from_ms < ? ORDER BY seq"
)
READ_DEVICES = "SELECT id, kind, model FROM usage_devices"
READ_MEASURED = (
    "SELECT lease_id, hour, owner, device_id, isolation, busy_milli_ms, known_milli_ms FROM usage_measured "
    "WHERE hour >= ? AND hour < ?"
)
#: Of the oldest so many spans, those that ended before some moment.
FORGET_SPANS = (
    "DELETE FROM usage_spans WHERE seq IN "
    "(SELECT seq FROM usage_spans WHERE until_ms < ? ORDER BY until_ms LIMIT ?)"
)
FORGET_MEASURED = "DELETE FROM usage_measured WHERE hour < ?"

#: Milliseconds of an hour.
HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """What a lease held of one device, for as long as nothing changed.

    Attributes
    ----------
    lease_id, owner, device_id : str
        Whose, and of what.
    isolation : str
        The weakest that was in force for any resource: ``hard``, ``soft`` or ``none``.
    from_ms, until_ms : int
        UTC, milliseconds since the epoch.
    used_milli_ms : int
        Thousandths of the device x milliseconds.
    """

    lease_id: str
    owner: str
    device_id: str
    isolation: str
    from_ms: int
    until_ms: int
    used_milli_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredHour:
    """What the processes of a lease did in one hour.

    Attributes
    ----------
    lease_id, owner, device_id, isolation : str
        As in `Span`.
    hour : int
        Hours since the epoch, UTC.
    busy_milli_ms : int
        How busy they kept the device: thousandths of it x milliseconds.
    known_milli_ms : int
        What the lease held in the time of which that is known.
    """

    lease_id: str
    hour: int
    owner: str
    device_id: str
    isolation: str
    busy_milli_ms: int
    known_milli_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownDevice:
    """What a device is, also when it is gone."""

    id: str
    kind: str
    model: str


def isolation_of(lease: Lease) -> str:
    """Return the weakest strength that is in force for any resource of a lease."""
    order = (Strength.NONE, Strength.SOFT, Strength.HARD)
    return min((it.strength for it in lease.isolation), key=order.index, default=Strength.NONE).value


def spans_until(lease: Lease, now_ms: int, wall_ms: int) -> list[Span]:
    """Return what a lease has held since its last change, up to now; one span for each device."""
    if lease.used_until_ms is None or lease.state not in HOLDING or now_ms <= lease.used_until_ms:
        return []
    lasted = now_ms - lease.used_until_ms
    return [
        Span(
            lease_id=lease.id,
            owner=lease.owner,
            device_id=share.device_id,
            isolation=isolation_of(lease),
            from_ms=wall_ms - lasted,
            until_ms=wall_ms,
            used_milli_ms=share.compute_milli * lasted,
        )
        for share in lease.shares
    ]


class SpanBook:
    """The leases as they were written down last, so that a transition tells what it ends.

    Parameters
    ----------
    live : iterable of Lease
        The live leases of the journal.
    """

    def __init__(self, live: Iterable[Lease]) -> None:
        self._last = {lease.id: lease for lease in live}

    def ended_by(self, writes: Sequence[WriteDown]) -> list[Span]:
        """Return the spans that these transitions end; nothing is noted yet."""
        last: dict[str, Lease] = {}
        spans: list[Span] = []
        for write in writes:
            before = last.get(write.lease.id) or self._last.get(write.lease.id)
            if before is not None:
                spans += spans_until(before, write.now_ms, write.wall_ms)
            last[write.lease.id] = write.lease
        return spans

    def note(self, writes: Sequence[WriteDown]) -> None:
        """Note what is on the disk now."""
        for write in writes:
            if write.lease.state is LeaseState.ENDED:
                self._last.pop(write.lease.id, None)
            else:
                self._last[write.lease.id] = write.lease


def span_row(span: Span) -> tuple[object, ...]:
    """Return a span as it is written."""
    return (
        *(span.lease_id, span.owner, span.device_id, span.isolation),
        *(span.from_ms, span.until_ms, span.used_milli_ms),
    )


def span_of(row: Sequence[object]) -> Span:
    """Return a span as it was written."""
    names = ("lease_id", "owner", "device_id", "isolation", "from_ms", "until_ms", "used_milli_ms")
    return Span(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]


def measured_row(hour: MeasuredHour) -> tuple[object, ...]:
    """Return what was measured as it is written."""
    return (
        *(hour.lease_id, hour.hour, hour.owner, hour.device_id, hour.isolation),
        *(hour.busy_milli_ms, hour.known_milli_ms),
    )


def measured_of(row: Sequence[object]) -> MeasuredHour:
    """Return what was measured as it was written."""
    names = ("lease_id", "hour", "owner", "device_id", "isolation", "busy_milli_ms", "known_milli_ms")
    return MeasuredHour(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]


class UsageTables:
    """What an open journal says of who held what, when.

    Parameters
    ----------
    read, write : callable
        Read rows of one statement; carry statements out in one transaction. Both raise `JournalUnavailable`.
    """

    def __init__(
        self, read: Callable[..., list[tuple[Any, ...]]], write: Callable[[Statements], None]
    ) -> None:
        self._read = read
        self._write = write

    def spans(self, since_ms: int, until_ms: int) -> list[Span]:
        """Return what was held in a time (UTC, milliseconds), as far as a later transition has ended it."""
        return [span_of(row) for row in self._read(READ_SPANS, since_ms, until_ms)]

    def measured(self, since_ms: int, until_ms: int) -> list[MeasuredHour]:
        """Return what was measured in the hours that begin in a time."""
        first, end = -(-since_ms // HOUR_MS), -(-until_ms // HOUR_MS)
        return [measured_of(row) for row in self._read(READ_MEASURED, first, end)]

    def devices(self) -> list[KnownDevice]:
        """Return every device that was ever there."""
        return [KnownDevice(id=row[0], kind=row[1], model=row[2]) for row in self._read(READ_DEVICES)]

    def memberships(self) -> Memberships:
        """Return who was in which group."""
        return Memberships(membership_of(row) for row in self._read(READ_MEMBERSHIPS))

    def note_groups(self, lines: Sequence[Membership]) -> None:
        """Write down who is in which group from now on."""
        self._write(inserts(MEMBERSHIPS, [membership_row(line) for line in lines]))

    def add(self, hours: Sequence[MeasuredHour], devices: Sequence[KnownDevice]) -> None:
        """Add what was measured, and note what devices are."""
        self._write(
            [
                *inserts(MEASURED, [measured_row(hour) for hour in hours]),
                *inserts(DEVICES, [(it.id, it.kind, it.model) for it in devices]),
            ]
        )

    def prune(self, before_wall_ms: int, limit: int = 10_000) -> None:
        """Forget who held what when, what was measured, and who was in which group, before some time."""
        self._write(
            [
                (FORGET_SPANS, (before_wall_ms, limit)),
                (FORGET_MEASURED, (before_wall_ms // HOUR_MS,)),
                (FORGET_MEMBERSHIPS, (before_wall_ms,)),
            ]
        )
