"""Which control groups a lease gets.

Rule of this module: version 2 before version 1, one group for all resources before two; a mechanism that was
pinned and is not there is an error, one that was not is quietly left out. It makes nothing.
"""

from __future__ import annotations

from jupyter_gpupool.backends import cgroups, leasegroups
from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.undo import ComputeRung, GroupRecord, MemoryRung, Undo


def plan_groups(
    groups: cgroups.ControlGroups,
    undo: Undo,
    rungs: tuple[ComputeRung, MemoryRung],
    name: str,
    pid: int,
    *,
    processes: bool = False,
) -> None:
    """Choose the groups that a lease may use, and note them; `leasegroups.make_groups` makes them.

    Parameters
    ----------
    groups : ControlGroups
        Of this machine.
    undo : Undo
        Where they are noted.
    rungs : tuple of ComputeRung and MemoryRung
        AUTO, or pinned.
    name : str
        What they are named after.
    pid : int
        The holder.
    processes : bool
        Whether processes are to be limited too, where that is possible.

    Raises
    ------
    BackendError
        If a control group was asked for, and there is none to be had.
    """
    compute, memory = rungs
    wanted = {"cpu"} if compute in {ComputeRung.AUTO, ComputeRung.CGROUP} else set()
    wanted |= {"memory"} if memory in {MemoryRung.AUTO, MemoryRung.CGROUP} else set()
    beside = {"pids"} if processes else set()
    reasons: list[str] = []
    for some in ({*wanted, *beside}, set(wanted), {"memory"}, {"cpu"}):
        if some and some <= wanted | beside and _planned(groups, undo, some, 2, name, pid, reasons):
            wanted -= some
            beside -= some
    for controller in sorted((wanted & {"cpu"}) | beside):
        if _planned(groups, undo, {controller}, 1, name, pid, reasons):
            wanted -= {controller}
    if compute is ComputeRung.CGROUP and "cpu" in wanted:
        raise BackendError(f"No control group can limit compute: {reasons[-1]}.")
    if memory is MemoryRung.CGROUP and "memory" in wanted:
        raise BackendError(f"No control group can limit memory: {reasons[0]}.")


def _planned(
    groups: cgroups.ControlGroups,
    undo: Undo,
    controllers: set[str],
    version: int,
    name: str,
    pid: int,
    reasons: list[str],
) -> bool:
    """Plan one group; say whether there is a place for it, or add why not."""
    try:
        if version == 2:
            base = leasegroups.v2_base(groups, pid, frozenset(controllers))
        else:
            base = leasegroups.v1_base(groups, pid, next(iter(controllers)))
    except leasegroups.NotDelegated as reason:
        reasons.append(str(reason))
        return False
    path = leasegroups.group_path(base, version, name)
    made = GroupRecord(
        path=str(path),
        version=version,
        cpu="cpu" in controllers,
        memory="memory" in controllers,
        processes="pids" in controllers,
    )
    undo.groups.append(made)
    undo.compute = ComputeRung.CGROUP if made.cpu else undo.compute
    undo.memory = MemoryRung.CGROUP if made.memory else undo.memory
    return True
