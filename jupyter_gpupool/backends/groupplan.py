"""Which control groups a lease gets.

Rule of this module: version 2 before version 1, one group for both resources before two; a mechanism that
was pinned and is not there is an error, one that was not is quietly left out.
"""

from __future__ import annotations

from jupyter_gpupool.backends import cgroups, leasegroups
from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.undo import ComputeRung, GroupRecord, MemoryRung, Undo


def plan_groups(
    groups: cgroups.ControlGroups,
    undo: Undo,
    compute: ComputeRung,
    memory: MemoryRung,
    lease_id: str,
    pid: int,
) -> None:
    """Make the groups that a lease may use, and note them.

    Raises
    ------
    BackendError
        If a control group was asked for, and there is none to be had.
    """
    wanted = {"cpu"} if compute in {ComputeRung.AUTO, ComputeRung.CGROUP} else set()
    wanted |= {"memory"} if memory in {MemoryRung.AUTO, MemoryRung.CGROUP} else set()
    reasons: list[str] = []
    for some in (frozenset(wanted), frozenset({"memory"}), frozenset({"cpu"})):
        if some and some <= wanted and _made(groups, undo, some, 2, lease_id, pid, reasons):
            wanted -= some
    if "cpu" in wanted and _made(groups, undo, frozenset({"cpu"}), 1, lease_id, pid, reasons):
        wanted -= {"cpu"}
    if compute is ComputeRung.CGROUP and "cpu" in wanted:
        raise BackendError(f"No control group can limit compute: {reasons[-1]}.")
    if memory is MemoryRung.CGROUP and "memory" in wanted:
        raise BackendError(f"No control group can limit memory: {reasons[0]}.")


def _made(
    groups: cgroups.ControlGroups,
    undo: Undo,
    controllers: frozenset[str],
    version: int,
    lease_id: str,
    pid: int,
    reasons: list[str],
) -> bool:
    """Make one group; say whether it worked, or add why not."""
    try:
        two = version == 2
        base = leasegroups.v2_base(groups, pid, controllers) if two else leasegroups.v1_cpu_base(groups, pid)
        path = leasegroups.make_group(base, version, lease_id)
    except leasegroups.NotDelegated as reason:
        reasons.append(str(reason))
        return False
    except OSError as error:
        reasons.append(f"a group cannot be made ({error.strerror})")
        return False
    has_cpu, has_memory = "cpu" in controllers, "memory" in controllers
    undo.groups.append(GroupRecord(path=str(path), version=version, cpu=has_cpu, memory=has_memory))
    undo.compute = ComputeRung.CGROUP if has_cpu else undo.compute
    undo.memory = MemoryRung.CGROUP if has_memory else undo.memory
    return True
