"""How owners stand, through the service: shown to them, and kept over restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import QuotaExceeded
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.core.quotas import Amount, Group, Limits, Quotas, Rules
from jupyter_gpupool.protocol.documents import HeldDoc, QuotaDoc, UsageDoc
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.errors import answer_for
from jupyter_gpupool.service.usage import Usage
from tests.support.books import DEVICE_HOUR
from tests.support.service_bench import ServiceBench

ANN, BOB = Principal(owner="ann"), Principal(owner="bob")
HOURS = Rules(limits=Limits(week_milli_ms=Amount.each(2 * DEVICE_HOUR), leases=3))
CONFIG = PoolConfig(
    order="fair",
    quotas=Quotas(
        each=HOURS,
        groups=(
            Group(
                name="course",
                rules=Rules(limits=Limits(compute_milli=Amount.each(500)), deserved_milli=Amount.each(250)),
                owners=frozenset({"bob", "cyd"}),
            ),
        ),
    ),
)


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3", config=CONFIG).open()
    yield opened
    await opened.close()


async def usage_of(bench: ServiceBench, who: Principal) -> UsageDoc:
    (doc,) = await Usage(bench.host, bench.journal, bench.clock, bench.meter).of(who)
    return doc


@pytest.mark.asyncio
async def test_owners_see_what_they_hold_and_what_is_left_of_their_quotas(bench: ServiceBench) -> None:
    await bench.active(500)
    bench.hands.pass_seconds(3600)
    doc = await usage_of(bench, ANN)
    (held,) = doc.held
    assert held.kind is DeviceKind.CUDA
    assert (held.held_devices, held.deserved_devices, held.fair_devices) == (0.5, 0.0, 0.5)
    assert held.week_hours == 0.5
    assert held.faded_hours == pytest.approx(0.4591, abs=1e-4)
    assert doc.quotas == [
        QuotaDoc(what="leases", limit=3, used=1, left=2),
        QuotaDoc(what="hours_per_week", kind=DeviceKind.CUDA, limit=2.0, used=0.5, left=1.5),
    ]


@pytest.mark.asyncio
async def test_nobody_sees_what_others_hold_but_for_the_sum_of_their_own_group(bench: ServiceBench) -> None:
    await bench.granted(250, owner="cyd")
    doc = await usage_of(bench, BOB)
    assert [held.held_devices for held in doc.held] == [0.0]
    assert doc.quotas == [
        QuotaDoc(group="course", what="compute", kind=DeviceKind.CUDA, limit=0.5, used=0.25, left=0.25)
    ]


@pytest.mark.asyncio
async def test_a_refusal_by_a_quota_is_an_answer(bench: ServiceBench) -> None:
    with pytest.raises(QuotaExceeded) as refused:
        await bench.granted(750, owner="bob")
    status, body = answer_for(refused.value)
    assert (status, body.code) == (409, "quota_exceeded")
    assert body.message == "The quota of group “course” allows 0.5 of a CUDA device at once, and 0 is held."


@pytest.mark.asyncio
async def test_usage_and_weekly_hours_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "d" / "journal.sqlite3"
    bench = await ServiceBench(path, config=CONFIG).open()
    gone = await bench.active(1000)
    bench.hands.pass_seconds(3600)
    await bench.desk.release(ANN, gone.id, EndReason.RELEASED)
    await bench.granted(250)
    before = await usage_of(bench, ANN)
    await bench.close()
    again = ServiceBench(path, config=CONFIG, agent=bench.agent)
    after = await usage_of(again, ANN)
    assert _rounded(after.held) == _rounded(before.held)
    again.hands.pass_seconds(600)
    assert (await usage_of(again, ANN)).held[0].week_hours == pytest.approx(1 + 0.25 / 6)
    await again.close()


def _rounded(held: list[HeldDoc]) -> list[tuple[object, ...]]:
    return [(it.kind, it.held_devices, round(it.faded_hours, 6), round(it.week_hours, 6)) for it in held]


@pytest.mark.asyncio
async def test_what_a_failed_commit_took_back_is_not_counted(bench: ServiceBench) -> None:
    await bench.granted(250)
    bench.block_writes()
    with pytest.raises(Exception, match="journal"):
        await bench.granted(250)
    doc = await usage_of(bench, ANN)
    assert doc.held[0].held_devices == 0.25
    bench.allow_writes()
    await bench.until(lambda: bench.host.failure is None, seconds=20.0)
    assert [it.state for it in bench.host.leases.values()] == [LeaseState.ATTACHING]
