"""The fake CUDA driver does what the real one is documented to do, as far as we rely on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.processes import GPUProcess, device_processes
from tests.support.fake_cuda import CUDAHolder
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS
from tests.support.waiting import until

GIB = 2**30
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    with FakeGPUs(tmp_path / "gpus").a100(1).h100_mig("3g.40gb", "1g.10gb") as made:
        yield made


@pytest.fixture
def mps(tmp_path: Path) -> Iterator[FakeMPS]:
    with FakeMPS(tmp_path / "mps") as made:
        yield made


@pytest.fixture
def pipes(mps: FakeMPS, tmp_path: Path) -> Path:
    path = tmp_path / "pipes"
    mps.start_daemon(path)
    return path


@pytest.fixture
def common() -> Iterator[Path]:
    """Return a folder that other users can enter, as those of tests cannot be."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def seen(gpus: FakeGPUs) -> list[GPUProcess]:
    """Return who is on the first GPU, as NVML says it."""
    nvml = NVML(gpus.library)
    try:
        first = Discovery(nvml).look()[0]
        return device_processes(nvml, first).value or []
    finally:
        nvml.close()


def test_a_process_with_cuda_is_seen_by_nvml_and_vanishes_when_it_is_killed(gpus: FakeGPUs) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert not seen(gpus)
        assert not holder.init()["error"]
        assert not holder.alloc(2 * GIB)["error"]
        (process,) = seen(gpus)
        assert (process.pid, process.via_mps) == (holder.pid, False)
        assert 2 * GIB < (process.memory_bytes or 0) < 3 * GIB
        holder.kill()
        assert not seen(gpus)


def test_memory_is_shared_by_all_processes_and_returns_when_one_dies(gpus: FakeGPUs) -> None:
    with CUDAHolder(gpus.environment()) as first, CUDAHolder(gpus.environment()) as second:
        assert not first.init()["error"]
        assert not second.init()["error"]
        assert not first.alloc(50 * GIB)["error"]
        assert second.alloc(40 * GIB)["error"] == OUT_OF_MEMORY
        assert second.do("info")["free"] < 30 * GIB
        first.kill()
        assert not second.alloc(40 * GIB)["error"]


def test_the_environment_chooses_a_device_by_uuid_and_a_mig_instance_is_small(gpus: FakeGPUs) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert not holder.init(CUDA_VISIBLE_DEVICES=gpus.uuid(1, 1))["error"]
        assert holder.do("devices")["count"] == 1
        assert holder.do("multiprocessors")["multiprocessors"] == 16
        assert holder.do("info")["total"] < 10 * GIB
        assert holder.alloc(12 * GIB)["error"] == OUT_OF_MEMORY


def test_no_device_is_seen_where_none_is_named(gpus: FakeGPUs) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert holder.init(CUDA_VISIBLE_DEVICES="GPU-ffffffff")["error"] == "CUDA_ERROR_NO_DEVICE"


def test_a_fork_of_a_process_with_cuda_has_none(gpus: FakeGPUs) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert not holder.init()["error"]
        assert holder.do("fork")["child"] == "CUDA_ERROR_NOT_INITIALIZED"


def test_an_exclusive_device_takes_one_process(gpus: FakeGPUs) -> None:
    gpus.set("gpu0.compute_mode", "exclusive_process")
    with CUDAHolder(gpus.environment()) as first, CUDAHolder(gpus.environment()) as second:
        assert not first.init()["error"]
        assert second.init()["error"] == "CUDA_ERROR_DEVICE_UNAVAILABLE"


def test_the_drivers_limit_of_a_control_group_counts_everything_and_can_be_lifted(gpus: FakeGPUs) -> None:
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line[3:] for line in groups if line.startswith("0::")), None)
    if own is None:
        pytest.skip("this machine has no control groups of version 2")
    nvml = NVML(gpus.library)

    def limit(size: int) -> None:
        limits = nvml.structure(
            "c_nvmlSetMemoryLimits_v1_t", nameSpace=own.encode(), softLimit=0, hardLimit=size
        )
        device = nvml.handle(gpus.uuid(0)).value
        assert not nvml.read("nvmlDeviceSetMemoryLimits_v1", device, limits).reason

    with CUDAHolder(gpus.environment()) as holder:
        limit(4 * GIB)
        assert not holder.init()["error"]
        assert not holder.alloc(3 * GIB)["error"]
        assert holder.alloc(2 * GIB)["error"] == OUT_OF_MEMORY
        limit(0)
        assert not holder.alloc(2 * GIB)["error"]
    nvml.close()


# --- MPS ------------------------------------------------------------------------------------------------


def test_a_client_of_mps_gets_a_part_of_memory_and_multiprocessors(gpus: FakeGPUs, pipes: Path) -> None:
    environment = {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{gpus.uuid(0)}=2048M",
    }
    with CUDAHolder(gpus.environment()) as holder:
        assert not holder.init(**environment)["error"]
        assert holder.do("multiprocessors")["multiprocessors"] == 26  # of 108, rounded down to pairs
        assert not holder.alloc(GIB)["error"]
        assert holder.alloc(GIB)["error"] == OUT_OF_MEMORY  # the context counts too
        (process,) = seen(gpus)
        assert process.via_mps


def test_without_a_daemon_its_limits_are_silently_nothing(gpus: FakeGPUs, tmp_path: Path) -> None:
    environment = {
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "nothing"),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G",
    }
    with CUDAHolder(gpus.environment()) as holder:
        assert not holder.init(**environment)["error"]
        assert not holder.alloc(20 * GIB)["error"]
        assert holder.do("multiprocessors")["multiprocessors"] == 108


@pytest.mark.asyncio
async def test_a_client_waits_while_the_server_is_another_users(
    gpus: FakeGPUs, mps: FakeMPS, common: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be two users")
    with CUDAHolder(gpus.environment()) as holder:
        pipes = common / "pipes"
        mps.start_daemon(pipes)
        other = mps.client(pipes, gpus.uuid(0), uid=65534)
        shown = pipes / "fake-daemon"
        await until(lambda: f"accepted {other.pid}\n" in shown.read_text(), what="it is the server's client")
        holder.begin("init", environment={"CUDA_MPS_PIPE_DIRECTORY": str(pipes)})
        assert not holder.answers_within(0.3)
        other.end()
        assert not holder.answer()["error"]
        mps.end()
        await until(lambda: not mps.processes(), what="the daemon ended")


def test_a_fault_of_one_client_ends_the_other_and_keeps_new_ones_out(gpus: FakeGPUs, pipes: Path) -> None:
    through = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
    environment = gpus.environment()
    with (
        CUDAHolder(environment) as first,
        CUDAHolder(environment) as second,
        CUDAHolder(environment) as third,
    ):
        assert not first.init(**through)["error"]
        assert not second.init(**through)["error"]
        assert first.do("fault")["error"] == "CUDA_ERROR_ILLEGAL_ADDRESS"
        assert second.alloc(GIB)["error"] == "CUDA_ERROR_LAUNCH_FAILED"
        assert third.init(**through)["error"] == "CUDA_ERROR_MPS_SERVER_NOT_READY"


@pytest.mark.asyncio
async def test_a_client_that_the_server_terminated_says_so(gpus: FakeGPUs, mps: FakeMPS, pipes: Path) -> None:
    with CUDAHolder(gpus.environment()) as holder:
        assert not holder.init(CUDA_MPS_PIPE_DIRECTORY=str(pipes))["error"]
        server = mps.tell(pipes, "get_server_list")
        mps.tell(pipes, f"terminate_client {server} {holder.pid}")
        shown = pipes / "fake-daemon"
        await until(lambda: f"terminated {holder.pid}\n" in shown.read_text(), what="it is let go of")
        assert holder.alloc(GIB)["error"] == "CUDA_ERROR_MPS_CLIENT_TERMINATED"
