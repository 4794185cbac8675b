"""A holder is idle when no cell runs and its device is not used; what is unknown is not idle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceSample, LeaseSample, SampleReport
from tests.support.service_bench import ServiceBench

pytestmark = pytest.mark.asyncio
MINUTE = 60.0


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


async def held(bench: ServiceBench, milli: int = 1000) -> str:
    return (await bench.active(milli)).id


async def used(
    bench: ServiceBench, lease_id: str, percent: float | None, *, whole: float | None = 50.0
) -> None:
    device = bench.host.leases[lease_id].shares[0].device_id
    await bench.agent.report(
        SampleReport(
            devices=[DeviceSample(device_id=device, readings=ReadingsDoc(utilization_percent=whole))],
            leases=[LeaseSample(lease_id=lease_id, utilization_percent=percent)],
        )
    )


async def cell(bench: ServiceBench, lease_id: str, *, runs: bool, idle_seconds: float = 0.0) -> None:
    lease = bench.host.leases[lease_id]
    bench.idleness.told(lease, busy=runs, idle_ms=round(idle_seconds * 1000))


def idle_seconds(bench: ServiceBench, lease_id: str) -> float | None:
    return bench.idleness.idle_seconds(bench.host.leases[lease_id])


async def test_a_holder_that_says_nothing_is_not_known_to_be_idle(bench: ServiceBench) -> None:
    lease_id = await held(bench)
    await used(bench, lease_id, 0.0)
    bench.hands.pass_seconds(MINUTE)
    assert idle_seconds(bench, lease_id) is None


async def test_no_cell_and_no_use_of_the_device_is_idle(bench: ServiceBench) -> None:
    lease_id = await held(bench)
    await cell(bench, lease_id, runs=False)
    assert idle_seconds(bench, lease_id) == 0.0, "of the device nothing is known yet"
    bench.hands.pass_seconds(MINUTE)
    await used(bench, lease_id, 0.0)
    bench.hands.pass_seconds(MINUTE)
    assert idle_seconds(bench, lease_id) == MINUTE
    await cell(bench, lease_id, runs=True)
    assert idle_seconds(bench, lease_id) == 0.0


@pytest.mark.parametrize(("percent", "whole"), [(30.0, 30.0), (None, 30.0), (None, None)])
async def test_a_device_that_is_used_or_unknown_is_not_idle(
    bench: ServiceBench, percent: float | None, whole: float | None
) -> None:
    lease_id = await held(bench)
    await cell(bench, lease_id, runs=False)
    await used(bench, lease_id, percent, whole=whole)
    bench.hands.pass_seconds(MINUTE)
    assert idle_seconds(bench, lease_id) == 0.0


async def test_nobody_uses_a_device_that_does_nothing(bench: ServiceBench) -> None:
    lease_id = await held(bench)
    await cell(bench, lease_id, runs=False)
    await used(bench, lease_id, None, whole=0.0)
    bench.hands.pass_seconds(MINUTE)
    assert idle_seconds(bench, lease_id) == MINUTE


async def test_a_burst_on_the_device_begins_the_idle_time_anew(bench: ServiceBench) -> None:
    lease_id = await held(bench)
    await cell(bench, lease_id, runs=False)
    for percent in (0.0, 40.0, 0.0):
        await used(bench, lease_id, percent)
        bench.hands.pass_seconds(MINUTE)
    assert idle_seconds(bench, lease_id) == MINUTE
