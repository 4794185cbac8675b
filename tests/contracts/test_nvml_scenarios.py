"""What holds on every machine: each reading is a value or None with a reason, and none hides another.

Each scenario is a state of the fake driver (`tests.support.gpu_scenarios`) on which the real binding runs.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from jupyter_gpupool.backends._nvml import NVML, RETRY_SECONDS, Reading
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.processes import device_processes
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.nvidia.snapshot import GPUSnapshot
from jupyter_gpupool.backends.nvidia.unified import DeviceMemory
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.protocol.telemetry import READINGS
from tests.support.fake_gpus import FakeGPUs
from tests.support.gpu_scenarios import HOST_PID, MIB, SCENARIOS

GIB = 2**30
#: Functions about a device, each with arguments.
FUNCTIONS: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetBAR1MemoryInfo",),
    ("nvmlDeviceGetClockInfo", 1),
    ("nvmlDeviceGetComputeMode",),
    ("nvmlDeviceGetCurrPcieLinkGeneration",),
    ("nvmlDeviceGetCurrPcieLinkWidth",),
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetEncoderUtilization",),
    ("nvmlDeviceGetEnforcedPowerLimit",),
    ("nvmlDeviceGetFanSpeed",),
    ("nvmlDeviceGetMaxClockInfo", 1),
    ("nvmlDeviceGetMemoryInfo",),
    ("nvmlDeviceGetMigMode",),
    ("nvmlDeviceGetName",),
    ("nvmlDeviceGetNvLinkState", 0),
    ("nvmlDeviceGetPcieReplayCounter",),
    ("nvmlDeviceGetPerformanceState",),
    ("nvmlDeviceGetPowerUsage",),
    ("nvmlDeviceGetProcessUtilization", 0),
    ("nvmlDeviceGetRemappedRows",),
    ("nvmlDeviceGetRetiredPagesPendingStatus",),
    ("nvmlDeviceGetSupportedEventTypes",),
    ("nvmlDeviceGetTemperature", 0),
    ("nvmlDeviceGetTemperatureThreshold", 1),
    ("nvmlDeviceGetTotalEccErrors", 1, 0),
    ("nvmlDeviceGetTotalEnergyConsumption",),
    ("nvmlDeviceGetUtilizationRates",),
)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A machine, and all that we look at it with."""

    def __init__(self, gpus: FakeGPUs) -> None:
        self.gpus = gpus
        self.clock = Clock()
        self.nvml = NVML(gpus.library, clock=self.clock)
        self.discovery = Discovery(self.nvml)
        self.sampler = DeviceSampler(self.nvml, self.discovery, clock=self.clock)

    def play(self, scenario: str) -> Bench:
        """Make the machine that of a scenario."""
        SCENARIOS[scenario](self.gpus)
        return self

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    def sample(self) -> dict[str, GPUSnapshot]:
        """Sample all devices; by name."""
        snapshot = self.sampler.refresh()
        return {gpu.name: snapshot.by_uuid[gpu.uuid] for gpu in snapshot.gpus}

    def readings(self, gpu: GPU) -> dict[str, Reading[Any]]:
        """Read all functions of a device."""
        handle = self.nvml.handle(gpu.uuid)
        if handle.value is None:
            return {function: Reading(None, handle.reason) for function, *_ in FUNCTIONS}
        return {
            function: self.nvml.read(function, handle.value, *arguments) for function, *arguments in FUNCTIONS
        }


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Bring a machine without GPUs, on which a test plays a scenario."""
    with FakeGPUs(tmp_path / "gpus") as gpus:
        made = Bench(gpus)
        yield made
        made.sampler.close()
        made.nvml.close()


def assert_told(reading: Reading[Any]) -> None:
    assert (reading.value is None) == bool(reading.reason), reading


# --- in every scenario ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_reading_is_a_value_or_none_with_a_reason(bench: Bench, scenario: str) -> None:
    bench.play(scenario)
    found = bench.discovery.look()
    assert bool(found) != bool(bench.discovery.problem)
    for gpu in found:
        for reading in bench.readings(gpu).values():
            assert_told(reading)
        assert_told(device_processes(bench.nvml, gpu))
        assert_told(DeviceMemory(bench.nvml).read(bench.nvml.handle(gpu.uuid).value))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_sample_has_each_reading_or_says_why_not(bench: Bench, scenario: str) -> None:
    bench.play(scenario)
    snapshot = bench.sampler.refresh()
    assert bool(snapshot.gpus) != bool(snapshot.problem)
    for gpu in snapshot.gpus:
        sample = snapshot.by_uuid[gpu.uuid]
        for name in READINGS:
            assert (getattr(sample.readings, name) is None) == bool(sample.missing.get(name)), name
        assert all(sample.missing.values())
        assert not set(sample.metrics) & set(sample.missing)
        assert_told(sample.processes)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in ("no_driver", "sixteen")])
@pytest.mark.parametrize("fault", ["!999", "!4", "!3", "missing"])
def test_one_function_that_fails_takes_no_other_with_it(bench: Bench, scenario: str, fault: str) -> None:
    bench.play(scenario)
    devices = bench.discovery.look()
    before = {gpu.uuid: bench.readings(gpu) for gpu in devices}
    for broken in ("nvmlDeviceGetTemperature", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"):
        if fault == "missing":
            bench.gpus.missing(broken)
        else:
            bench.gpus.set(f"gpu0.{broken}", fault)
        assert [gpu.uuid for gpu in bench.discovery.look()] == [gpu.uuid for gpu in devices]
        after = bench.readings(devices[0])
        assert after[broken].value is None
        assert after[broken].reason
    known = {name for name, reading in before[devices[0].uuid].items() if reading.value is not None}
    told = {name for name, reading in after.items() if reading.value is not None}
    assert known - told <= {
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPowerUsage",
    }


@pytest.mark.parametrize("error", [1, 2, 3, 4, 6, 9, 14, 15, 16, 17, 18, 20, 27, 30, 999])
def test_one_gpu_that_fails_hides_no_other(bench: Bench, error: int) -> None:
    bench.play("eight_a100")
    before = bench.discovery.look()
    bench.gpus.set("gpu3.all", f"!{error}")
    bench.passes(120)
    after = bench.discovery.look()
    if error == 1:  # "uninitialized": NVML is opened again before anything is read
        bench.passes(120)
        after = bench.discovery.look()
    assert [gpu for gpu in before if gpu.uuid != bench.gpus.uuid(3)] == [
        gpu for gpu in after if gpu.uuid != bench.gpus.uuid(3)
    ]


# --- each for itself ------------------------------------------------------------------------------------


def test_eight_a100(bench: Bench) -> None:
    found = bench.play("eight_a100").discovery.look()
    assert [gpu.name for gpu in found] == [f"cuda{number}" for number in range(8)]
    assert {(gpu.model, gpu.memory_bytes, gpu.multiprocessors) for gpu in found} == {
        ("NVIDIA A100-SXM4-80GB", 80 * GIB, 108)
    }
    assert len({gpu.uuid for gpu in found}) == 8
    samples = bench.sample()
    assert {sample.readings.temperature_celsius for sample in samples.values()} == {34}
    assert {sample.health for sample in samples.values()} == {Health.HEALTHY}


def test_an_h100_with_three_mixed_instances(bench: Bench) -> None:
    whole, *instances = bench.play("mixed_mig").discovery.look()
    assert whole.mig_enabled
    assert [(one.name, one.multiprocessors, one.memory_bytes // MIB) for one in instances] == [
        ("cuda0-mig0", 60, 40448),
        ("cuda0-mig1", 32, 20096),
        ("cuda0-mig2", 16, 9984),
    ]
    assert all(one.parent_uuid == whole.uuid for one in instances)
    for device in (whole, *instances):
        assert bench.readings(device)["nvmlDeviceGetUtilizationRates"].reason == "not supported on MIG"
    assert bench.sample()["cuda0-mig1"].readings.memory_used_bytes == 0


def test_a_gb10_has_the_systems_memory_and_says_so(bench: Bench) -> None:
    (gpu,) = bench.play("unified").discovery.look()
    assert gpu.unified
    memory = DeviceMemory(bench.nvml).read(bench.nvml.handle(gpu.uuid).value).value
    assert memory is not None
    assert memory.unified
    installed = Path("/proc/meminfo").read_text().split()[1]
    assert 0 < memory.total_bytes == gpu.memory_bytes <= int(installed) * 1024
    assert bench.readings(gpu)["nvmlDeviceGetMemoryInfo"].reason == "not supported here"
    sample = bench.sample()["cuda0"]
    assert sample.metrics["memory_total_bytes"] == memory.total_bytes
    assert sample.readings.memory_used_bytes


def test_wsl_does_not_tell_the_memory_of_processes(bench: Bench) -> None:
    (gpu,) = bench.play("wsl").discovery.look()
    processes = device_processes(bench.nvml, gpu).value
    assert processes is not None
    assert [one.memory_bytes for one in processes] == [None, None]
    assert gpu.memory_bytes == 24564 * MIB
    assert bench.sample()["cuda0"].missing["xid_events"]


def test_without_the_library_there_is_no_gpu_and_no_error(tmp_path: Path) -> None:
    nvml = NVML(str(tmp_path / "libnvidia-ml.so.1"))
    snapshot = DeviceSampler(nvml, Discovery(nvml)).refresh()
    assert snapshot.gpus == ()
    assert snapshot.problem == "There is no GPU: NVML is not installed."


def test_with_the_library_but_without_the_driver_it_is_seen_when_the_driver_comes(bench: Bench) -> None:
    bench.play("no_driver")
    assert bench.sampler.refresh().problem == "There is no GPU: the driver is not loaded."
    bench.gpus.unset("init")
    bench.passes(RETRY_SECONDS + 1)
    snapshot = bench.sampler.refresh()
    assert snapshot.problem == ""
    assert [gpu.name for gpu in snapshot.gpus] == ["cuda0"]


def test_a_driver_that_loses_the_devices_in_mid_run_gets_them_back(bench: Bench) -> None:
    """The container runtime takes the device files away when the service manager reloads."""
    bench.play("eight_a100")
    assert bench.sample()["cuda7"].readings.temperature_celsius == 34
    bench.gpus.set("all", "!999")
    for _ in range(4):
        bench.passes(RETRY_SECONDS + 1)
        samples = bench.sample()
        assert len(samples) == 8
        for sample in samples.values():
            assert sample.readings.temperature_celsius is None
            assert sample.missing["temperature_celsius"] == "the driver says: Unknown Error"
    assert samples["cuda7"].health is Health.FAILED
    bench.gpus.unset("all")
    for _ in range(20):
        bench.passes(RETRY_SECONDS + 1)
        samples = bench.sample()
    assert samples["cuda7"].readings.temperature_celsius == 34
    assert samples["cuda7"].health is Health.HEALTHY


def test_the_longer_entries_of_branch_535_are_not_misread(bench: Bench) -> None:
    first, _ = bench.play("branch_535").discovery.look()
    processes = device_processes(bench.nvml, first).value
    assert processes is not None
    assert {one.pid: one.memory_bytes for one in processes} == {101: 100 * MIB, 102: 200 * MIB, 103: None}
    # What this saves us from: the binding reads the second entry from the middle of the first.
    misread = bench.nvml.read("nvmlDeviceGetComputeRunningProcesses", bench.nvml.handle(first.uuid).value)
    assert misread.value is not None
    assert misread.value[1].pid != 102


def test_the_hosts_processes_are_not_taken_for_the_containers(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    (tmp_path / f"proc/{HOST_PID}/fd").mkdir(parents=True)  # an innocent one with the same number
    first, _ = bench.play("container").discovery.look()
    processes = device_processes(bench.nvml, first, tmp_path / "proc").value
    assert processes is not None
    assert [(one.pid, one.visible, one.memory_bytes) for one in processes] == [
        (HOST_PID, False, 300 * MIB),
        (HOST_PID + 1, False, 50 * MIB),
    ]


def test_a_gpu_that_falls_off_the_bus_fails_alone_and_comes_back(bench: Bench) -> None:
    bench.gpus.a100(4)
    assert {sample.health for sample in bench.sample().values()} == {Health.HEALTHY}
    bench.gpus.lose(2)
    bench.passes(1)
    samples = bench.sample()
    assert samples["cuda2"].missing["temperature_celsius"] == "the GPU is lost"
    assert [samples[f"cuda{number}"].readings.temperature_celsius for number in (0, 1, 3)] == [34] * 3
    for _ in range(20):
        bench.passes(10)
        samples = bench.sample()
        assert sorted(samples) == ["cuda0", "cuda1", "cuda2", "cuda3"]
        assert [samples[f"cuda{number}"].health for number in (0, 1, 3)] == [Health.HEALTHY] * 3
    assert samples["cuda2"].health is Health.FAILED
    bench.gpus.recover(2)
    for _ in range(40):
        bench.passes(10)
        samples = bench.sample()
    assert samples["cuda2"].health is Health.HEALTHY
    assert samples["cuda2"].readings.temperature_celsius == 34


def test_a_gpu_that_was_lost_from_the_start_hides_no_other(bench: Bench) -> None:
    found = bench.play("off_the_bus").discovery.look()
    assert [gpu.uuid for gpu in found] == [bench.gpus.uuid(number) for number in (0, 1, 3)]
    assert bench.discovery.notes == ("GPU 2 cannot be opened: the GPU is lost.",)


def test_sixteen_gpus_on_two_pci_domains(bench: Bench) -> None:
    found = bench.play("sixteen").discovery.look()
    assert [gpu.name for gpu in found] == [f"cuda{number}" for number in range(16)]
    assert [gpu.pci_bus_id for gpu in found] == [
        f"{domain:08X}:{0x10 + number:02X}:00.0" for domain in range(2) for number in range(8)
    ]
    assert len(bench.sample()) == 16


def test_a_binding_that_returns_bytes_makes_no_difference(bench: Bench, tmp_path: Path) -> None:
    """As older ones did: here the installed one, without its decoding."""
    source = inspect.getsource(pynvml)
    older = source.replace("return res.decode()", "return res")
    assert older != source
    (tmp_path / "older").mkdir()
    (tmp_path / "older/pynvml.py").write_text(older)
    bench.play("mixed_mig")
    script = (
        "import dataclasses, json, pynvml\n"
        "from jupyter_gpupool.backends._nvml import NVML\n"
        "from jupyter_gpupool.backends.nvidia.discovery import Discovery\n"
        "nvml = NVML()\n"
        "found = [dataclasses.asdict(gpu) for gpu in Discovery(nvml).look()]\n"
        "raw = pynvml.nvmlDeviceGetName(nvml.handle(found[0]['uuid']).value)\n"
        "print(json.dumps({'found': found, 'raw': type(raw).__name__}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=bench.gpus.environment()
        | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "older"), str(Path(__file__).parents[2])])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["raw"] == "bytes"
    assert [one["model"] for one in answer["found"]] == [gpu.model for gpu in bench.discovery.look()]
    assert [one["uuid"] for one in answer["found"]] == [gpu.uuid for gpu in bench.discovery.look()]
