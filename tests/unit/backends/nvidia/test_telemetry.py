"""What is read of a GPU, and the reason for each thing that cannot be."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.telemetry import WHOLE_GPU, Group, Telemetry
from jupyter_gpupool.protocol.telemetry import CATALOGUE, Pace
from tests.support.fake_gpus import FakeGPUs

#: What is counted elsewhere: by the sampler, and by the listener for XIDs.
COUNTED = {"processes", "xid_events", "last_xid"}


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGPUs:
    return FakeGPUs(tmp_path)


def read(gpus: FakeGPUs, number: int = 0, *, rounds: int = 2) -> Group:
    """Read a device's fast and slow groups; GPM needs two rounds."""
    with gpus:
        nvml = NVML(library=gpus.library)
        gpu = Discovery(nvml).look()[number]
        seconds = itertools.count()
        telemetry, both = Telemetry(nvml, gpu, lambda: float(next(seconds))), Group()
        for _ in range(rounds):
            handle = nvml.handle(gpu.uuid).value
            fast, slow = telemetry.fast(handle), telemetry.slow(handle)
            both = Group(slow.values | fast.values, slow.missing | fast.missing)
        telemetry.close()
        nvml.close()
    return both


@pytest.mark.parametrize("model", ["a100", "h100", "h100_mig", "gb10"])
def test_everything_of_the_catalogue_is_read_or_missing_with_a_reason(gpus: FakeGPUs, model: str) -> None:
    getattr(gpus, model)()
    group = read(gpus)
    assert group.values.keys() | group.missing.keys() == CATALOGUE.keys() - COUNTED
    assert not group.values.keys() & group.missing.keys()
    assert all(group.missing.values())


def test_the_catalogue_tells_how_often_each_is_read(gpus: FakeGPUs) -> None:
    with gpus.h100():
        nvml = NVML(library=gpus.library)
        gpu = Discovery(nvml).look()[0]
        telemetry, handle = Telemetry(nvml, gpu), nvml.handle(gpu.uuid).value
        for pace, group in ((Pace.FAST, telemetry.fast(handle)), (Pace.SLOW, telemetry.slow(handle))):
            names = group.values.keys() | group.missing.keys()
            assert names == {name for name, one in CATALOGUE.items() if one.pace is pace} - COUNTED
        telemetry.close()
        nvml.close()


def test_units_are_those_of_the_catalogue(gpus: FakeGPUs) -> None:
    gpus.a100()
    gpus.set("gpu0.nvmlDeviceGetPowerUsage", 250500)
    gpus.set("gpu0.nvmlDeviceGetClockInfo.1", 1410)
    gpus.set("gpu0.nvmlDeviceGetTotalEnergyConsumption", 7000)
    gpus.set("gpu0.nvmlDeviceGetUtilizationRates", "87 45")
    gpus.set("gpu0.memory.used", 3 * 2**30)
    gpus.set("gpu0.field.138", 2)
    gpus.set("gpu0.field.74", 2_000_000_000)
    values = read(gpus).values
    assert values["power_watts"] == 250.5
    assert values["sm_clock_hertz"] == 1.41e9
    assert values["energy_joules"] == 7
    assert (values["utilization_percent"], values["memory_utilization_percent"]) == (87, 45)
    assert values["memory_used_bytes"] == 3 * 2**30
    assert values["nvlink_sent_bytes"] == 2048
    assert values["power_capped_seconds"] == 2


def test_why_clocks_are_low_is_told_apart(gpus: FakeGPUs) -> None:
    gpus.a100().set("gpu0.nvmlDeviceGetCurrentClocksEventReasons", 0x04 | 0x40)
    values = read(gpus).values
    reasons = {name for name, value in values.items() if name.startswith("clocks_") and value}
    assert reasons == {"clocks_power_cap", "clocks_thermal_hardware"}


def test_a_function_that_was_renamed_is_found_under_its_old_name(gpus: FakeGPUs) -> None:
    gpus.a100().missing("nvmlDeviceGetCurrentClocksEventReasons")
    assert read(gpus).values["clocks_idle"] == 1


def test_an_old_driver_lacks_readings_and_nothing_else(gpus: FakeGPUs) -> None:
    gpus.a100().missing("nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo_v2")
    group = read(gpus)
    assert group.missing["remapped_rows_failed"] == "driver too old"
    assert group.missing["recovery_action"] == "driver too old"
    assert group.values["memory_total_bytes"] == 80 * 2**30
    assert group.values["temperature_celsius"] == 34


def test_a_reading_without_permission_says_so(gpus: FakeGPUs) -> None:
    gpus.a100().set("gpu0.nvmlDeviceGetPowerUsage", "!4")
    group = read(gpus)
    assert group.missing["power_watts"] == "no permission"
    assert "temperature_celsius" in group.values


def test_errors_of_several_counters_are_added(gpus: FakeGPUs) -> None:
    gpus.a100().set("gpu0.field.38", 3).set("gpu0.field.45", 4)
    assert read(gpus).values["nvlink_crc_errors"] == 7


def test_errors_that_are_counted_by_link_are_added(gpus: FakeGPUs) -> None:
    gpus.h100().set("gpu0.field.161.0", 2).set("gpu0.field.161.17", 5).set("gpu0.field.52", "!3")
    group = read(gpus)
    assert group.values["nvlink_replays"] == 7
    assert group.missing["nvlink_recoveries"] == "not supported here"


def test_a_reading_that_is_no_number_is_missing(gpus: FakeGPUs) -> None:
    gpus.h100().set("gpu0.gpm.2", "nan")
    assert "sm_busy_percent" in read(gpus).missing


def test_samples_that_are_too_close_together_are_not_compared(gpus: FakeGPUs) -> None:
    with gpus.h100().set("gpu0.gpm.2", 50):
        nvml = NVML(library=gpus.library)
        gpu = Discovery(nvml).look()[0]
        now = [0.0]
        telemetry, handle = Telemetry(nvml, gpu, lambda: now[0]), nvml.handle(gpu.uuid).value
        telemetry.fast(handle)
        now[0] = 0.05
        assert "sm_busy_percent" in telemetry.fast(handle).missing
        now[0] = 0.2
        assert telemetry.fast(handle).values["sm_busy_percent"] == 50
        now[0] = 0.25
        assert telemetry.fast(handle).values["sm_busy_percent"] == 50
        telemetry.close()
        nvml.close()


def test_a_counter_that_one_link_layer_lacks_is_still_read(gpus: FakeGPUs) -> None:
    gpus.a100().set("gpu0.field.38", "!3").set("gpu0.field.45", 4)
    group = read(gpus)
    assert group.values["nvlink_crc_errors"] == 4
    assert "nvlink_crc_errors" not in group.missing


def test_nvlinks_that_are_up_are_counted(gpus: FakeGPUs) -> None:
    gpus.a100().set("gpu0.nvmlDeviceGetNvLinkState.3", 0).set("gpu0.nvmlDeviceGetNvLinkState.12", "!2")
    assert read(gpus).values["nvlink_links"] == 11


def test_the_fabric_tells_its_state(gpus: FakeGPUs) -> None:
    gpus.h100().set("gpu0.fabric", "3 0 1")
    values = read(gpus).values
    assert (values["fabric_state"], values["fabric_status"], values["fabric_bandwidth_degraded"]) == (3, 0, 1)


def test_a_gpu_without_a_fabric_has_no_state_of_one(gpus: FakeGPUs) -> None:
    gpus.h100().set("gpu0.fabric", "0 0 0")
    assert read(gpus).missing["fabric_state"] == "not supported here"


def test_multiprocessors_are_read_from_the_second_sample_on(gpus: FakeGPUs) -> None:
    gpus.h100().set("gpu0.gpm.2", 61.5).set("gpu0.gpm.5", 12)
    assert read(gpus, rounds=1).missing["sm_busy_percent"] == "the first sample is missing"
    group = read(gpus)
    assert (group.values["sm_busy_percent"], group.values["tensor_percent"]) == (61.5, 12)
    assert group.missing["fp64_percent"] == "not supported here"


def test_a_mig_instance_takes_its_utilization_from_gpm(gpus: FakeGPUs) -> None:
    gpus.h100_mig("3g.40gb", "1g.10gb").set("gpu0.mig0.gpm.1", 40.5)
    first, second = read(gpus, 1), read(gpus, 2)
    assert first.values["utilization_percent"] == 40.5
    assert second.missing["utilization_percent"] == "not supported on MIG"


def test_a_mig_instance_has_its_own_memory_and_its_gpus_temperature(gpus: FakeGPUs) -> None:
    gpus.h100_mig("3g.40gb").set("gpu0.nvmlDeviceGetTemperature", 55)
    group = read(gpus, 1)
    assert group.values["memory_total_bytes"] == 40448 * 2**20
    assert group.values["temperature_celsius"] == 55
    assert group.missing["power_watts"] == WHOLE_GPU


def test_a_gpu_in_mig_mode_says_why_it_has_no_utilization(gpus: FakeGPUs) -> None:
    assert read(gpus.h100_mig()).missing["utilization_percent"] == "not supported on MIG"


def test_a_chip_without_memory_of_its_own_shows_the_systems(gpus: FakeGPUs) -> None:
    group = read(gpus.gb10())
    assert group.values["memory_total_bytes"] > group.values["memory_used_bytes"] > 0
    assert "memory_reserved_bytes" in group.missing


def test_processes_tell_how_busy_they_keep_it(gpus: FakeGPUs) -> None:
    with gpus.a100():
        nvml = NVML(library=gpus.library)
        gpu = Discovery(nvml).look()[0]
        telemetry, handle = Telemetry(nvml, gpu), nvml.handle(gpu.uuid).value
        assert telemetry.busy(handle) == {}
        gpus.set("gpu0.usage", "4711:30:12:0:0,4712:55:1:0:0")
        assert telemetry.busy(handle) == {4711: 30, 4712: 55}
        gpus.set("gpu0.usage", "!4")
        assert telemetry.busy(handle) == {}
        nvml.close()
