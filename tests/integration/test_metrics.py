"""/metrics of a real service and its agent: from the driver, or the emulation, to the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jupyter_gpupool.protocol.names import API_PREFIX
from tests.support.fake_gpus import FakeGPUs
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world


def series(pool: PoolProcess) -> set[tuple[str, ...]]:
    """Return the series that concern devices, by name and labels."""
    families = text_string_to_metric_families(pool.get("/metrics").body)
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))
        for family in families
        for sample in family.samples
        if "device" in sample.labels
    }


@pytest.mark.slow
def test_a_node_with_eight_gpus_shows_more_than_two_hundred_series(tmp_path: Path) -> None:
    with running_pool(world(tmp_path), emulate="8xA100-80GB") as pool:
        wait_for(lambda: len(series(pool)) >= 200, "200 series")
        ids = {device["id"] for device in pool.get(f"{API_PREFIX}/devices").body}
        found = series(pool)
        assert len(ids) == 8
        assert {label for one in found for label in one if label.startswith("device=")} == {
            f"device={device_id}" for device_id in ids
        }
        temperatures = [one for one in found if one[0] == "jupyter_gpupool_device_temperature_celsius"]
        assert len(temperatures) == 8
        infos = [one for one in found if one[0] == "jupyter_gpupool_device_info"]
        assert all("emulated=true" in one for one in infos)


@pytest.mark.slow
def test_the_driver_of_eight_gpus_is_read_to_the_last_metric(tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "driver").a100(8)
    with running_pool({**world(tmp_path), **gpus.environment()}) as pool:
        wait_for(lambda: len(series(pool)) >= 400, "400 series")
        names = {name for name, *labels in series(pool) if "name=cuda7" in labels}
        for name in ("power_watts", "sm_clock_hertz", "energy_joules_total", "ecc_corrected_volatile_total"):
            assert f"jupyter_gpupool_device_{name}" in names
