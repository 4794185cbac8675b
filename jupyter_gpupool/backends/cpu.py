"""The backend of the CPU: shares of the processor and main memory of this machine.

Rules of this module: the strongest mechanism that works here is taken, or the one that is pinned; either
everything that belongs to a lease is in force and was read back, or nothing was left changed. What it
remembers between calls only makes it faster or fairer: an attachment's record is enough to go on.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jupyter_gpupool.backends import affinity, leasegroups
from jupyter_gpupool.backends.base import (
    Attachment,
    Backend,
    BackendError,
    HolderGone,
    LimitNotInForce,
    Note,
    ProcessMark,
    no_note,
)
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.cpu_device import CPUDevice
from jupyter_gpupool.backends.cpu_isolation import cores_milli, describe, environment, whole_cores
from jupyter_gpupool.backends.cpu_refusals import check_share, refuse_foreign, refuse_larger
from jupyter_gpupool.backends.enforcer import Enforcer
from jupyter_gpupool.backends.groupplan import plan_groups
from jupyter_gpupool.backends.machine import Machine
from jupyter_gpupool.backends.neighbours import Neighbour, Neighbours
from jupyter_gpupool.backends.processtree import ProcessTable, ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.treememory import MemoryMeter
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo, dump_undo, load_undo
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample, LeaseSample, ShareOrder

#: For how long one look at all processes serves the watches of all leases, seconds.
_TABLE_SECONDS = 0.2
#: How often a tree is looked at again while it grows under our hands.
_MOST_PASSES = 10


class CPUBackend(Backend):
    """The CPU of this machine.

    Parameters
    ----------
    compute, memory : ComputeRung, MemoryRung
        Pins a mechanism; AUTO takes the strongest that works.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        *,
        compute: ComputeRung = ComputeRung.AUTO,
        memory: MemoryRung = MemoryRung.AUTO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compute, self._memory = compute, memory
        self._procfs = ProcFS()
        self._groups = ControlGroups()
        self._device = CPUDevice(Machine())
        self._enforcer = Enforcer(self._procfs, self._groups)
        self._meter = MemoryMeter(self._procfs, clock)
        self._neighbours = Neighbours()
        self._processes = ProcessWatch(self._procfs, clock)

    def discover(self) -> list[DeviceReport]:
        """Report the CPU with the cores and memory that are really usable."""
        self._device.look()
        return self._device.report(self._neighbours.used_bytes())

    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        """Read use and temperature; the first call has no utilization, which is a difference."""
        for attachment in leases:
            self._note(attachment, load_undo(attachment))
        return [self._device.sample(self._neighbours.used_bytes())]

    # --- attach -------------------------------------------------------------------------------------

    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        """Put a running process tree under a share; see `Backend.attach`."""
        check_share(lease_id, share, self._device.id)
        uid = refuse_foreign(self._procfs, holder)
        try:
            undo = self._attach_by(self._compute, self._memory, lease_id, share, holder)
        except LimitNotInForce:
            compute, memory = self._plainest()
            if (compute, memory) == (self._compute, self._memory):
                raise
            undo = self._attach_by(compute, memory, lease_id, share, holder)
        return self._written(lease_id, share, holder, undo, uid)

    def _plainest(self) -> tuple[ComputeRung, MemoryRung]:
        """Return the mechanisms that work everywhere, unless others are pinned."""
        return (
            ComputeRung.AFFINITY if self._compute is ComputeRung.AUTO else self._compute,
            MemoryRung.RLIMIT if self._memory is MemoryRung.AUTO else self._memory,
        )

    def _attach_by(
        self, compute: ComputeRung, memory: MemoryRung, lease_id: str, share: ShareOrder, holder: ProcessMark
    ) -> Undo:
        """Attach by these mechanisms, or leave nothing changed."""
        undo = Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
        with _translated(f"Lease {lease_id} cannot be attached to process {holder.pid}"):
            try:
                plan_groups(self._groups, undo, compute, memory, lease_id, holder.pid)
                self._begin(lease_id, undo, share, holder)
                self._enforce(lease_id, undo, share, holder)
            except BaseException:
                self._release(lease_id, undo, holder)
                raise
        return undo

    def _begin(self, lease_id: str, undo: Undo, share: ShareOrder, holder: ProcessMark) -> None:
        """Refuse a tree that is too large, record how it is, and choose its cores."""
        tree = self._tree(self._processes.look(holder), lease_id, undo, holder)
        memory = self._meter.measure(tree, share.memory_bytes, exact=True)
        refuse_larger(undo, memory, share, holder)
        self._neighbours.take_over(lease_id, undo, tree)
        _refuse_untouchable(self._enforcer.remember(undo, tree))
        if holder not in undo.by_mark():
            raise HolderGone(f"Process {holder.pid} ended before it could be attached.")
        undo.processes.sort(key=lambda record: record.mark != holder)  # the holder is the first
        if undo.compute is ComputeRung.AFFINITY:
            undo.cores = self._choose(lease_id, undo, share)

    def _choose(self, lease_id: str, undo: Undo, share: ShareOrder) -> list[int]:
        """Choose the cores of a lease: the least used by others that the holder may run on."""
        own = affinity.parse_cores(undo.processes[0].cpus)
        load = self._neighbours.core_load(lease_id)
        for core in undo.cores:  # on a resize it rather stays where it is
            load[core] = load.get(core, 0.0) - 0.001
        usable = (own & self._device.cores.ids) or own
        return affinity.choose_cores(whole_cores(share, self._device.cores.count), usable, load)

    def _enforce(
        self, lease_id: str, undo: Undo, share: ShareOrder, holder: ProcessMark, *, afresh: bool = False
    ) -> None:
        """Put the limits in force on the whole tree, also on what is born meanwhile, and look."""
        cores = self._granted_cores(share)
        self._enforcer.keep_groups(undo, cores)
        for group in undo.groups:
            if group.cpu:
                leasegroups.set_cpu(group.version, Path(group.path), cores)
        tree: list[ProcessMark] = []
        wanted: dict[ProcessMark, int] = {}
        for number in range(_MOST_PASSES):
            table = self._processes.look(holder)
            tree = self._tree(table, lease_id, undo, holder)
            born = self._enforcer.inherit(undo, tree, table)
            changed, refused = self._enforcer.limit_compute(undo, tree, afresh=afresh and number == 0)
            memory = self._meter.measure(tree, share.memory_bytes)
            wanted, refused_too = self._enforcer.limit_memory(undo, tree, memory, share.memory_bytes)
            _refuse_untouchable(refused + refused_too)
            if number and not born and not changed:
                break
        if holder not in tree or not self._procfs.alive(holder):
            raise HolderGone(f"Process {holder.pid} ended while its limits were set.")
        if wrong := self._enforcer.disagreements(undo, tree, wanted, cores):
            raise LimitNotInForce(f"A limit was set but is not in force: {wrong[0]}.", hint="Report it.")

    # --- resize and detach --------------------------------------------------------------------------

    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        """Put another share in force; see `Backend.resize`."""
        lease_id, holder = attachment.lease_id, attachment.holder
        check_share(lease_id, share, self._device.id)
        uid = refuse_foreign(self._procfs, holder)
        undo = load_undo(attachment)
        before = copy.deepcopy(undo)
        tree = self._tree(self._processes.look(holder), lease_id, undo, holder)
        memory = self._meter.measure(tree, share.memory_bytes, exact=True)
        refuse_larger(undo, memory, share, holder)
        if undo.compute is ComputeRung.AFFINITY:
            undo.cores = self._choose(lease_id, undo, share)
        with _translated(f"Lease {lease_id} cannot be resized"):
            try:
                self._enforce(lease_id, undo, share, holder, afresh=True)
            except BaseException:
                self._enforce(lease_id, before, attachment.share, holder, afresh=True)
                raise
        return self._written(lease_id, share, holder, undo, uid)

    def detach(self, attachment: Attachment) -> None:
        """Restore what was there before; see `Backend.detach`."""
        undo = load_undo(attachment)
        with _translated(f"Lease {attachment.lease_id} cannot be detached"):
            refused = self._release(attachment.lease_id, undo, attachment.holder)
        self._neighbours.forget(attachment.lease_id)
        _refuse_untouchable([pid for pid in refused if pid == attachment.holder.pid])

    def _release(self, lease_id: str, undo: Undo, holder: ProcessMark) -> list[int]:
        """Give every process of the tree back what it had, until a look finds nothing more to do."""
        refused: list[int] = []
        for _ in range(_MOST_PASSES):
            table = self._processes.look(holder)
            tree = self._tree(table, lease_id, undo, holder)
            born = bool(undo.processes) and self._enforcer.inherit(undo, tree, table)
            changed, refused = self._enforcer.restore(undo, tree)
            if not born and not changed:
                break
        for group in undo.groups:
            leasegroups.remove_group(Path(group.path))
        return refused

    # --- watch --------------------------------------------------------------------------------------

    def watch(self, attachment: Attachment) -> LeaseSample:
        """Bring new children under the limits and act on the sum; see `Backend.watch`.

        Replaces ``attachment.undo`` when processes came or went: write the record again then.
        """
        undo = load_undo(attachment)
        share, holder = attachment.share, attachment.holder
        table = self._processes.look(holder, within_seconds=_TABLE_SECONDS)
        tree = self._tree(table, attachment.lease_id, undo, holder)
        memory = self._meter.measure(tree, share.memory_bytes)
        with _translated(f"The limits of lease {attachment.lease_id} cannot be kept up"):
            changed = self._enforcer.inherit(undo, tree, table)
            self._enforcer.keep_groups(undo, self._granted_cores(share))
            self._enforcer.limit_compute(undo, tree)
            self._enforcer.limit_memory(undo, tree, memory, share.memory_bytes)
        kept = [each for each in undo.processes if each.mark == holder or table.holds(each.mark)]
        if changed or len(kept) < len(undo.processes):
            undo.processes = kept
            attachment.undo = dump_undo(undo)
        used = memory.used_bytes if tree else None
        self._note(attachment, undo).used_bytes = used
        self._meter.refresh(memory, tree, share.memory_bytes)
        return LeaseSample(
            lease_id=attachment.lease_id, memory_used_bytes=used, processes=len(memory.data_bytes)
        )

    # --- shared -------------------------------------------------------------------------------------

    def _tree(self, table: ProcessTable, lease_id: str, undo: Undo, holder: ProcessMark) -> list[ProcessMark]:
        """List the processes of a holder: its descendants, those known, and those in its groups."""
        known = [record.mark for record in undo.processes]
        for group in undo.groups:
            inside = sorted(leasegroups.members(Path(group.path)))
            known += [table.processes[pid].mark for pid in inside if pid in table.processes]
        return table.tree(holder, known, self._neighbours.holders_besides(lease_id))

    def _granted_cores(self, share: ShareOrder) -> float:
        """Return how many cores' worth of compute a share is."""
        return cores_milli(share, self._device.cores.count) / 1000

    def _note(self, attachment: Attachment, undo: Undo) -> Neighbour:
        """Remember a lease for the sake of the others."""
        cores = self._granted_cores(attachment.share)
        return self._neighbours.note(attachment.lease_id, attachment.holder, undo, cores)

    def _written(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, undo: Undo, uid: int
    ) -> Attachment:
        """Write down what is in force."""
        units = self._device.cores.count
        threads = min(whole_cores(share, units), len(undo.cores) or units)
        made = Attachment(
            lease_id=lease_id,
            share=share,
            holder=holder,
            isolation=describe(undo, share, units, uid, os.geteuid()),
            environment=environment(lease_id, threads),
            threads=threads,
            undo=dump_undo(undo),
        )
        self._note(made, undo)
        return made


def _refuse_untouchable(pids: Sequence[int]) -> None:
    """Raise if processes belong to somebody whom this agent may not limit."""
    if pids:
        raise BackendError(
            f"The agent (uid {os.geteuid()}) may not change the limits of process {pids[0]}.",
            hint="Run it as the user of the process, or give it CAP_SYS_RESOURCE and CAP_SYS_NICE.",
        )


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn what the system says into our error."""
    try:
        yield
    except OSError as error:
        raise LimitNotInForce(f"{what}: {error.strerror or error}.") from error
