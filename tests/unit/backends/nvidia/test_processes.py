"""Which processes are on a device, and how much memory they have there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML, Reading
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.processes import GPUProcess, device_processes
from tests.support.fake_cuda import CUDAHolder
from tests.support.fake_gpus import FakeGPUs

MIB = 2**20
#: No pid is as large.
NOBODY = 4_194_304 + 4711


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    """Bring one GPU."""
    with FakeGPUs(tmp_path / "gpus").a100() as made:
        yield made


@pytest.fixture
def nvml(gpus: FakeGPUs) -> Iterator[NVML]:
    """Open a door to it."""
    door = NVML(gpus.library)
    yield door
    door.close()


def on(nvml: NVML, number: int = 0, proc: Path = Path("/proc")) -> Reading[list[GPUProcess]]:
    return device_processes(nvml, Discovery(nvml).look()[number], proc)


def memory_on(nvml: NVML, number: int = 0) -> dict[int, int | None]:
    found = on(nvml, number)
    assert found.value is not None, found.reason
    return {process.pid: process.memory_bytes for process in found.value}


def process(proc: Path, pid: int, *targets: str) -> None:
    """Put a process with open files into a tree like /proc."""
    (proc / str(pid) / "fd").mkdir(parents=True)
    for number, target in enumerate(targets):
        (proc / str(pid) / "fd" / str(number)).symlink_to(target)


def namespace(proc: Path, name: str) -> Path:
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(name)
    return proc


def test_an_idle_device_has_none(nvml: NVML) -> None:
    assert on(nvml) == Reading([])


def test_a_process_and_what_it_uses(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.processes("gpu0", (os.getpid(), 512 * MIB))
    assert on(nvml) == Reading([GPUProcess(pid=os.getpid(), memory_bytes=512 * MIB)])


def test_memory_that_the_driver_does_not_tell_is_unknown_and_not_zero(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.processes("gpu0", (1, None), (os.getpid(), 0))
    assert memory_on(nvml) == {1: None, os.getpid(): 0}


def test_clients_of_mps_and_what_draws_are_told_apart(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.processes("gpu0", (11, MIB), (12, 2 * MIB, "mps"), (13, 3 * MIB, "graphics"))
    found = on(nvml).value
    assert found is not None
    assert [(one.pid, one.via_mps, one.graphics) for one in found] == [
        (11, False, False),
        (12, True, False),
        (13, False, True),
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_longer_entries_of_branch_535_are_read_rightly(gpus: FakeGPUs, nvml: NVML, count: int) -> None:
    wanted = {1000 + n: n * MIB for n in range(count)}
    gpus.processes("gpu0", *wanted.items()).set("processes", "r535")
    assert memory_on(nvml) == wanted


def test_older_drivers_have_older_lists(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.processes("gpu0", (7, MIB), (8, None), (9, MIB, "mps"))
    for suffix in ("_v3", "_v2"):
        gpus.missing(*(f"nvmlDeviceGet{kind}RunningProcesses{suffix}" for kind in ("Compute", "MPSCompute")))
        assert memory_on(nvml) == {7: MIB, 8: None, 9: MIB}


def test_a_driver_without_lists_of_clients_and_graphics_still_has_the_main_one(
    gpus: FakeGPUs, nvml: NVML
) -> None:
    gpus.processes("gpu0", (7, MIB))
    for kind in ("MPSCompute", "Graphics"):
        gpus.missing(*(f"nvmlDeviceGet{kind}RunningProcesses{suffix}" for suffix in ("_v3", "_v2", "")))
    assert memory_on(nvml) == {7: MIB}


def test_without_permission_nobody_is_known_and_that_is_said(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.set("gpu0.processes", "!4")
    assert on(nvml) == Reading(None, "no permission")


def test_a_lost_gpu_says_so(gpus: FakeGPUs, nvml: NVML) -> None:
    (gpu,) = Discovery(nvml).look()
    gpus.lose(0)
    assert device_processes(nvml, gpu) == Reading(None, "the GPU is lost")


def test_an_instance_lists_its_own_and_the_gpu_all_of_them(gpus: FakeGPUs, nvml: NVML) -> None:
    gpus.h100_mig("3g.40gb", "2g.20gb")
    gpus.processes("gpu1.mig0", (21, MIB)).processes("gpu1.mig1", (22, 2 * MIB), (21, 5 * MIB))
    assert memory_on(nvml, 1) == {21: 6 * MIB, 22: 2 * MIB}
    assert memory_on(nvml, 2) == {21: MIB}
    assert memory_on(nvml, 3) == {21: 5 * MIB, 22: 2 * MIB}


def test_a_process_that_uses_cuda_appears_and_vanishes_with_it(gpus: FakeGPUs, nvml: NVML) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert memory_on(nvml) == {}
        assert not holder.init()["error"]
        before = memory_on(nvml)[holder.pid]
        assert before is not None
        assert not holder.alloc(100 * MIB)["error"]
        assert memory_on(nvml) == {holder.pid: before + 100 * MIB}
        found = on(nvml).value
        assert found is not None
        assert found[0].visible
        holder.kill()
        assert memory_on(nvml) == {}


# --- whose pids are these? ------------------------------------------------------------------------------


def test_on_the_host_a_living_pid_is_that_process(gpus: FakeGPUs, nvml: NVML, tmp_path: Path) -> None:
    proc = namespace(tmp_path / "proc", "pid:[4026531836]")
    process(proc, 50)
    gpus.processes("gpu0", (50, MIB), (NOBODY, MIB))
    found = on(nvml, proc=proc).value
    assert found is not None
    assert [(one.pid, one.visible) for one in found] == [(50, True), (NOBODY, False)]


def test_in_a_container_only_a_process_that_has_the_gpu_open_is_meant(
    gpus: FakeGPUs, nvml: NVML, tmp_path: Path
) -> None:
    """The driver names processes as the host does: the same number may be an innocent one here."""
    proc = namespace(tmp_path / "proc", "pid:[4026532201]")
    process(proc, 50, "/dev/null", "/dev/nvidia-uvm")
    process(proc, 51, "/dev/null", "socket:[1]")
    process(proc, 52, "/dev/nvidiactl")  # it reads NVML, as we do
    gpus.processes("gpu0", (50, MIB), (51, MIB), (52, MIB), (NOBODY, MIB))
    found = on(nvml, proc=proc).value
    assert found is not None
    assert {one.pid for one in found if one.visible} == {50}
    assert sum(one.memory_bytes or 0 for one in found) == 4 * MIB


def test_where_the_namespace_cannot_be_told_it_is_taken_for_a_containers(
    gpus: FakeGPUs, nvml: NVML, tmp_path: Path
) -> None:
    process(tmp_path / "proc", 50)
    gpus.processes("gpu0", (50, MIB))
    found = on(nvml, proc=tmp_path / "proc").value
    assert found is not None
    assert not found[0].visible
