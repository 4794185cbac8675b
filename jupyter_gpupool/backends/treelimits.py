"""Limits of processor, main memory and processes on a whole process tree: put on, kept up, taken off.

Rules of this module: either everything that belongs to a name is in force and was read back, or nothing was
left changed; how to undo it is noted before anything is changed. How large the limits are, whom they are
refused, and what is said of them is somebody else's decision.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jupyter_gpupool.backends import affinity, leasegroups
from jupyter_gpupool.backends.base import BackendError, HolderGone, LimitNotInForce, ProcessMark
from jupyter_gpupool.backends.bounds import Bounds, Kept
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.enforcer import Enforcer
from jupyter_gpupool.backends.groupplan import plan_groups
from jupyter_gpupool.backends.machine import Cores
from jupyter_gpupool.backends.neighbours import Neighbours
from jupyter_gpupool.backends.processtree import ProcessTable, ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.treememory import MemoryMeter, TreeMemory
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo

#: For how long one look at all processes serves the watches of all leases, seconds.
_TABLE_SECONDS = 0.2
#: How often a tree is looked at again while it grows under our hands.
_MOST_PASSES = 10

Check = Callable[[Undo, TreeMemory], None]


class TreeLimits:
    """Puts process trees under limits, each under a name of its own.

    Parameters
    ----------
    cores : callable
        Which cores are usable now.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, cores: Callable[[], Cores], clock: Callable[[], float] = time.monotonic) -> None:
        self.procfs = ProcFS()
        self.groups = ControlGroups()
        self.neighbours = Neighbours()
        self._cores = cores
        self._enforcer = Enforcer(self.procfs, self.groups)
        self._meter = MemoryMeter(self.procfs, clock)
        self._processes = ProcessWatch(self.procfs, clock)

    # --- put on -------------------------------------------------------------------------------------

    def attach(
        self,
        name: str,
        bounds: Bounds,
        holder: ProcessMark,
        rungs: tuple[ComputeRung, MemoryRung],
        *,
        check: Check,
        note: Callable[[Undo], None],
        enforce: bool = True,
    ) -> Undo:
        """Put a tree under limits by the strongest of these mechanisms that works; else by the plainest.

        Parameters
        ----------
        name : str
            Of the limits; groups are named after it.
        bounds : Bounds
            How much.
        holder : ProcessMark
            The root of the tree.
        rungs : tuple of ComputeRung and MemoryRung
            AUTO, or pinned.
        check : callable
            Refuses a tree by raising.
        note : callable
            Writes down how to undo it.
        enforce : bool
            False to prepare everything, and let a later `keep` put it in force.

        Raises
        ------
        HolderGone
            If the process ended meanwhile.
        LimitNotInForce
            If what was set does not read back.
        """
        try:
            return self._attach_by(rungs, name, bounds, holder, check, note, enforce)
        except LimitNotInForce:
            plainest = _plainest(rungs)
            if plainest == rungs:
                raise
            return self._attach_by(plainest, name, bounds, holder, check, note, enforce)

    def _attach_by(
        self,
        rungs: tuple[ComputeRung, MemoryRung],
        name: str,
        bounds: Bounds,
        holder: ProcessMark,
        check: Check,
        note: Callable[[Undo], None],
        enforce: bool,
    ) -> Undo:
        """Attach by these mechanisms, or leave nothing changed."""
        undo = Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
        with translated(f"Lease {name} cannot be attached to process {holder.pid}"):
            try:
                processes = bounds.processes is not None
                plan_groups(self.groups, undo, rungs, name, holder.pid, processes=processes)
                self._begin(name, undo, bounds, holder, check)
                note(undo)
                leasegroups.make_groups(undo.groups)
                if enforce:
                    self._enforce(name, undo, bounds, holder)
            except BaseException:
                self.release(name, undo, holder)
                raise
        return undo

    def _begin(self, name: str, undo: Undo, bounds: Bounds, holder: ProcessMark, check: Check) -> None:
        """Refuse a tree that is too large, record how it is, and choose its cores."""
        tree = self._tree(self._processes.look(holder), name, undo, holder)
        check(undo, self._measured(tree, bounds, exact=True))
        self.neighbours.take_over(name, undo, tree)
        refuse_untouchable(self._enforcer.remember(undo, tree))
        if holder not in undo.by_mark():
            raise HolderGone(f"Process {holder.pid} ended before it could be attached.")
        undo.processes.sort(key=lambda record: record.mark != holder)  # the holder is the first
        if undo.compute is ComputeRung.AFFINITY:
            undo.cores = self._choose(name, undo, bounds)

    def _choose(self, name: str, undo: Undo, bounds: Bounds) -> list[int]:
        """Choose the cores of a lease: the least used by others that the holder may run on."""
        own = affinity.parse_cores(undo.processes[0].cpus)
        load = self.neighbours.core_load(name)
        for core in undo.cores:  # on a resize it rather stays where it is
            load[core] = load.get(core, 0.0) - 0.001
        usable = (own & self._cores().ids) or own
        return affinity.choose_cores(bounds.whole_cores, usable, load)

    def _enforce(
        self, name: str, undo: Undo, bounds: Bounds, holder: ProcessMark, *, afresh: bool = False
    ) -> None:
        """Put the limits in force on the whole tree, also on what is born meanwhile, and look."""
        self._enforcer.keep_groups(undo, bounds.cores, bounds.processes)
        leasegroups.limit_groups(undo.groups, bounds.cores, bounds.processes)
        tree: list[ProcessMark] = []
        wanted: dict[ProcessMark, int] = {}
        for number in range(_MOST_PASSES):
            table = self._processes.look(holder)
            tree = self._tree(table, name, undo, holder)
            born = self._enforcer.inherit(undo, tree, table)
            changed, refused = self._enforcer.limit_compute(undo, tree, afresh=afresh and number == 0)
            memory = self._measured(tree, bounds)
            wanted, refused_too = self._limit_memory(undo, tree, memory, bounds)
            refuse_untouchable(refused + refused_too)
            if number and not born and not changed:
                break
        if holder not in tree or not self.procfs.alive(holder):
            raise HolderGone(f"Process {holder.pid} ended while its limits were set.")
        memory_too = bounds.memory_bytes is not None
        if wrong := self._enforcer.disagreements(undo, tree, wanted, bounds.cores, memory=memory_too):
            raise LimitNotInForce(f"A limit was set but is not in force: {wrong[0]}.", hint="Report it.")

    def _limit_memory(
        self, undo: Undo, tree: Sequence[ProcessMark], memory: TreeMemory, bounds: Bounds
    ) -> tuple[dict[ProcessMark, int], list[int]]:
        """Limit the memory of a tree, if it is to be."""
        if bounds.memory_bytes is None:
            return {}, []
        return self._enforcer.limit_memory(undo, tree, memory, bounds.memory_bytes, bounds.room_bytes)

    # --- change, look, take off ---------------------------------------------------------------------

    def resize(
        self, name: str, undo: Undo, bounds: Bounds, before: Bounds, holder: ProcessMark, *, check: Check
    ) -> None:
        """Put other limits in force; on any error those of ``before`` are."""
        old = copy.deepcopy(undo)
        check(undo, self.measure(name, undo, bounds, holder))
        if undo.compute is ComputeRung.AFFINITY:
            undo.cores = self._choose(name, undo, bounds)
        with translated(f"Lease {name} cannot be resized"):
            try:
                self._enforce(name, undo, bounds, holder, afresh=True)
            except BaseException:
                self._enforce(name, old, before, holder, afresh=True)
                raise

    def measure(self, name: str, undo: Undo, bounds: Bounds, holder: ProcessMark) -> TreeMemory:
        """Measure a tree exactly."""
        tree = self._tree(self._processes.look(holder), name, undo, holder)
        return self._measured(tree, bounds, exact=True)

    def keep(
        self, name: str, undo: Undo, bounds: Bounds, holder: ProcessMark, *, enforce: bool = True
    ) -> Kept:
        """Bring new children under the limits and act on the sum."""
        table = self._processes.look(holder, within_seconds=_TABLE_SECONDS)
        tree = self._tree(table, name, undo, holder)
        memory = self._measured(tree, bounds)
        changed = self._enforcer.inherit(undo, tree, table)
        if enforce:
            with translated(f"The limits of lease {name} cannot be kept up"):
                self._enforcer.keep_groups(undo, bounds.cores, bounds.processes)
                self._enforcer.limit_compute(undo, tree)
                self._limit_memory(undo, tree, memory, bounds)
        kept = [each for each in undo.processes if each.mark == holder or table.holds(each.mark)]
        changed = changed or len(kept) < len(undo.processes)
        undo.processes = kept
        self._meter.refresh(memory, tree, bounds.memory_bytes or 0)
        return Kept(changed=changed, tree=tree, memory=memory)

    def detach(self, name: str, undo: Undo, holder: ProcessMark) -> None:
        """Give everything back, and forget the name; idempotent."""
        with translated(f"Lease {name} cannot be detached"):
            refused = self.release(name, undo, holder)
        self.neighbours.forget(name)
        refuse_untouchable([pid for pid in refused if pid == holder.pid])

    def release(self, name: str, undo: Undo, holder: ProcessMark) -> list[int]:
        """Give every process of the tree back what it had, until a look finds nothing more to do."""
        refused: list[int] = []
        for _ in range(_MOST_PASSES):
            table = self._processes.look(holder)
            tree = self._tree(table, name, undo, holder)
            born = bool(undo.processes) and self._enforcer.inherit(undo, tree, table)
            changed, refused = self._enforcer.restore(undo, tree)
            if not born and not changed:
                break
        leasegroups.remove_groups(undo.groups)
        return refused

    # --- shared -------------------------------------------------------------------------------------

    def tree(self, name: str, undo: Undo, holder: ProcessMark) -> list[ProcessMark]:
        """List the processes of a holder now."""
        return self._tree(self._processes.look(holder), name, undo, holder)

    def measure_tree(self, tree: Sequence[ProcessMark], *, exact: bool = True) -> TreeMemory:
        """Measure what processes use; shared pages count once, or where it must be cheap more often."""
        return self._meter.measure(tree, 0, exact=exact)

    def _measured(self, tree: Sequence[ProcessMark], bounds: Bounds, *, exact: bool = False) -> TreeMemory:
        return self._meter.measure(tree, bounds.memory_bytes or 0, exact=exact)

    def _tree(self, table: ProcessTable, name: str, undo: Undo, holder: ProcessMark) -> list[ProcessMark]:
        """List the processes of a holder: its descendants, those known, and those in its groups."""
        known = [record.mark for record in undo.processes]
        for group in undo.groups:
            inside = sorted(leasegroups.members(Path(group.path)))
            known += [table.processes[pid].mark for pid in inside if pid in table.processes]
        return table.tree(holder, known, self.neighbours.holders_besides(name))


def _plainest(rungs: tuple[ComputeRung, MemoryRung]) -> tuple[ComputeRung, MemoryRung]:
    """Return the mechanisms that work everywhere, unless others are pinned."""
    compute, memory = rungs
    return (
        ComputeRung.AFFINITY if compute is ComputeRung.AUTO else compute,
        MemoryRung.RLIMIT if memory is MemoryRung.AUTO else memory,
    )


def refuse_untouchable(pids: Sequence[int]) -> None:
    """Raise if processes belong to somebody whom this agent may not limit."""
    if pids:
        raise BackendError(
            f"The agent (uid {os.geteuid()}) may not change the limits of process {pids[0]}.",
            hint="Run it as the user of the process, or give it CAP_SYS_RESOURCE and CAP_SYS_NICE.",
        )


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the system says into our error."""
    try:
        yield
    except OSError as error:
        raise LimitNotInForce(f"{what}: {error.strerror or error}.") from error
