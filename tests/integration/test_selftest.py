"""``jupyter gpupool selftest`` as a person runs it: on this machine's CPU, and with GPUs that are faked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.protocol.paths import data_dir
from jupyter_gpupool.selftest.gpu_claims import processes_in
from tests.support.fake_cuda import FAKES, CUDAHolder
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS

PROVED, FAILED, NOT_POSSIBLE = "proved", "failed", "not possible here"
COMMAND = [sys.executable, "-m", "jupyter_gpupool", "selftest"]


def selftest(*arguments: str, environment: Mapping[str, str], status: int = 0) -> dict[str, Any]:
    """Run it, and return its JSON."""
    done = subprocess.run(
        [*COMMAND, "--json", *arguments], env=dict(environment), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == status, done.stderr + done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def outcomes(result: Mapping[str, Any], device: str, sharing: str) -> dict[str, str]:
    """Return what came of each claim about a device that is shared so."""
    wanted = [each for each in result["claims"] if (each["device"], each["sharing"]) == (device, sharing)]
    return {each["name"]: each["outcome"] for each in wanted}


def without_torch(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a machine whose PyTorch cannot be imported: that takes most of the time."""
    stand_in = folder / "no-torch" / "torch"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    return {**environment, "PYTHONPATH": str(stand_in.parent)}


def with_torch(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a machine whose PyTorch allocates from the fake CUDA."""
    return {**environment, "PYTHONPATH": str(FAKES.with_name("torch_on_cuda"))}


@contextmanager
def in_a_group_of_its_own() -> Iterator[Path]:
    """Make a control group below which others can be made; skips where that is not possible."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    mount = next((line.split()[1] for line in mounts if line.split()[2] == "cgroup2"), "")
    inner = Path(mount) / f"selftest-{os.getpid()}" / "inner"
    if not mount or os.getuid() != 0:
        pytest.skip("control groups of version 2 cannot be made here")
    try:
        inner.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"control groups of version 2 cannot be made here ({error.strerror})")
    try:
        yield inner
    finally:
        for group in (inner, inner.parent):
            group.rmdir()


def test_without_a_gpu_the_rows_of_gpus_say_why_they_are_not_possible(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    result = selftest("--device", "cuda0", environment=without_torch(pool_environment, tmp_path))
    (claim,) = result["claims"]
    assert claim["outcome"] == NOT_POSSIBLE
    assert "NVML is not installed" in claim["detail"]


@pytest.mark.slow
def test_the_limits_of_this_cpu_hold_when_they_are_exceeded(pool_environment: dict[str, str]) -> None:
    result = selftest("--device", "cpu", environment=pool_environment)
    assert result["seconds"] < 120
    by_way = {claim["sharing"] for claim in result["claims"]}
    assert by_way in ({""}, {"strongest", "plainest"})
    for way in by_way:
        found = outcomes(result, "cpu", way)
        assert {found[name] for name in ("attach", "memory.past", "release", "kill")} == {PROVED}
        # a machine that is busy with something else cannot tell these
        assert {found[name] for name in ("compute.cap", "two.holders")} <= {PROVED, NOT_POSSIBLE}
    kept = (data_dir() / PROBES_FILE).read_text()
    assert "RLIMIT_DATA" in kept
    (torch,) = [each["outcome"] for each in result["claims"] if each["name"] == "memory.past.torch"]
    assert torch == PROVED


@pytest.mark.slow
def test_limits_by_mps_and_time_slicing_are_told_apart(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1).set("cuda.launch_nanoseconds", 20_000_000)
    with FakeMPS(tmp_path / "mps") as mps:
        environment = {**pool_environment, **gpus.environment(), "PATH": mps.environment()["PATH"]}
        result = selftest("--device", "cuda0", environment=with_torch(environment))
        assert not mps.processes()
    limited = outcomes(result, "cuda0", "mps")
    assert {limited[name] for name in ("attach", "memory.under", "memory.past.driver", "kill")} == {PROVED}
    assert {limited[name] for name in ("memory.past.runtime", "compute.cap", "compute.rate")} == {PROVED}
    sliced = outcomes(result, "cuda0", "timeslice")
    assert {sliced[name] for name in ("attach", "memory.watch", "compute.equal", "kill")} == {PROVED}
    assert {sliced[name] for name in ("memory.past.driver", "compute.cap")} == {NOT_POSSIBLE}
    assert {limited["release"], sliced["release"]} == {PROVED}
    assert {limited["memory.past.torch"], sliced["memory.past.torch"]} == {PROVED}
    proof = ProbeBook(data_dir() / PROBES_FILE).result(gpus.uuid(0), "615.71", "mps")
    assert proof is not None
    assert proof.proves(Resource.MEMORY)
    assert proof.proves(Resource.COMPUTE)


@pytest.mark.slow
def test_the_drivers_limit_holds_in_a_control_group(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1).set("cuda.launch_nanoseconds", 20_000_000)
    environment = without_torch({**pool_environment, **gpus.environment()}, tmp_path)
    with in_a_group_of_its_own() as group:
        enter = f"echo $$ > {group}/cgroup.procs && exec {' '.join(COMMAND)} --json --device cuda0"
        done = subprocess.run(
            ["sh", "-c", enter], env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr + done.stdout
        assert [each.name for each in group.parent.iterdir() if each.is_dir()] == ["inner"]
    result = json.loads(done.stdout)
    assert outcomes(result, "cuda0", "")["probe.driver"] == PROVED
    assert outcomes(result, "cuda0", "timeslice")["memory.past.driver"] == PROVED


@pytest.mark.slow
def test_a_mig_instance_is_proved_as_a_whole(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").h100_mig("3g.40gb")
    environment = without_torch({**pool_environment, **gpus.environment()}, tmp_path)
    result = selftest("--device", "cuda0-mig0", environment=environment)
    assert outcomes(result, "cuda0-mig0", "")["probe.mig"] == PROVED
    found = outcomes(result, "cuda0-mig0", "mig")
    assert {found[name] for name in ("attach", "memory.past.driver", "compute.cap", "kill")} == {PROVED}
    assert found["two.holders"] == NOT_POSSIBLE


@pytest.mark.slow
def test_a_limit_that_does_not_hold_is_a_failure(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1)
    # CUDA finds no daemon where this agent put one: so it runs without MPS, and says nothing
    gpus.set("cuda.mps", 0)
    with FakeMPS(tmp_path / "mps") as mps:
        environment = {**pool_environment, **gpus.environment(), "PATH": mps.environment()["PATH"]}
        environment = without_torch(environment, tmp_path)
        result = selftest("--device", "cuda0", environment=environment, status=1)
    found = outcomes(result, "cuda0", "mps")
    assert found["attach"] == FAILED
    assert {outcomes(result, "cuda0", "")["probe.mps"], found["memory.past.driver"]} == {FAILED}
    detail = next(each["detail"] for each in result["claims"] if each["name"] == "probe.mps")
    assert "could be allocated past a limit" in detail


@pytest.mark.slow
def test_a_device_that_somebody_uses_is_left_alone(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(2)
    environment = without_torch({**pool_environment, **gpus.environment()}, tmp_path)
    locks = DeviceLocks()
    assert not locks.take(gpus.uuid(1))
    with CUDAHolder(environment) as somebody:
        assert not somebody.init()["error"]
        result = selftest("--device", "cuda0", environment=environment)
        (claim,) = [each for each in result["claims"] if each["name"] == "device"]
        assert f"rocess {somebody.pid}" in claim["detail"]
    result = selftest("--device", "cuda1", environment=environment)
    locks.close()
    (claim,) = [each for each in result["claims"] if each["name"] == "device"]
    assert f"pid {os.getpid()}" in claim["detail"]
    assert claim["outcome"] == NOT_POSSIBLE


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1)
    folder = tmp_path / "temporary"
    folder.mkdir()
    with FakeMPS(tmp_path / "mps") as mps:
        environment = {**pool_environment, **gpus.environment(), "PATH": mps.environment()["PATH"]}
        environment |= {"TMPDIR": str(folder), "SELFTEST_MARK": str(tmp_path / "mark")}
        with subprocess.Popen(
            [*COMMAND, "--device", "cuda0"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # whatever runs these tests in the background may ignore it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "granted (cuMemAlloc)" in line:
                    break
            process.send_signal(signal.SIGINT)
            process.stderr.read()
            assert process.wait(timeout=30) == 130
        assert not mps.processes()
    assert not processes_in(Path(environment["SELFTEST_MARK"]))
    assert not list(folder.iterdir())
