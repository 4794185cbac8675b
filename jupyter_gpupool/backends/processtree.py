"""Who belongs to a holder: one look at all processes, and the trees in it.

Rules of this module: a child belongs to its parent's holder unless it holds a lease itself; what was known
to belong stays so when its parent dies. Processes of the pool never belong to anybody, even when a kernel
started them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcessStat, ProcFS

#: The pool's own detached processes, as they are started with ``python -m``.
_POOL_MODULE = "jupyter_gpupool"
_POOL_COMMANDS = frozenset({"serve", "agent"})
#: After how many seconds all processes are looked at again, and not only the new ones.
_REBUILD_SECONDS = 4.0


class ProcessTable:
    """All processes at one moment.

    Parameters
    ----------
    procfs : ProcFS
        Where to look.
    earlier : ProcessTable, optional
        A table of a moment ago: only what is new since is looked at.
    """

    def __init__(self, procfs: ProcFS, earlier: ProcessTable | None = None) -> None:
        self._procfs = procfs
        known = None if earlier is None else earlier.processes
        self.processes: dict[int, ProcessStat] = procfs.processes(known)

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for stat in self.processes.values():
            children.setdefault(stat.ppid, []).append(stat.pid)
        return children

    @cached_property
    def _sessions(self) -> dict[int, list[int]]:
        sessions: dict[int, list[int]] = {}
        for stat in self.processes.values():
            sessions.setdefault(stat.session, []).append(stat.pid)
        return sessions

    def holds(self, mark: ProcessMark) -> bool:
        """Say whether exactly this process ran at that moment."""
        stat = self.processes.get(mark.pid)
        return stat is not None and stat.start_ticks == mark.start_ticks

    def contradicts(self, mark: ProcessMark) -> bool:
        """Say whether another process had that pid at that moment."""
        stat = self.processes.get(mark.pid)
        return stat is not None and stat.start_ticks != mark.start_ticks

    def ancestors(self, pid: int) -> list[int]:
        """List the parents of a process, nearest first."""
        line: list[int] = []
        stat = self.processes.get(pid)
        while stat is not None and stat.ppid > 0 and stat.ppid not in line:
            line.append(stat.ppid)
            stat = self.processes.get(stat.ppid)
        return line

    def tree(
        self, holder: ProcessMark, known: Iterable[ProcessMark], apart: Collection[int]
    ) -> list[ProcessMark]:
        """List the living processes of a holder: parents before children.

        Parameters
        ----------
        holder : ProcessMark
            Its root; it may have ended.
        known : iterable of ProcessMark
            Processes that belong to it whoever their parent is now.
        apart : collection of int
            Processes that hold a lease of their own: they and their children do not belong to it.
        """
        apart = {*apart, os.getpid()} - {holder.pid}
        roots = [holder.pid] if self.holds(holder) else []
        # a child may have become a pool of its own since it was known
        roots += [mark.pid for mark in known if self.holds(mark) and self._belongs(mark.pid, apart)]
        roots += self._orphans(holder, apart)
        found: dict[int, None] = {}
        while roots:
            pid = roots.pop(0)
            if pid not in found:
                found[pid] = None
                roots += [each for each in self._children.get(pid, []) if self._belongs(each, apart)]
        return [self.processes[pid].mark for pid in found]

    def _orphans(self, holder: ProcessMark, apart: set[int]) -> list[int]:
        """List the session that the holder leads: all of it descends from it, also where parents died."""
        if not self.holds(holder) or self.processes[holder.pid].session != holder.pid:
            return []
        return [
            pid
            for pid in self._sessions[holder.pid]
            if self._belongs(pid, apart) and not apart.intersection(self.ancestors(pid))
        ]

    def _belongs(self, pid: int, apart: Collection[int]) -> bool:
        """Say whether a descendant counts to the holder above it."""
        return pid not in apart and not self._is_pool(self.processes[pid])

    def _is_pool(self, stat: ProcessStat) -> bool:
        """Recognise the pool's own processes: leaders of their sessions, started as ``-m`` our package."""
        words = self._procfs.command(stat.pid)
        if not any(
            words[at : at + 2] == ["-m", _POOL_MODULE] and words[at + 2] in _POOL_COMMANDS
            for at in range(len(words) - 2)
        ):
            return False
        # it may lead its session only since it was first looked at
        now = self._procfs.stat(stat.pid)
        return now is not None and now.session == now.pid


class ProcessWatch:
    """Keeps a table fresh at little cost.

    New processes are seen at each look. That a process ended or has another parent is seen when all are
    looked at again; nothing is done to a process without looking at it first, so that costs no care.

    Parameters
    ----------
    procfs : ProcFS
        Where to look.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, procfs: ProcFS, clock: Callable[[], float]) -> None:
        self._procfs = procfs
        self._clock = clock
        self._table: ProcessTable | None = None
        self._looked = self._rebuilt = 0.0

    def look(self, holder: ProcessMark, *, within_seconds: float = 0.0) -> ProcessTable:
        """Return a table that is at most so old, and in which the holder is unless it ended."""
        now = self._clock()
        table = self._table
        if table is None or now - self._rebuilt > _REBUILD_SECONDS:
            table, self._rebuilt, self._looked = ProcessTable(self._procfs), now, now
        elif now - self._looked >= within_seconds:
            table, self._looked = ProcessTable(self._procfs, table), now
            if table.contradicts(holder):  # its pid was another process's when that was looked at
                table, self._rebuilt = ProcessTable(self._procfs), now
        self._table = table
        return table
