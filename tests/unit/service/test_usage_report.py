"""The report of usage: split by what is asked for, cut by the calendar, with waste and prices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.cluster.journal_groups import Membership, Memberships
from jupyter_gpupool.cluster.journal_spans import HOUR_MS, KnownDevice, MeasuredHour, Span
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import EndReason
from jupyter_gpupool.protocol.messages import LeaseSample, SampleReport
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.usage import Usage
from jupyter_gpupool.service.usage_report import (
    DIMENSIONS,
    Every,
    Facts,
    Wanted,
    dimensions,
    read_time,
    report,
    zone_of,
)
from tests.support.service_bench import ServiceBench

DAY_MS = 24 * HOUR_MS
BERLIN = zone_of("Europe/Berlin")
#: The night in which clocks in Berlin go back: that Sunday has 25 hours.
LONG_DAY = read_time("2026-10-25", BERLIN)


def span(owner: str, from_ms: int, until_ms: int, *, milli: int = 1000, device: str = "gpu") -> Span:
    return Span(
        lease_id=f"lease-{owner}",
        owner=owner,
        device_id=device,
        isolation="hard",
        from_ms=from_ms,
        until_ms=until_ms,
        used_milli_ms=milli * (until_ms - from_ms),
    )


def facts(*spans: Span, measured: tuple[MeasuredHour, ...] = ()) -> Facts:
    return Facts(
        spans=spans,
        measured=measured,
        devices={"gpu": KnownDevice(id="gpu", kind="cuda", model="NVIDIA A100 80GB")},
        groups=Memberships([Membership(owner="ann", group="lab", since_ms=0)]),
        prices={"a100": 2.0, "A100 80GB": 3.0, "H100": 9.0},
    )


def test_rows_say_whose_of_what_and_at_what_price():
    (ann, bob) = report(
        facts(span("ann", 0, HOUR_MS), span("bob", 0, HOUR_MS, milli=500, device="gone")),
        Wanted(since_ms=0, until_ms=DAY_MS),
    )
    assert (ann.owner, ann.group, ann.model, ann.isolation) == ("ann", "lab", "NVIDIA A100 80GB", "hard")
    assert (ann.held_device_seconds, ann.leases, ann.price) == (3600.0, 1, 3.0)
    assert (bob.owner, bob.model, bob.held_device_seconds, bob.price) == ("bob", "", 1800.0, None)


def test_a_span_is_cut_at_midnight_of_the_zone_and_long_days_are_long():
    wanted = Wanted(
        since_ms=LONG_DAY - DAY_MS,
        until_ms=LONG_DAY + 3 * DAY_MS,
        by=(),
        every=Every.DAY,
        zone=BERLIN,
    )
    rows = report(facts(span("ann", LONG_DAY - HOUR_MS, LONG_DAY + 30 * HOUR_MS)), wanted)
    hours = {row.period: row.held_device_seconds / 3600 for row in rows}
    assert hours == {"2026-10-24": 1.0, "2026-10-25": 25.0, "2026-10-26": 5.0}


def test_weeks_begin_on_monday_and_months_on_the_first():
    at = read_time("2026-12-02T12:00", UTC)
    for every, begins in ((Every.WEEK, "2026-11-30"), (Every.MONTH, "2026-12-01")):
        wanted = Wanted(since_ms=at, until_ms=at + HOUR_MS, by=(), every=every)
        (row,) = report(facts(span("ann", at, at + HOUR_MS)), wanted)
        assert (row.period, row.held_device_seconds) == (begins, 3600.0)


def test_what_was_not_measured_is_neither_used_nor_unused():
    hour = MeasuredHour(
        lease_id="lease-ann",
        hour=0,
        owner="ann",
        device_id="gpu",
        isolation="hard",
        busy_milli_ms=250 * HOUR_MS // 2,
        known_milli_ms=1000 * HOUR_MS // 2,
    )
    (row,) = report(
        facts(span("ann", 0, HOUR_MS), measured=(hour,)), Wanted(since_ms=0, until_ms=DAY_MS, by=("owner",))
    )
    assert (row.held_device_seconds, row.measured_device_seconds) == (3600.0, 1800.0)
    assert row.busy_device_seconds == 450.0


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", ""])
def test_what_cannot_be_understood_is_said(text: str):
    with pytest.raises(InvalidValue, match="neither a day"):
        read_time(text, UTC)
    with pytest.raises(InvalidValue, match="no time zone"):
        zone_of("Mars/Olympus")
    with pytest.raises(InvalidValue, match="cannot be split"):
        list(dimensions("owner,shoe size"))
    with pytest.raises(InvalidValue, match="more than 1000 periods"):
        Wanted(since_ms=0, until_ms=2000 * DAY_MS, every=Every.DAY).periods()
    assert tuple(dimensions(" , ".join(DIMENSIONS))) == DIMENSIONS
    assert list(dimensions("")) == []


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


def sample(lease_id: str, percent: float | None) -> SampleReport:
    return SampleReport(devices=[], leases=[LeaseSample(lease_id=lease_id, utilization_percent=percent)])


@pytest.mark.asyncio
async def test_a_service_reports_what_it_measured_also_before_it_is_written(bench: ServiceBench) -> None:
    ann = Principal(owner="ann")
    root = Principal(owner="root", administrator=True)
    usage = Usage(bench.host, bench.journal, bench.clock, bench.meter)
    wanted = Wanted(since_ms=0, until_ms=2**50)
    lease = await bench.active(500)
    for percent in (80.0, 10.0, None, 10.0, 10.0):
        await bench.agent.report(sample(lease.id, percent))
        bench.hands.pass_seconds(10)
    for who in (ann, root):
        (row,) = await usage.report(who, wanted)
        assert row.held_device_seconds == 25.0
        assert row.measured_device_seconds == 20.0  # the gap is 20 s long, and known at both of its ends
        assert row.busy_device_seconds == 4.0
    await bench.meter.write(bench.journal)
    await bench.desk.release(ann, lease.id, EndReason.RELEASED)
    (after,) = await usage.report(root, wanted)
    assert (after.held_device_seconds, after.busy_device_seconds) == (25.0, 4.0)
    assert after.model
    assert await usage.report(Principal(owner="bob"), wanted) == []
    await bench.journal.read(lambda it: it.spent.prune(2**50))
    assert await usage.report(root, wanted) == []
