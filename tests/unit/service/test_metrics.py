"""What a reader of /metrics sees: every device and lease, and no name that is not theirs to see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.documents import ProcessDoc, ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceSample, LeaseSample, SampleReport
from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_PREFIX,
    POOL,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    READINGS,
    Kind,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.measured import Measured
from tests.support.service_bench import GIB, PlayedAgent, ServiceBench

ANN, BOB = Principal(owner="ann"), Principal(owner="bob")
ROOT = Principal(owner="root", administrator=True)
#: What an A100 does not give.
NOT_ON_A100 = {
    *("sm_busy_percent", "sm_occupancy_percent", "tensor_percent", "memory_bandwidth_percent"),
    *("fp64_percent", "fp32_percent", "fp16_percent", "fan_percent", "jpeg_percent", "optical_flow_percent"),
    *("fabric_state", "fabric_status", "fabric_bandwidth_degraded", "last_xid"),
    *("retired_pages_single_bit", "retired_pages_double_bit", "retired_pages_pending"),
}


def a100_sample(device_id: str) -> DeviceSample:
    """Make what an agent sends of an A100."""
    return DeviceSample(
        device_id=device_id,
        readings=ReadingsDoc(
            utilization_percent=42, memory_used_bytes=3 * GIB, temperature_celsius=61, power_watts=250
        ),
        metrics={name: 1.0 for name in CATALOGUE if name not in NOT_ON_A100 and name not in READINGS},
        missing=dict.fromkeys(NOT_ON_A100, "not supported here"),
        unmanaged=[ProcessDoc(pid=1, user="eve", name="python")],
    )


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    made = await ServiceBench(tmp_path / "j.sqlite3", agent=PlayedAgent(devices=8)).open()
    yield made
    await made.close()


async def report(bench: ServiceBench, *leases: LeaseSample) -> None:
    devices = [a100_sample(device_id) for device_id in bench.host.pool.devices]
    await bench.agent.report(SampleReport(devices=devices, leases=list(leases)))


def scrape(bench: ServiceBench, who: Principal = ANN) -> list[Sample]:
    measured = Measured(bench.host, bench.book, bench.lease_views.opaque)
    text = bench.metrics.render(states=[], offered=[], compute=[], writable=True, measured=measured.text(who))
    return [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]


def labels_of(samples: list[Sample], name: str) -> list[dict[str, str]]:
    return [sample.labels for sample in samples if sample.name == PREFIX + name]


@pytest.mark.asyncio
async def test_a_node_with_eight_gpus_has_more_than_two_hundred_series(bench: ServiceBench) -> None:
    await report(bench)
    samples = [sample for sample in scrape(bench) if "device" in sample.labels]
    series = {(sample.name, *sorted(sample.labels.items())) for sample in samples}
    assert len(series) == len(samples), "a series twice"
    assert len(series) >= 200
    assert {sample.labels["device"] for sample in samples} == set(bench.host.pool.devices)


@pytest.mark.asyncio
async def test_each_reading_is_labelled_by_device_node_and_name(bench: ServiceBench) -> None:
    await report(bench)
    found = labels_of(scrape(bench), "device_temperature_celsius")
    assert found[3] == {"device": "GPU-node-1-3", "node": "host-node-1", "name": "cuda3"}
    (value,) = {sample.value for sample in scrape(bench) if sample.name.endswith("device_power_watts")}
    assert value == 250


@pytest.mark.asyncio
async def test_a_missing_reading_has_no_series(bench: ServiceBench) -> None:
    await report(bench)
    sample = DeviceSample(
        device_id="GPU-node-1-0", readings=ReadingsDoc(), missing={"power_watts": "no permission"}
    )
    await bench.agent.report(SampleReport(devices=[sample], leases=[]))
    samples = [one for one in scrape(bench) if one.labels.get("device") == "GPU-node-1-0"]
    assert not [one for one in samples if one.name in (PREFIX + "device_" + name for name in CATALOGUE)]
    (missing,) = (one.value for one in samples if one.name == PREFIX + "device_readings_missing")
    assert missing == 1


@pytest.mark.asyncio
async def test_what_the_catalogue_does_not_know_is_left_out(bench: ServiceBench) -> None:
    sample = DeviceSample(device_id="GPU-node-1-0", readings=ReadingsDoc(), metrics={"from_the_future": 1.0})
    await bench.agent.report(SampleReport(devices=[sample], leases=[]))
    assert not [one for one in scrape(bench) if "future" in one.name]


@pytest.mark.asyncio
async def test_a_gpu_in_mig_mode_is_shown_though_it_is_no_device(bench: ServiceBench) -> None:
    await bench.agent.report(SampleReport(devices=[a100_sample("GPU-parent")], leases=[]))
    assert {"device": "GPU-parent", "node": "host-node-1", "name": ""} in labels_of(
        scrape(bench), "device_temperature_celsius"
    )


@pytest.mark.asyncio
async def test_devices_that_left_with_their_agent_have_no_readings(bench: ServiceBench) -> None:
    await report(bench)
    bench.book.left("node-1")
    samples = scrape(bench)
    assert not labels_of(samples, "device_temperature_celsius")
    assert len(labels_of(samples, "device_health")) == 8


async def _leased(bench: ServiceBench) -> tuple[Lease, Lease]:
    mine, other = await bench.granted(250, owner="ann"), await bench.granted(500, owner="bob")
    await report(
        bench,
        *(
            LeaseSample(
                lease_id=lease.id, memory_used_bytes=GIB, processes=2, utilization_percent=20, notices=[]
            )
            for lease in (mine, other)
        ),
    )
    assert mine.state is not LeaseState.QUEUED
    return mine, other


@pytest.mark.asyncio
async def test_a_lease_is_shown_with_what_it_holds_and_uses(bench: ServiceBench) -> None:
    mine, _ = await _leased(bench)
    values = {
        sample.name.removeprefix(PREFIX): sample.value
        for sample in scrape(bench)
        if sample.labels.get("lease") == mine.id
    }
    assert values == {
        "lease_compute_ratio": 0.25,
        "lease_memory_bytes": 4 * GIB,
        "lease_memory_used_bytes": GIB,
        "lease_utilization_percent": 20,
        "lease_processes": 2,
    }


@pytest.mark.asyncio
async def test_other_owners_have_no_name(bench: ServiceBench) -> None:
    mine, other = await _leased(bench)
    seen = {labels["lease"]: labels["owner"] for labels in labels_of(scrape(bench), "lease_compute_ratio")}
    assert seen.pop(mine.id) == "ann"
    ((lease, owner),) = seen.items()
    assert lease.startswith("other_")
    assert owner.startswith("other_")
    text = repr(scrape(bench))
    assert other.id not in text
    assert "bob" not in text


@pytest.mark.asyncio
async def test_an_opaque_name_is_the_same_at_each_reading(bench: ServiceBench) -> None:
    await _leased(bench)
    first = labels_of(scrape(bench, BOB), "lease_memory_bytes")
    assert labels_of(scrape(bench, BOB), "lease_memory_bytes") == first


@pytest.mark.asyncio
async def test_an_administrator_sees_who_holds_what(bench: ServiceBench) -> None:
    mine, other = await _leased(bench)
    seen = {
        labels["lease"]: labels["owner"] for labels in labels_of(scrape(bench, ROOT), "lease_compute_ratio")
    }
    assert seen == {mine.id: "ann", other.id: "bob"}


@pytest.mark.asyncio
async def test_every_metric_that_is_served_is_one_of_the_tables(bench: ServiceBench) -> None:
    await _leased(bench)
    bench.metrics.answered("GET", 200)
    known = {DEVICE_PREFIX + name: metric for name, metric in CATALOGUE.items()}
    known |= {
        PREFIX + name: metric for table in (POOL, POOL_DEVICE, POOL_LEASE) for name, metric in table.items()
    }
    measured = Measured(bench.host, bench.book, bench.lease_views.opaque)
    text = bench.metrics.render(states=[], offered=[], compute=[], writable=True, measured=measured.text(ANN))
    for family in text_string_to_metric_families(text.decode()):
        if family.name.endswith("_created"):
            continue
        metric = known[family.name]
        assert family.type == metric.kind.value, family.name
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        assert labels == set(metric.labels) or (not family.samples), family.name


@pytest.mark.asyncio
async def test_names_that_people_chose_are_escaped(bench: ServiceBench) -> None:
    odd = 'a"b\\c\nd'
    lease = await bench.granted(100, owner=odd)
    found = labels_of(scrape(bench, ROOT), "lease_memory_bytes")
    assert [labels["owner"] for labels in found if labels["lease"] == lease.id] == [odd]


def test_names_end_in_their_units() -> None:
    for metric in [*CATALOGUE.values(), *POOL_DEVICE.values(), *POOL_LEASE.values()]:
        ending = {"%": "percent", "°C": "celsius", "W": "watts", "Hz": "hertz", "s": "seconds", "J": "joules"}
        unit = ending.get(metric.unit, metric.unit)
        assert not unit or metric.name.endswith(unit), metric.name
        assert metric.kind is not Kind.HISTOGRAM
