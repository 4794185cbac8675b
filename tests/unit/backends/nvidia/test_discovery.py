"""Which devices there are: by UUID, in PCI order, with what NVML says about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.machine import Machine
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.unified import DeviceMemory
from tests.support.fake_gpus import FakeGPUs

GIB = 2**30


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    """Bring a machine without GPUs, to which a test adds some."""
    with FakeGPUs(tmp_path / "gpus") as made:
        yield made


@pytest.fixture
def nvml(gpus: FakeGPUs) -> Iterator[NVML]:
    """Open a door to them."""
    door = NVML(gpus.library)
    yield door
    door.close()


@pytest.fixture
def discovery(nvml: NVML) -> Discovery:
    """Look for them."""
    return Discovery(nvml)


def named(found: list[GPU]) -> dict[str, GPU]:
    return {gpu.name: gpu for gpu in found}


def test_a_gpu_is_described_by_what_nvml_says(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.a100()
    assert discovery.look() == [
        GPU(
            uuid=gpus.uuid(0),
            name="cuda0",
            model="NVIDIA A100-SXM4-80GB",
            memory_bytes=80 * GIB,
            multiprocessors=108,
            pci_bus_id="00000000:07:00.0",
            driver="615.71",
            compute_capability=(8, 0),
            compute_mode="default",
        )
    ]
    assert discovery.problem == ""
    assert discovery.notes == ()


def test_order_is_that_on_the_bus_and_not_that_of_the_driver(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.a100(3)
    gpus.set("gpu0.pci", "1 0x04 0").set("gpu1.pci", "0 0xC1 0").set("gpu2.pci", "0 0x3B 0")
    assert [(gpu.name, gpu.uuid) for gpu in discovery.look()] == [
        ("cuda0", gpus.uuid(2)),
        ("cuda1", gpus.uuid(1)),
        ("cuda2", gpus.uuid(0)),
    ]


def test_a_gpu_that_is_away_renames_no_other_and_returns_under_its_name(
    gpus: FakeGPUs, discovery: Discovery
) -> None:
    gpus.a100(3)
    before = named(discovery.look())
    gpus.lose(1)
    assert sorted(named(discovery.look())) == ["cuda0", "cuda2"]
    assert discovery.notes == ("GPU 1 cannot be opened: the GPU is lost.",)
    gpus.recover(1)
    assert named(discovery.look()) == before


def test_a_gpu_that_tells_nearly_nothing_is_still_a_device(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.a100(2)
    for function in ("Name", "PciInfo_v3", "NumGpuCores", "CudaComputeCapability", "ComputeMode", "MigMode"):
        gpus.missing(f"nvmlDeviceGet{function}")
    first, second = discovery.look()
    assert (first.uuid, first.name, first.model) == (gpus.uuid(0), "cuda0", "NVIDIA GPU")
    assert (first.multiprocessors, first.compute_capability, first.compute_mode) == (0, (0, 0), "")
    assert second.name == "cuda1"


def test_what_cannot_be_read_is_logged_once(
    gpus: FakeGPUs, discovery: Discovery, caplog: pytest.LogCaptureFixture
) -> None:
    gpus.a100(2).lose(1)
    for _ in range(3):
        discovery.look()
    assert caplog.messages == ["GPU 1 cannot be opened: the GPU is lost."]


def test_memory_that_may_not_be_read_cannot_be_leased_and_that_is_said(
    gpus: FakeGPUs, discovery: Discovery
) -> None:
    gpus.a100(2).set("gpu0.memory", "!4")
    first, second = discovery.look()
    assert (first.memory_bytes, second.memory_bytes) == (0, 80 * GIB)
    (note,) = discovery.notes
    assert note.startswith("GPU 00000000:07:00.0 does not tell its memory")
    assert note.endswith("no permission.")


@pytest.mark.parametrize(
    ("mode", "said"), [("0", "default"), ("2", "prohibited"), ("3", "exclusive_process"), ("!3", "")]
)
def test_the_compute_mode_is_named(gpus: FakeGPUs, discovery: Discovery, mode: str, said: str) -> None:
    gpus.a100().set("gpu0.compute_mode", mode)
    assert discovery.look()[0].compute_mode == said


# --- MIG ------------------------------------------------------------------------------------------------


def test_instances_follow_their_gpu_with_the_numbers_that_nvml_gives(
    gpus: FakeGPUs, discovery: Discovery
) -> None:
    gpus.h100_mig("3g.40gb", "1g.10gb").a100()
    whole, large, small, other = discovery.look()
    assert [gpu.name for gpu in (whole, large, small, other)] == [
        "cuda0",
        "cuda0-mig0",
        "cuda0-mig1",
        "cuda1",
    ]
    assert whole.mig_enabled
    assert not whole.is_mig
    assert large.is_mig
    assert (large.uuid, large.parent_uuid) == (gpus.uuid(0, 0), gpus.uuid(0))
    assert (large.multiprocessors, large.parent_milli) == (60, 60 * 1000 // 132)
    assert (small.multiprocessors, small.parent_milli) == (16, 16 * 1000 // 132)
    assert (large.memory_bytes, small.memory_bytes) == (40448 * 2**20, 9984 * 2**20)
    assert (small.gpu_instance_id, small.compute_instance_id) == (2, 0)
    assert small.model == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert small.compute_capability == (9, 0)


def test_nothing_is_computed_from_the_name_of_a_profile(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.h100_mig("1g.10gb").set("gpu0.mig0.name", "NVIDIA H100 80GB HBM3 MIG 7g.80gb")
    instance = discovery.look()[1]
    assert instance.multiprocessors == 16
    assert instance.memory_bytes == 9984 * 2**20
    assert instance.parent_milli == 121


def test_where_nvml_tells_no_multiprocessors_the_part_is_unknown(
    gpus: FakeGPUs, discovery: Discovery
) -> None:
    gpus.h100_mig("1g.10gb").missing("nvmlDeviceGetNumGpuCores")
    instance = discovery.look()[1]
    assert (instance.multiprocessors, instance.parent_milli) == (16, 0)


def test_instances_have_the_order_of_their_ids(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.h100_mig("1g.10gb", "1g.10gb", "1g.10gb")
    for index, instance_id in enumerate((13, 7, 9)):
        gpus.set(f"gpu0.mig{index}.nvmlDeviceGetGpuInstanceId", instance_id)
    assert [gpu.uuid for gpu in discovery.look()[1:]] == [gpus.uuid(0, 1), gpus.uuid(0, 2), gpus.uuid(0, 0)]


def test_another_geometry_is_seen_at_the_next_look(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.h100_mig("3g.40gb", "2g.20gb")
    assert len(discovery.look()) == 3
    gpus.unset("gpu0.mig1.uuid")
    assert sorted(named(discovery.look())) == ["cuda0", "cuda0-mig0"]


def test_an_instance_that_may_not_be_opened_hides_no_other(gpus: FakeGPUs, discovery: Discovery) -> None:
    gpus.h100_mig("3g.40gb", "2g.20gb").set("gpu0.mig0.all", "!4")
    found = discovery.look()
    assert [gpu.uuid for gpu in found] == [gpus.uuid(0), gpus.uuid(0, 1)]
    assert discovery.notes == ("Instance 0 of cuda0 cannot be opened: no permission.",)


# --- memory ---------------------------------------------------------------------------------------------


def test_memory_is_told_with_what_the_driver_keeps_where_it_says_so(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.a100().set("gpu0.memory.used", 3 * GIB)
    handle = nvml.handle(gpus.uuid(0)).value
    memory = DeviceMemory(nvml).read(handle).value
    assert memory is not None
    assert (memory.total_bytes, memory.used_bytes, memory.reserved_bytes) == (
        80 * GIB,
        3 * GIB,
        635 * 2**20,
    )
    gpus.missing("nvmlDeviceGetMemoryInfo_v2")
    older = DeviceMemory(nvml).read(handle).value
    assert older is not None
    assert (older.total_bytes, older.used_bytes) == (80 * GIB, 3 * GIB + 635 * 2**20)
    assert older.free_bytes == memory.free_bytes


@pytest.mark.parametrize("told", [("memory", "!3"), ("memory.total", "0")])
def test_a_chip_with_one_memory_has_the_systems(
    gpus: FakeGPUs, nvml: NVML, tmp_path: Path, told: tuple[str, str]
) -> None:
    gpus.gb10().unset("gpu0.memory").set("gpu0.memory.total", 1).set(f"gpu0.{told[0]}", told[1])
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("")
    (tmp_path / "proc/self/cgroup").write_text("")
    (tmp_path / "proc/meminfo").write_text(
        f"MemTotal: {128 * 2**20} kB\nMemFree: 1 kB\nMemAvailable: {100 * 2**20} kB\n"
    )
    reader = DeviceMemory(nvml, Machine(tmp_path))
    memory = reader.read(nvml.handle(gpus.uuid(0)).value).value
    assert memory is not None
    assert memory.unified
    assert (memory.total_bytes, memory.used_bytes, memory.free_bytes) == (128 * GIB, 28 * GIB, 100 * GIB)
    (gpu,) = Discovery(nvml, reader).look()
    assert gpu.unified
    assert gpu.memory_bytes == 128 * GIB
    assert gpu.multiprocessors == 48


# --- nothing there --------------------------------------------------------------------------------------


def test_without_gpus_the_problem_says_why(gpus: FakeGPUs, discovery: Discovery) -> None:
    assert discovery.look() == []
    assert discovery.problem == "the driver finds no GPU"
    gpus.a100().lose(0)
    assert discovery.look() == []
    assert discovery.problem == "GPU 0 cannot be opened: the GPU is lost"
    gpus.recover(0)
    assert len(discovery.look()) == 1
    assert discovery.problem == ""


def test_a_driver_that_cannot_be_opened_is_the_problem(tmp_path: Path) -> None:
    discovery = Discovery(NVML(str(tmp_path / "libnvidia-ml.so.1")))
    assert discovery.look() == []
    assert discovery.problem == "NVML is not installed"
