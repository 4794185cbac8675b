"""Which control groups are used, and which are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jupyter_gpupool.backends import cgroups, leasegroups
from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.groupplan import plan_groups
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo
from tests.unit.backends.conftest import Build
from tests.unit.backends.machines import HYBRID_MOUNTS, delegated, v1

HOLDER = 4711
BOTH = frozenset({"cpu", "memory"})
V1_GROUP = "cpu,cpuacct/docker/abc"


def v1_with_quota() -> dict[str, str]:
    return v1(**{f"{V1_GROUP}/cpu.cfs_quota_us": "-1", f"{V1_GROUP}/cgroup.procs": str(HOLDER)})


def planned(root: Path, compute: ComputeRung, memory: MemoryRung) -> Undo:
    undo = Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
    plan_groups(ControlGroups(root), undo, (compute, memory), "lease_7", HOLDER)
    leasegroups.make_groups(undo.groups)
    return undo


def test_one_version_2_group_takes_both_resources(machine_of: Build) -> None:
    undo = planned(machine_of(delegated()), ComputeRung.AUTO, MemoryRung.AUTO)
    assert (undo.compute, undo.memory) == (ComputeRung.CGROUP, MemoryRung.CGROUP)
    [group] = undo.groups
    assert (group.version, group.cpu, group.memory) == (2, True, True)
    assert group.path.endswith("app.slice/jupyter_gpupool-lease_7")
    assert Path(group.path).is_dir()


def test_a_holder_is_not_moved_out_from_under_a_limit(machine_of: Build) -> None:
    root = machine_of(delegated(memory__max=str(2**30)))
    with pytest.raises(leasegroups.NotDelegated, match="would leave the limits"):
        leasegroups.v2_base(ControlGroups(root), HOLDER, BOTH)
    undo = planned(root, ComputeRung.AUTO, MemoryRung.AUTO)
    assert undo.groups == []
    assert (undo.compute, undo.memory) == (ComputeRung.AFFINITY, MemoryRung.RLIMIT)


def test_controllers_are_handed_down_where_they_are_not(machine_of: Build) -> None:
    files = delegated()
    control = next(name for name in files if name.endswith("app.slice/cgroup.subtree_control"))
    files[control] = "memory pids"
    root = machine_of(files)
    base = leasegroups.v2_base(ControlGroups(root), HOLDER, BOTH)
    assert base.name == "app.slice"
    assert (root / control).read_text() == "+cpu"


def test_a_pinned_mechanism_that_is_not_there_is_an_error_that_says_why(machine_of: Build) -> None:
    root = machine_of(v1())
    with pytest.raises(BackendError, match=r"No control group can limit compute: .* has no cpu quota"):
        planned(root, ComputeRung.CGROUP, MemoryRung.RLIMIT)
    with pytest.raises(BackendError, match="No control group can limit memory: no version 2"):
        planned(root, ComputeRung.AFFINITY, MemoryRung.CGROUP)


def test_version_1_makes_a_group_below_the_holders_and_only_for_cpu(machine_of: Build) -> None:
    root = machine_of(v1_with_quota())
    undo = planned(root, ComputeRung.AUTO, MemoryRung.AUTO)
    assert (undo.compute, undo.memory) == (ComputeRung.CGROUP, MemoryRung.RLIMIT)
    [group] = undo.groups
    assert Path(group.path) == root / "sys/fs/cgroup" / V1_GROUP / "jupyter_gpupool/lease_7"
    assert not list((root / "sys/fs/cgroup").glob("memory*"))


def test_a_folder_that_only_looks_like_a_control_group_is_none(machine_of: Build) -> None:
    files = {
        "proc/self/mountinfo": HYBRID_MOUNTS.replace("rw,cpu,cpuacct", "rw,pids"),
        "proc/self/cgroup": "0::/\n",
        f"proc/{HOLDER}/cgroup": "0::/\n",
        "sys/fs/cgroup/unified/cgroup.controllers": "hugetlb\n",
        "sys/fs/cgroup/unified/cgroup.procs": "",
    }
    assert planned(machine_of(files), ComputeRung.AUTO, MemoryRung.AUTO).groups == []


def test_a_holder_of_another_lease_goes_beside_and_not_below(machine_of: Build) -> None:
    files = v1_with_quota()
    files[f"proc/{HOLDER}/cgroup"] = "1:cpu,cpuacct:/docker/abc/jupyter_gpupool/lease_6\n"
    files[f"sys/fs/cgroup/{V1_GROUP}/jupyter_gpupool/lease_6/cgroup.procs"] = str(HOLDER)
    root = machine_of(files)
    assert leasegroups.v1_base(ControlGroups(root), HOLDER) == root / "sys/fs/cgroup" / V1_GROUP
    assert leasegroups.home(ControlGroups(root), HOLDER, 1) == root / "sys/fs/cgroup" / V1_GROUP


def test_quotas_are_written_as_each_version_reads_them(tmp_path: Path) -> None:
    leasegroups.set_cpu(2, tmp_path, 1.5)
    assert (tmp_path / "cpu.max").read_text() == "150000 100000"
    assert cgroups.cpu_limit(2, tmp_path) == 1.5
    leasegroups.set_cpu(1, tmp_path, 0.001)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "1000"
    assert cgroups.cpu_limit(1, tmp_path) == 0.01
    (tmp_path / "memory.swap.max").write_text("max")
    leasegroups.set_memory(tmp_path, 4096)
    assert cgroups.memory_limit(2, tmp_path) == 4096
    assert (tmp_path / "memory.swap.max").read_text() == "0"


def test_removing_a_group_that_is_gone_or_not_empty_does_no_harm(tmp_path: Path) -> None:
    group = leasegroups.make_group(tmp_path, 1, "lease_1")
    other = leasegroups.make_group(tmp_path, 1, "lease_2")
    leasegroups.remove_group(group)
    leasegroups.remove_group(group)
    (other / "cpu.cfs_quota_us").write_text("50000")
    leasegroups.remove_group(other)
    assert (other / "cpu.cfs_quota_us").read_text() == "-1"


def test_only_a_group_that_the_user_cannot_write_to_is_closed_to_it(tmp_path: Path) -> None:
    group = tmp_path / "ours"
    group.mkdir(mode=0o755)
    for directory in (tmp_path, group):
        (directory / "cgroup.procs").write_text("")
        (directory / "cgroup.procs").chmod(0o644)
    stranger = os.geteuid() + 4242
    assert not leasegroups.open_to(group, stranger)
    assert leasegroups.open_to(group, os.geteuid())
    assert leasegroups.open_to(group, 0)
    (tmp_path / "cgroup.procs").chmod(0o664)
    assert leasegroups.open_to(group, stranger)
    assert leasegroups.open_to(tmp_path / "missing", stranger)


@pytest.mark.parametrize("version", [1, 2])
def test_groups_that_killed_pools_left_behind_are_swept_away(tmp_path: Path, version: int) -> None:
    old, fresh, full = (leasegroups.make_group(tmp_path, version, name) for name in ("old", "fresh", "full"))
    (full / "cgroup.procs").write_text("1")
    for group in (old, full):
        os.utime(group, (0, 0))
    made = leasegroups.make_group(tmp_path, version, "made")
    assert [group.is_dir() for group in (old, fresh, full, made)] == [False, True, True, True]


def test_a_group_can_be_made_while_another_pool_removes_the_directory_above(tmp_path: Path) -> None:
    stop = threading.Event()

    def make_and_remove() -> None:
        while not stop.is_set():
            leasegroups.remove_group(leasegroups.make_group(tmp_path, 1, "other"))

    other = threading.Thread(target=make_and_remove)
    other.start()
    try:
        for number in range(60):
            group = leasegroups.make_group(tmp_path, 1, f"lease_{number}")
            assert group.is_dir()
            leasegroups.remove_group(group)
    finally:
        stop.set()
        other.join()


#: Has threads and memory to give back, and says when it has them.
_LARGE = """
import threading
kept = bytearray(100 << 20)
for _ in range(24):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_the_group_of_a_process_that_was_just_killed_goes_too() -> None:
    procfs = ProcFS()
    try:
        base = leasegroups.v1_base(ControlGroups(Path("/")), os.getpid())
    except leasegroups.NotDelegated as error:
        pytest.skip(f"no control group of version 1 can be made here: {error}")
    left = []
    for number in range(5):
        child = subprocess.Popen([sys.executable, "-S", "-c", _LARGE], stdout=subprocess.PIPE)
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            group = leasegroups.make_group(base, 1, f"lease_{os.getpid()}_{number}")
            leasegroups.move(child.pid, group)
            stat = procfs.stat(child.pid)
            assert stat is not None
            child.kill()
            while procfs.alive(stat.mark):  # its first thread ends before the others do
                continue
            leasegroups.remove_group(group)
            left += [group] if group.exists() else []
        leasegroups.remove_group(group)
    assert not left
