"""/metrics of a real service: an emulated node of eight GPUs, from the agent to the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jupyter_gpupool.protocol.names import API_PREFIX
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
