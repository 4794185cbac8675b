"""Puts process trees under limits and takes them out again.

Rules of this module: how a process was is recorded before anything is changed; a process is touched only
while its start time matches; what is in force is read, not assumed. Which limits a lease has is somebody
else's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jupyter_gpupool.backends import affinity, cgroups, leasegroups
from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.processtree import ProcessTable
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rlimits import data_limits, lower, set_soft_data_limit
from jupyter_gpupool.backends.treememory import TreeMemory
from jupyter_gpupool.backends.undo import GroupRecord, MemoryRung, ProcessRecord, Undo

#: Room in a group's memory limit for page tables and the like: one part in so many, and so many bytes.
_KERNEL_PART, _KERNEL_BYTES = 32, 16 * 2**20


class Enforcer:
    """Acts on processes.

    Parameters
    ----------
    procfs : ProcFS
        Where to look at them.
    groups : ControlGroups
        Where their control groups are.
    """

    def __init__(self, procfs: ProcFS, groups: cgroups.ControlGroups) -> None:
        self._procfs = procfs
        self._groups = groups

    def each(self, marks: Iterable[ProcessMark], act: Callable[[ProcessMark], None]) -> list[int]:
        """Act on each process that lives; return those that are not ours to touch."""
        refused = []
        for mark in marks:
            try:
                if self._procfs.alive(mark):
                    act(mark)
            except ProcessLookupError:
                continue
            except PermissionError:
                refused.append(mark.pid)
        return refused

    # --- before -------------------------------------------------------------------------------------

    def remember(self, undo: Undo, tree: Sequence[ProcessMark]) -> list[int]:
        """Record how each process is now, before anything is changed."""

        def record(mark: ProcessMark) -> None:
            cpus = affinity.format_cores(affinity.cores_of(mark.pid))
            made = ProcessRecord(
                pid=mark.pid, start_ticks=mark.start_ticks, data_soft=data_limits(mark.pid)[0], cpus=cpus
            )
            affinity.remember(self._procfs, made)
            made.groups = {group.path: self._home(mark.pid, group) for group in undo.groups}
            undo.processes.append(made)

        known = undo.by_mark()
        return self.each([mark for mark in tree if mark not in known], record)

    def _home(self, pid: int, group: GroupRecord) -> str:
        """Return the control group that a process is in now, outside ours."""
        home = leasegroups.home(self._groups, pid, group.version, group.controller)
        return str(home or leasegroups.base_of(group))

    def inherit(self, undo: Undo, tree: Sequence[ProcessMark], table: ProcessTable) -> bool:
        """Record processes that were born under the limits: they were to be as their parent was."""
        known = undo.by_mark()
        born = [mark for mark in tree if mark not in known]
        for mark in born:
            parent = self._nearest(undo, table.ancestors(mark.pid))
            undo.processes.append(
                ProcessRecord(
                    pid=mark.pid,
                    start_ticks=mark.start_ticks,
                    data_soft=parent.data_soft,
                    cpus=parent.cpus,
                    groups=dict(parent.groups),
                )
            )
        return bool(born)

    @staticmethod
    def _nearest(undo: Undo, ancestors: Sequence[int]) -> ProcessRecord:
        """Return the record of the nearest parent; the holder's if its parents are gone."""
        by_pid = {record.pid: record for record in undo.processes}
        return next((by_pid[pid] for pid in ancestors if pid in by_pid), undo.processes[0])

    # --- limits -------------------------------------------------------------------------------------

    def keep_groups(self, undo: Undo, cores: float, processes: int | None = None) -> None:
        """Make groups of ours that somebody removed again, with their limits.

        Names are unique, but an administrator's cleaning, or a session manager's, removes what looks empty.
        """
        for group in undo.groups:
            if leasegroups.keep_group(Path(group.path), group.version):
                leasegroups.limit_groups([group], cores, processes)

    def limit_compute(
        self, undo: Undo, tree: Sequence[ProcessMark], *, afresh: bool = False
    ) -> tuple[int, list[int]]:
        """Bring a tree into its groups and onto its cores; return how much changed, and who refused."""
        changed = 0
        inside, records = self._inside(undo), undo.by_mark()

        def limit(mark: ProcessMark) -> None:
            nonlocal changed
            if (record := records.get(mark)) is None:
                return
            for path, pids in inside.items():
                if mark.pid not in pids:
                    leasegroups.move(mark.pid, Path(path))
                    changed += 1
            if undo.cores:
                changed += affinity.confine(self._procfs, record, undo.cores, afresh=afresh)

        refused = self.each(tree, limit)
        return changed, refused

    def limit_memory(
        self,
        undo: Undo,
        tree: Sequence[ProcessMark],
        memory: TreeMemory,
        share_bytes: int,
        room_bytes: int = 0,
    ) -> tuple[dict[ProcessMark, int], list[int]]:
        """Let each process take what the tree has left; return the limits that should now be in force."""
        bounded, records = undo.memory is MemoryRung.RLIMIT, undo.by_mark()
        wanted: dict[ProcessMark, int] = {}

        def limit(mark: ProcessMark) -> None:
            record = records.get(mark)
            allowance = memory.allowance(mark.pid, share_bytes, bounded=bounded, room_bytes=room_bytes)
            if record is not None and allowance is not None:
                wanted[mark] = set_soft_data_limit(mark.pid, lower(allowance, record.data_soft))

        refused = self.each(tree, limit)
        for group in undo.groups:
            if group.memory and memory.used_bytes is not None:
                self._limit_group(Path(group.path), memory.used_bytes, share_bytes)
        return wanted, refused

    @staticmethod
    def _limit_group(group: Path, used_bytes: int, share_bytes: int) -> None:
        """Limit a group's memory, with room for what the kernel charges to it beside the processes' own.

        What its processes took before they came here is charged elsewhere. The soft limit comes first: it
        makes allocations fail, and this one kills.
        """
        charged = sum(cgroups.group_statistic(group, name) or 0 for name in ("anon", "shmem"))
        room = share_bytes // _KERNEL_PART + _KERNEL_BYTES
        leasegroups.set_memory(group, share_bytes + room - min(share_bytes, max(0, used_bytes - charged)))

    # --- looking ------------------------------------------------------------------------------------

    def disagreements(
        self,
        undo: Undo,
        tree: Sequence[ProcessMark],
        wanted: dict[ProcessMark, int],
        cores: float,
        *,
        memory: bool = True,
    ) -> list[str]:
        """Look at what is in force; return what is not as it should be, in words."""
        found: list[str] = []
        inside = self._inside(undo)

        def look(mark: ProcessMark) -> None:
            soft = data_limits(mark.pid)[0]
            if mark in wanted and soft != wanted[mark]:
                found.append(f"RLIMIT_DATA of process {mark.pid} is {soft}, not {wanted[mark]}")
            if undo.cores and (outside := affinity.strays(self._procfs, mark.pid, undo.cores)):
                found.append(f"threads {outside} of process {mark.pid} may run on other cores")
            found.extend(
                f"process {mark.pid} is not in {path}"
                for path, pids in inside.items()
                if mark.pid not in pids
            )

        self.each(tree, look)
        for group in undo.groups:
            limit = cgroups.cpu_limit(group.version, Path(group.path)) if group.cpu else cores
            if limit is None or abs(limit - cores) > 0.01:
                found.append(f"the cpu quota of {group.path} is {limit}, not {cores}")
            if group.memory and memory and cgroups.memory_limit(2, Path(group.path)) is None:
                found.append(f"{group.path} has no memory limit")
        return found

    # --- after --------------------------------------------------------------------------------------

    def restore(self, undo: Undo, tree: Sequence[ProcessMark]) -> tuple[int, list[int]]:
        """Give each process back what it had; return how much changed, and who refused."""
        changed = 0
        inside, records = self._inside(undo), undo.by_mark()

        def give_back(mark: ProcessMark) -> None:
            nonlocal changed
            if (record := records.get(mark)) is None:
                return
            before = data_limits(mark.pid)[0]
            changed += set_soft_data_limit(mark.pid, record.data_soft) != before
            for path, home in record.groups.items():
                if mark.pid in inside.get(path, ()):
                    changed += _move_home(mark.pid, Path(home))
            changed += affinity.restore(self._procfs, record)

        refused = self.each(tree, give_back)
        return changed, refused

    @staticmethod
    def _inside(undo: Undo) -> dict[str, set[int]]:
        """Return which processes are in each of our groups."""
        return {group.path: leasegroups.members(Path(group.path)) for group in undo.groups}


def _move_home(pid: int, home: Path) -> int:
    """Move a process to where it was, or above if that group is gone; return 1 if it worked."""
    while not home.is_dir() and home != home.parent:
        home = home.parent
    try:
        leasegroups.move(pid, home)
    except (PermissionError, ProcessLookupError):
        raise
    except OSError:  # the group takes no processes any more; ours stays, without limits
        return 0
    return 1
