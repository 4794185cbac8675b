"""Each check of ``jupyter gpupool doctor`` finds its misconfiguration on a machine made of plain files."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.cli.doctor import jupyter, machine, pool
from jupyter_gpupool.cli.doctor.app import checks, examine
from jupyter_gpupool.cli.doctor.scene import Finding, Scene, Verdict, gather
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import HealthDoc, NodeDoc

FINE, MIND, WRONG = Verdict.FINE, Verdict.MIND, Verdict.WRONG
HEALTH = HealthDoc(status="ok", version="1.0", api=names.API_MAJOR)
NODE = NodeDoc(id="n", hostname="box", connected=True, version="1.0")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Make a machine without a GPU on which nothing is wrong."""
    for folder in ("root", "run", "data", "lock", "config", "share"):
        (tmp_path / folder).mkdir(mode=0o700)
    return Scene(
        root=tmp_path / "root",
        environment={"PATH": "/usr/bin"},
        uid=os.getuid(),
        runtime=tmp_path / "run",
        data=tmp_path / "data",
        locks=tmp_path / "lock",
        configs=[tmp_path / "config"],
        shares=[tmp_path / "share"],
        version="1.0",
        wall_seconds=2e9,
    )


def put(scene: Scene, path: str, text: str = "") -> Path:
    """Write a file of the machine."""
    file = scene.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def with_gpu(scene: Scene) -> Scene:
    """Put a GPU into the machine that works."""
    put(scene, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    put(scene, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
    put(scene, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.12  Mon\n")
    put(scene, "dev/nvidia0").chmod(0o666)
    put(scene, "usr/lib64/libnvidia-ml.so.1")
    return scene


def said(finding: Finding, verdict: Verdict, *words: str) -> None:
    """Assert on a finding; whatever is not fine says how to mend it."""
    assert finding.verdict is verdict, finding
    assert bool(finding.mend) is (verdict is not FINE), finding
    for word in words:
        assert word in finding.state + finding.mend, finding


def test_a_machine_without_a_gpu_is_fine(scene: Scene):
    said(machine.gpus(scene), FINE, "no NVIDIA GPU")
    said(machine.mps(scene), FINE)


def test_a_gpu_that_works_is_fine(scene: Scene):
    said(machine.gpus(with_gpu(scene)), FINE, "1 GPUs, driver 615.12")


def test_no_gpu_is_seen_because_the_driver_is_not_loaded(scene: Scene):
    with_gpu(scene)
    (scene.root / "proc/driver/nvidia/version").unlink()
    put(scene, "proc/modules", "nouveau 1 0 - Live\n")
    said(machine.gpus(scene), WRONG, "not loaded", "nouveau", "modprobe nvidia")


def test_no_gpu_is_seen_because_a_container_was_started_without_it(scene: Scene):
    with_gpu(scene)
    (scene.root / "dev/nvidia0").unlink()
    said(machine.gpus(scene), WRONG, "--gpus all")


def test_no_gpu_is_seen_because_this_user_may_not_open_it(scene: Scene):
    with_gpu(scene)
    (scene.root / "dev/nvidia0").chmod(0o600)
    stranger = replace(scene, uid=os.getuid() + 4711)
    said(machine.gpus(stranger), WRONG, "may not open nvidia0", "group")


def test_no_gpu_is_seen_because_the_library_is_missing_or_a_variable_hides_it(scene: Scene):
    with_gpu(scene)
    hidden = replace(scene, environment={"CUDA_VISIBLE_DEVICES": ""})
    said(machine.gpus(hidden), MIND, "CUDA_VISIBLE_DEVICES hides")
    (scene.root / "usr/lib64/libnvidia-ml.so.1").unlink()
    said(machine.gpus(scene), WRONG, "libnvidia-ml.so.1")


def test_mps_that_cannot_be_reached_is_said(scene: Scene):
    with_gpu(scene)
    said(machine.mps(scene), MIND, "not on PATH")
    put(scene, "usr/bin/nvidia-cuda-mps-control")
    said(machine.mps(scene), FINE)
    named = replace(scene, environment={"PATH": "/usr/bin", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/pipes"})
    said(machine.mps(named), WRONG, "/tmp/pipes", "nvidia-cuda-mps-control -d")
    put(scene, "tmp/pipes/control")
    said(machine.mps(named), FINE)


def cgroup(scene: Scene, controllers: str) -> Path:
    put(scene, "proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    put(scene, "proc/self/cgroup", "0::/agent\n")
    put(scene, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    return put(scene, "sys/fs/cgroup/agent/cgroup.controllers", controllers).parent


def test_control_groups_that_are_missing_or_not_delegated_are_said(scene: Scene):
    said(machine.control_groups(scene), MIND, "/sys/fs/cgroup")
    cgroup(scene, "cpu\n")
    said(machine.control_groups(scene), MIND, "memory is not delegated", "Delegate=cpu memory")
    cgroup(scene, "cpu memory pids\n")
    said(machine.control_groups(scene), FINE)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_control_group_of_somebody_else_is_said(scene: Scene):
    own = cgroup(scene, "cpu memory\n")
    own.chmod(0o500)
    said(machine.control_groups(scene), MIND, "Delegate=yes")
    own.chmod(0o700)


@pytest.mark.parametrize("place", ["data", "runtime"])
def test_a_network_filesystem_is_said(scene: Scene, place: str):
    said(machine.filesystems(scene), FINE)
    put(scene, "proc/mounts", f"server:/x {getattr(scene, place)} nfs4 rw 0 0\n")
    said(machine.filesystems(scene), WRONG, "nfs4", "local disk")


def test_a_clock_that_differs_or_went_back_is_said(scene: Scene):
    said(machine.clock(scene), FINE)
    said(machine.clock(replace(scene, skew_seconds=-90.0)), WRONG, "90 s behind", "set-ntp")
    said(machine.clock(replace(scene, skew_seconds=5.0)), FINE)
    (scene.runtime / names.POOL_FILE).write_text("{}")
    said(machine.clock(replace(scene, wall_seconds=1e9)), MIND, "set back")


def test_a_device_of_another_users_pool_is_said(scene: Scene):
    said(machine.other_pools(scene), FINE)
    lock = scene.locks / "GPU-1.lock"
    lock.touch()
    status = lock.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    put(scene, "proc/locks", f"1: FLOCK  ADVISORY  WRITE 4711 {device} 0 EOF\n")
    put(scene, "proc/4711/status", f"Name:\tpython\nUid:\t{scene.uid}\t0\t0\t0\n")
    said(machine.other_pools(scene), FINE)
    put(scene, "proc/4711/status", f"Name:\tpython\nUid:\t{scene.uid + 1}\t0\t0\t0\n")
    said(machine.other_pools(scene), MIND, "GPU-1", "process 4711")


def test_a_runtime_directory_that_is_not_private_is_said(scene: Scene):
    said(pool.runtime_directory(scene), FINE)
    said(pool.runtime_directory(replace(scene, runtime=scene.runtime / "missing")), FINE)
    scene.runtime.chmod(0o755)
    said(pool.runtime_directory(scene), WRONG, "mode 755", f"chmod 700 {scene.runtime}")
    stranger = replace(scene, uid=scene.uid + 1)
    said(pool.runtime_directory(stranger), WRONG, "belongs to uid")
    link = scene.runtime.with_name("link")
    link.symlink_to(scene.runtime)
    said(pool.runtime_directory(replace(scene, runtime=link)), WRONG, "not a plain directory")
    assert stat.S_ISLNK(link.lstat().st_mode)


def test_a_pool_that_does_not_answer_is_wrong_only_where_one_was_promised(scene: Scene):
    said(pool.service(scene), FINE, "starts one")
    away = replace(scene, unreachable="No pool was found.")
    named = replace(away, environment={names.ENV_URL: "http://pool"})
    said(pool.service(named), WRONG, names.ENV_URL, "No pool was found.")
    said(pool.service(replace(away, environment={names.ENV_AUTOSTART: "0"})), WRONG, "serve")
    said(pool.service(replace(scene, health=HEALTH, nodes=[NODE])), FINE)
    full = msgspec.structs.replace(HEALTH, status="journal_unavailable")
    said(pool.service(replace(scene, health=full)), WRONG, "disk")
    lost = msgspec.structs.replace(NODE, connected=False)
    said(pool.service(replace(scene, health=HEALTH, nodes=[lost])), WRONG, "agent of box")


def test_versions_that_differ_are_said(scene: Scene):
    said(pool.versions(replace(scene, health=HEALTH, nodes=[NODE])), FINE)
    old = msgspec.structs.replace(NODE, version="0.9")
    said(pool.versions(replace(scene, health=HEALTH, nodes=[old])), MIND, "agent of box is 0.9")
    said(pool.versions(replace(scene, health=HEALTH, version="2.0")), MIND, "installed here is 2.0")
    other = msgspec.structs.replace(HEALTH, api=99)
    said(pool.versions(replace(scene, health=other)), WRONG, "API 99")


def test_a_port_that_is_taken_is_said(scene: Scene):
    put(scene, "proc/net/tcp", "  sl  local_address rem st\n   0: 0100007F:1F90 00000000:0000 0A 0\n")
    said(pool.port(scene), FINE)
    said(pool.port(replace(scene, port=8080)), WRONG, "8080")
    said(pool.port(replace(scene, port=8081)), FINE)
    said(pool.port(replace(scene, port=8080, health=HEALTH)), FINE)


def config(scene: Scene, path: str, value: object) -> None:
    file = scene.configs[0] / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def enabled(value: bool) -> dict[str, object]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_gpupool": value}}}


def test_a_server_extension_that_is_missing_or_disabled_is_said(scene: Scene):
    said(jupyter.server_extension(scene), WRONG, "not installed")
    config(scene, "jupyter_server_config.d/jupyter_gpupool.json", enabled(True))
    said(jupyter.server_extension(scene), FINE)
    config(scene, "jupyter_server_config.json", enabled(False))
    said(jupyter.server_extension(scene), WRONG, "disabled", "jupyter server extension enable")


def test_a_sidebar_that_is_missing_or_disabled_is_said(scene: Scene):
    said(jupyter.lab_extension(scene), MIND, "not installed")
    place = scene.shares[0] / "labextensions/jupyter-gpupool/package.json"
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    said(jupyter.lab_extension(scene), FINE)
    config(scene, "labconfig/page_config.json", {"disabledExtensions": {"jupyter-gpupool": True}})
    said(jupyter.lab_extension(scene), MIND, "disabled", "jupyter labextension enable")


def test_another_provisioner_is_said(scene: Scene):
    said(jupyter.provisioner(scene), FINE)
    named = replace(scene, environment={"JUPYTER_DEFAULT_PROVISIONER_NAME": "slurm"})
    said(jupyter.provisioner(named), MIND, "“slurm”", "gpupool-provisioner")
    config(scene, "jupyter_server_config.json", {"GPUPoolExtension": {"default_provisioner": False}})
    said(jupyter.provisioner(scene), MIND, "GPUPoolExtension.default_provisioner")


def test_a_kernel_whose_environment_lacks_us_is_said_with_the_command_that_installs(scene: Scene):
    venv = scene.root / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python3").write_bytes(b"\x7fELF")
    (venv / "bin/python3").chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    packages = venv / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    spec = scene.shares[0] / "kernels/other/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(venv / "bin/python3"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv}))
    said(jupyter.kernels(scene), MIND, "other", f"{venv}/bin/python3 -m pip install jupyter_gpupool")
    (packages / "jupyter_gpupool-1.0.dist-info").mkdir()
    said(jupyter.kernels(scene), FINE, "1 Python kernel")


def test_every_check_runs_on_this_machine_and_on_an_empty_one(scene: Scene, pool_environment):
    assert len(examine(scene)) == len(checks())
    found = examine(gather())
    assert len({it.check for it in found}) == len(checks())
    assert all(it.state for it in found)
