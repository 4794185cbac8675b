"""Further readings of emulated devices: they follow the model and the load."""

from __future__ import annotations

import os

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.emulated import EmulatedBackend
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.protocol.messages import ShareOrder
from jupyter_gpupool.protocol.telemetry import CATALOGUE, READINGS


def me() -> ProcessMark:
    stat = ProcFS().stat(os.getpid())
    assert stat is not None
    return stat.mark


def test_further_readings_follow_the_model_and_the_load() -> None:
    seconds = iter(range(10_000))
    backend = EmulatedBackend("1xA100-80GB", clock=lambda: float(next(seconds)))
    idle = backend.sample([])[0].metrics
    device = backend.discover()[0]
    share = ShareOrder(device_id=device.id, compute_milli=1000, memory_bytes=device.memory_bytes)
    lease = backend.attach("lease_1", share, me())
    for _ in range(60):
        backend.sample([lease])
    busy = backend.sample([lease])[0]
    assert not busy.metrics.keys() - CATALOGUE.keys()
    assert not busy.metrics.keys() & set(READINGS)
    assert (idle["clocks_idle"], busy.metrics["clocks_idle"]) == (1, 0)
    assert busy.metrics["processes"] == 1
    assert busy.metrics["power_limit_watts"] == 400
    assert busy.metrics["memory_free_bytes"] == 80 * 2**30 - (busy.readings.memory_used_bytes or 0)
    assert 60 * 60 < busy.metrics["energy_joules"] < 70 * 400
    assert busy.metrics["ecc_uncorrected_volatile"] == 0
    assert (backend.watch(lease).utilization_percent or 0) > 50


def test_eight_devices_give_more_than_two_hundred_readings() -> None:
    samples = EmulatedBackend("8xA100-80GB").sample([])
    assert sum(len(sample.metrics) + len(READINGS) for sample in samples) >= 200
