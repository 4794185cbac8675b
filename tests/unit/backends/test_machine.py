"""How many cores and how much memory are really usable."""

from __future__ import annotations

import pytest

from jupyter_gpupool.backends.machine import Machine, reserve_bytes
from tests.unit.backends.conftest import Build
from tests.unit.backends.machines import HYBRID_MOUNTS, MEMINFO, V1_MOUNTS, V2_MOUNT, v1, v2

GIB = 2**30
EIGHT = frozenset(range(8))


def test_a_machine_without_limits_is_wholly_usable(machine_of: Build) -> None:
    machine = Machine(machine_of({"proc/meminfo": MEMINFO}))
    assert machine.memory_bytes() == 16 * GIB
    assert machine.memory_used_bytes() == 8 * GIB
    assert machine.cores(EIGHT).count == 8


def test_version_2_limits_of_our_own_group_count(machine_of: Build) -> None:
    machine = Machine(machine_of(v2(memory__max=str(4 * GIB), cpu__max="250000 100000")))
    assert machine.memory_bytes() == 4 * GIB
    assert machine.cores(EIGHT).count == 2
    assert machine.cores(EIGHT).ids == EIGHT


def test_version_2_limits_further_up_count(machine_of: Build) -> None:
    files = v2(memory__max=str(4 * GIB))
    files["sys/fs/cgroup/user.slice/memory.max"] = str(2 * GIB)
    files["sys/fs/cgroup/user.slice/cpu.max"] = "300000 100000"
    machine = Machine(machine_of(files))
    assert machine.memory_bytes() == 2 * GIB
    assert machine.cores(EIGHT).count == 3


def test_max_is_no_limit(machine_of: Build) -> None:
    machine = Machine(machine_of(v2(memory__max="max\n", cpu__max="max 100000\n")))
    assert machine.memory_bytes() == 16 * GIB
    assert machine.cores(EIGHT).count == 8


def test_a_quota_of_less_than_a_core_is_one_core(machine_of: Build) -> None:
    assert Machine(machine_of(v2(cpu__max="50000 100000"))).cores(EIGHT).count == 1


def test_a_cpuset_bounds_the_cores(machine_of: Build) -> None:
    cores = Machine(machine_of(v2(cpuset__cpus__effective="2-3,6"))).cores(EIGHT)
    assert cores.ids == {2, 3, 6}
    assert cores.count == 3


def test_the_affinity_bounds_the_cores(machine_of: Build) -> None:
    assert Machine(machine_of(v2(cpuset__cpus__effective="0-7"))).cores(frozenset({1, 5})).ids == {1, 5}


def test_version_1_limits_count(machine_of: Build) -> None:
    machine = Machine(
        machine_of(
            v1(
                **{
                    "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000\n",
                    "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
                    "memory/docker/abc/memory.limit_in_bytes": f"{3 * GIB}\n",
                    "cpuset/cpuset.cpus": "0-3\n",
                }
            )
        )
    )
    assert machine.memory_bytes() == 3 * GIB
    assert machine.cores(EIGHT).count == 1
    assert machine.cores(EIGHT).ids == {0, 1, 2, 3}


def test_version_1_writes_no_limit_as_a_huge_number_and_as_minus_one(machine_of: Build) -> None:
    machine = Machine(
        machine_of(
            v1(
                **{
                    "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "-1\n",
                    "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
                    "memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n",
                }
            )
        )
    )
    assert machine.memory_bytes() == 16 * GIB
    assert machine.cores(EIGHT).count == 8


def test_a_container_sees_its_own_group_as_the_root_of_the_mount(machine_of: Build) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/mountinfo": V1_MOUNTS.replace("0:32 / ", "0:32 /docker/abc "),
        "proc/self/cgroup": "3:memory:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(GIB),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(GIB // 2),
        "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GIB // 4}\n",
    }
    machine = Machine(machine_of(files))
    assert machine.memory_bytes() == GIB
    assert machine.memory_used_bytes() == GIB // 4


def test_a_group_that_is_outside_what_is_mounted_is_no_limit(machine_of: Build) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": "0::/../../x\n"}
    files["sys/fs/cgroup/cgroup.controllers"] = "memory"
    assert Machine(machine_of(files)).memory_bytes() == 16 * GIB


def test_on_a_hybrid_machine_the_hierarchy_with_the_controller_counts(machine_of: Build) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/mountinfo": HYBRID_MOUNTS,
        "proc/self/cgroup": "4:memory:/jobs\n0::/\n",
        "sys/fs/cgroup/unified/cgroup.controllers": "hugetlb\n",
        "sys/fs/cgroup/unified/memory.max": str(GIB),
        "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": str(2 * GIB),
    }
    assert Machine(machine_of(files)).memory_bytes() == 2 * GIB


def test_what_cannot_be_read_is_none_and_not_zero(machine_of: Build) -> None:
    machine = Machine(machine_of({"proc/meminfo": "nonsense\n", "proc/stat": "intr 1 2\n"}))
    assert machine.memory_bytes() is None
    assert machine.memory_used_bytes() is None
    assert machine.temperature_celsius() is None
    assert machine.model() == "CPU"
    assert machine.core_times(EIGHT) == (0, 0)


def test_the_processors_own_sensor_is_preferred(machine_of: Build) -> None:
    thermal = "sys/class/thermal/thermal_zone"
    files = {
        f"{thermal}0/temp": "83000",
        f"{thermal}0/type": "acpitz",
        f"{thermal}1/temp": "47500",
        f"{thermal}1/type": "x86_pkg_temp",
        f"{thermal}2/temp": "-274000",
        f"{thermal}2/type": "cpu-broken",
    }
    assert Machine(machine_of(files)).temperature_celsius() == 47.5


def test_only_usable_cores_count_as_busy(machine_of: Build) -> None:
    stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 70 10 0 0 0 0 0\ncpu1 500 0 0 0 0 0 0 0 0 0\n"
    machine = Machine(machine_of({"proc/stat": stat, "proc/cpuinfo": "model name\t: A Processor\n"}))
    assert machine.core_times(frozenset({0})) == (20, 100)
    assert machine.model() == "A Processor"


@pytest.mark.parametrize(
    ("usable", "reserve"), [(100 * GIB, 10 * GIB), (2 * GIB, GIB // 2), (GIB // 2, GIB // 4), (0, 0)]
)
def test_a_tenth_is_kept_for_the_system_and_never_more_than_half(usable: int, reserve: int) -> None:
    assert reserve_bytes(usable) == reserve
