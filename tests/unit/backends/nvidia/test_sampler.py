"""The thread that reads the GPUs: what consumers see, whatever the driver does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.sampler import STALL_SECONDS, DeviceSampler, GPUSnapshot, Snapshot
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.telemetry import READINGS
from tests.support.fake_gpus import FakeGPUs
from tests.support.waiting import until


class Clock:
    """Time that a test passes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A node with fake GPUs and a sampler on a clock of its own."""

    def __init__(self, gpus: FakeGPUs, rules: HealthRules | None = None) -> None:
        self.gpus = gpus
        self.clock = Clock()
        self.nvml = NVML(library=gpus.library, clock=self.clock)
        self.sampler = DeviceSampler(
            self.nvml, Discovery(self.nvml), seconds=0.02, health=rules, clock=self.clock
        )

    def rounds(self, count: int = 1, *, each_seconds: float = 1.0) -> Snapshot:
        """Pass time, a sample at each step; returns the last."""
        snapshot = self.sampler.latest()
        for _ in range(count):
            self.clock.now += each_seconds
            snapshot = self.sampler.refresh()
        return snapshot

    def health(self, number: int = 0) -> tuple[Health, str]:
        """Return what the newest sample says of a device."""
        snapshot = self.sampler.latest()
        one = snapshot.by_uuid[snapshot.gpus[number].uuid]
        return one.health, one.health_reason

    def one(self, number: int = 0) -> GPUSnapshot:
        """Return a device of the newest sample."""
        snapshot = self.sampler.latest()
        return snapshot.by_uuid[snapshot.gpus[number].uuid]


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    with FakeGPUs(tmp_path) as made:
        yield made


def test_eight_gpus_are_read_and_healthy(gpus: FakeGPUs) -> None:
    snapshot = Node(gpus.a100(8)).rounds(2)
    assert [gpu.name for gpu in snapshot.gpus] == [f"cuda{number}" for number in range(8)]
    assert snapshot.problem == ""
    for one in snapshot.by_uuid.values():
        assert one.readings.temperature_celsius == 34
        assert len(one.metrics) >= 25
        assert (one.health, one.health_reason) == (Health.HEALTHY, "")


def test_without_nvml_there_is_no_gpu_and_a_reason(tmp_path: Path) -> None:
    nvml = NVML(library=str(tmp_path / "libnvidia-ml.so.1"))
    sampler = DeviceSampler(nvml, Discovery(nvml))
    assert sampler.refresh().problem == "There is no GPU: NVML is not installed."


def test_a_library_without_a_driver_says_so(gpus: FakeGPUs) -> None:
    gpus.a100().set("init", "!9")
    assert Node(gpus).sampler.refresh().problem == "There is no GPU: the driver is not loaded."


def test_a_gpu_that_is_lost_fails_at_once_and_comes_back_by_itself(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100(2))
    node.rounds(2)
    gpus.lose(0)
    snapshot = node.rounds(1)
    assert [gpu.name for gpu in snapshot.gpus] == ["cuda0", "cuda1"]
    assert node.health(0)[0] is Health.FAILED
    assert node.health(0)[1].startswith("It does not answer: the GPU is lost. It comes back by itself")
    assert node.one(0).readings == ReadingsDoc()
    assert node.one(0).missing == dict.fromkeys(READINGS, "the GPU is lost")
    assert node.health(1)[0] is Health.HEALTHY
    gpus.recover(0)
    node.rounds(12, each_seconds=10)
    assert node.health(0) == (Health.HEALTHY, "")
    assert node.one(0).readings.temperature_celsius == 34


def test_gpus_stay_known_while_the_driver_is_gone(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100(2))
    node.rounds(2)
    gpus.set("all", "!999")
    node.rounds(12, each_seconds=10)
    assert {node.health(number)[0] for number in (0, 1)} == {Health.FAILED}
    assert len(node.sampler.latest().gpus) == 2
    gpus.unset("all")
    node.rounds(20, each_seconds=10)
    assert {node.health(number)[0] for number in (0, 1)} == {Health.HEALTHY}


def test_a_mig_instance_that_is_taken_away_is_forgotten(gpus: FakeGPUs) -> None:
    node = Node(gpus.h100_mig("3g.40gb", "1g.10gb"))
    assert len(node.rounds(1).gpus) == 3
    gpus.unset(*(f"gpu0.mig1.{key}" for key in ("uuid", "name", "attributes", "memory.total")))
    assert [gpu.name for gpu in node.rounds(2, each_seconds=10).gpus] == ["cuda0", "cuda0-mig0"]


def test_a_fatal_xid_fails_a_gpu_until_it_has_been_quiet(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100(2), HealthRules(quiet_seconds=120))
    node.rounds(2)
    gpus.event(1, 79)
    node.rounds(1)
    assert node.health(0)[0] is Health.HEALTHY
    assert node.health(1)[0] is Health.FAILED
    assert "XID 79" in node.health(1)[1]
    assert (node.one(1).metrics["xid_events"], node.one(1).metrics["last_xid"]) == (1, 79)
    node.rounds(18, each_seconds=10)
    assert node.health(1) == (Health.HEALTHY, "")


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_an_xid_of_a_program_fails_nothing(gpus: FakeGPUs, number: int) -> None:
    node = Node(gpus.a100())
    node.rounds(1)
    gpus.event(0, number)
    node.rounds(5)
    assert node.health() == (Health.HEALTHY, "")
    assert node.one().metrics["last_xid"] == number


def test_a_driver_without_events_says_so_and_is_healthy(gpus: FakeGPUs) -> None:
    gpus.a100().missing("nvmlEventSetCreate")
    node = Node(gpus)
    node.rounds(2)
    assert node.one().missing["xid_events"] == "driver too old"
    assert node.health()[0] is Health.HEALTHY


def test_an_ill_gpu_makes_its_mig_instances_ill(gpus: FakeGPUs) -> None:
    node = Node(gpus.h100_mig("3g.40gb"))
    node.rounds(1)
    gpus.set("gpu0.nvmlDeviceGetRemappedRows", "0 1 0 1")
    node.rounds(4, each_seconds=10)
    assert node.health(0) == node.health(1)
    assert node.health(1)[0] is Health.FAILED


def test_heat_degrades_and_passes(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100())
    node.rounds(1)
    gpus.set("gpu0.nvmlDeviceGetTemperature", 90)
    node.rounds(3)
    assert node.health()[0] is Health.DEGRADED
    gpus.set("gpu0.nvmlDeviceGetTemperature", 60)
    node.rounds(40)
    assert node.health()[0] is Health.HEALTHY


def test_processes_are_listed(gpus: FakeGPUs) -> None:
    gpus.a100().processes("gpu0", (4711, 2**30), (4712, None))
    node = Node(gpus)
    node.rounds(1)
    assert [process.pid for process in node.one().processes.value or []] == [4711, 4712]
    assert node.one().metrics["processes"] == 2


def test_all_consumers_see_the_same_sample(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100())
    node.rounds(1)
    assert node.sampler.latest() is node.sampler.latest()


@pytest.mark.asyncio
async def test_the_thread_goes_on_by_itself_and_ends(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100())
    before = threading.active_count()
    node.sampler.start()
    node.sampler.start()
    first = node.sampler.latest()
    await until(lambda: node.sampler.latest() is not first, what="another sample")
    assert threading.active_count() == before + 1
    node.sampler.close()
    assert threading.active_count() == before


@pytest.mark.asyncio
async def test_a_driver_that_hangs_keeps_nobody(gpus: FakeGPUs) -> None:
    node = Node(gpus.a100())
    node.sampler.start()
    node.sampler.latest()
    gpus.set("gpu0.nvmlDeviceGetTemperature", "~1500 34")
    seen = []

    def stalled() -> bool:
        node.clock.now += STALL_SECONDS + 1
        seen.append(node.sampler.latest())
        return "The NVIDIA driver has not answered for" in seen[-1].problem

    await until(stalled, what="a round that hangs")
    (one,) = seen[-1].by_uuid.values()
    assert one.health is Health.DEGRADED
    assert one.health_reason == "The NVIDIA driver does not answer: if this lasts, reboot the node."
    assert one.readings.temperature_celsius == 34, "what was known is still told"
    gpus.set("gpu0.nvmlDeviceGetTemperature", "35")
    await until(lambda: node.one().readings.temperature_celsius == 35, what="the driver's answer")
    assert node.sampler.latest().problem == ""
    node.sampler.close()


def test_a_driver_that_hangs_from_the_start_is_waited_for_once(gpus: FakeGPUs) -> None:
    nvml = NVML(library=gpus.a100().set("gpu0.nvmlDeviceGetTemperature", "~1000 34").library)
    sampler = DeviceSampler(nvml, Discovery(nvml), patience_seconds=0.1)
    sampler.start()
    began = time.monotonic()
    assert {sampler.latest().problem for _ in range(5)} == {"The NVIDIA driver has not answered yet."}
    assert time.monotonic() - began < 0.5
    sampler.close()


class Broken:
    """A discovery that has a bug."""

    problem = ""

    def look(self) -> list[object]:
        """Fail."""
        raise ZeroDivisionError


def test_a_bug_in_a_round_is_logged_and_blinds_nobody(
    gpus: FakeGPUs, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = DeviceSampler(NVML(library=gpus.a100().library), Broken())  # type: ignore[arg-type]
    assert "has not answered yet" in sampler.refresh().problem
    assert "ZeroDivisionError" in caplog.text
