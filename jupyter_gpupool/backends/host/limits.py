"""Puts a holder of a GPU share under limits of the node's processor, main memory and processes too.

Rules of this module: the strongest mechanism that works here: control groups of version 2 where they are
delegated to us, a scope of systemd's, control groups of version 1, else soft limits of processes. A limit
that cannot be set is told and refuses nobody: the share is what was asked for.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from jupyter_gpupool.backends import leasegroups
from jupyter_gpupool.backends.base import (
    Attachment,
    Backend,
    BackendError,
    HolderGone,
    Note,
    ProcessMark,
    no_note,
)
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.cpu_device import CPUDevice
from jupyter_gpupool.backends.cpu_isolation import environment
from jupyter_gpupool.backends.cpu_refusals import refuse_foreign
from jupyter_gpupool.backends.groupplan import plan_groups
from jupyter_gpupool.backends.host.plan import Asked, Node, Used, choose
from jupyter_gpupool.backends.host.record import HostRecord, dump, load, new_record
from jupyter_gpupool.backends.host.scope import Scopes, scope_of
from jupyter_gpupool.backends.host.words import describe
from jupyter_gpupool.backends.machine import Machine
from jupyter_gpupool.backends.neighbours import Neighbour
from jupyter_gpupool.backends.rules import HostLimits as Mode
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.backends.treelimits import TreeLimits
from jupyter_gpupool.backends.treememory import TreeMemory
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import LeaseSample, ShareOrder

logger = logging.getLogger(__name__)

#: Stands for the node in the record of an attachment.
HOST = "host"
_STRONGEST = (ComputeRung.AUTO, MemoryRung.AUTO)


class HostLimits:
    """The limits beside shares on one node.

    Parameters
    ----------
    limits : TreeLimits
        The CPU backend's, so that both know of one another.
    device : CPUDevice
        What there is of processor and memory.
    rules : NodeRules
        Whether to limit, and how many processes.
    scopes : Scopes
        What systemd can do here.
    rungs : tuple of ComputeRung and MemoryRung
        Pins mechanisms of ours.
    """

    def __init__(
        self,
        limits: TreeLimits,
        device: CPUDevice,
        rules: NodeRules,
        scopes: Scopes | None = None,
        rungs: tuple[ComputeRung, MemoryRung] = _STRONGEST,
    ) -> None:
        self._limits = limits
        self._device = device
        self._rules = rules
        self._scopes = scopes or Scopes()
        self._rungs = rungs

    # --- attach -------------------------------------------------------------------------------------

    def attach(
        self,
        lease_id: str,
        part: float,
        holder: ProcessMark,
        note: Note = no_note,
        asked: Asked | None = None,
    ) -> Attachment | None:
        """Limit a process tree to a part of the node; None where the rules limit nothing.

        Parameters
        ----------
        lease_id : str
            The lease.
        part : float
            Which part of the node's GPUs it has.
        holder : ProcessMark
            Its process.
        note : callable
            Writes down how to undo it, before anything is changed.
        asked : Asked or None
            What was asked for beside the share.

        Raises
        ------
        HolderGone
            If the process ended meanwhile.
        """
        if self._rules.host_limits is Mode.NONE:
            return None
        refuse_foreign(self._limits.procfs, holder)
        asked = asked or Asked()
        record = new_record(choose(part, self._node(), self._used(lease_id, holder), asked), asked)
        record.yielding = self._limits.neighbours.leases_cpu(holder)

        def begin() -> None:
            note(self._attachment(lease_id, holder, part, record))

        try:
            self._limit(lease_id, record, holder, begin)
        except HolderGone:
            raise
        except BackendError as error:
            logger.warning("Lease %s has no limits beside its share: %s", lease_id, error)
            record.undo, record.scope = None, ""
            record.reasons = dict.fromkeys(_RESOURCES, f"It cannot be limited: {error.message}")
        made = self._attachment(lease_id, holder, part, record)
        self.show(made)
        return made

    def _limit(
        self, lease_id: str, record: HostRecord, holder: ProcessMark, begin: Callable[[], None]
    ) -> None:
        """Limit by systemd where control groups of version 2 are not ours to make; else by our own means."""
        if self._rungs == _STRONGEST and not self._delegated(lease_id, holder) and not record.yielding:
            impossible = self._scopes.impossible()
            if not impossible:
                try:
                    return self._limit_by_scope(lease_id, record, holder, begin)
                except BackendError as error:
                    logger.info("Lease %s gets no scope: %s", lease_id, error)
                    record.scope = ""

        def note(undo: Undo) -> None:
            record.undo = undo
            begin()

        record.undo = self._limits.attach(
            *(_name(lease_id), record.bounds, holder, self._rungs),
            check=lambda undo, memory: None,
            note=note,
            enforce=not record.yielding,
        )
        return None

    def _limit_by_scope(
        self, lease_id: str, record: HostRecord, holder: ProcessMark, begin: Callable[[], None]
    ) -> None:
        """Let systemd limit the tree."""
        record.scope = scope_of(lease_id, holder)
        begin()
        tree = self._limits.tree(_name(lease_id), _nothing(), holder)
        try:
            self._scopes.start(record.scope, tree, record.wanted)
            self._scopes.verify(record.scope, record.wanted)
        except BackendError:
            self._scopes.release(record.scope)
            raise

    def _delegated(self, lease_id: str, holder: ProcessMark) -> bool:
        """Say whether a control group of version 2 of ours can limit everything."""
        planned = _nothing()
        plan_groups(*(self._limits.groups, planned, _STRONGEST, _name(lease_id), holder.pid), processes=True)
        return any(each.cpu and each.memory and each.processes for each in planned.groups)

    # --- change, look, take off ---------------------------------------------------------------------

    def resize(self, attachment: Attachment, part: float) -> Attachment:
        """Limit to another part, in place: a device's limit may be one of the same control group.

        What a holder uses more than its new part of stays limited as it was.
        """
        lease_id, holder, record = attachment.lease_id, attachment.holder, load(attachment)
        asked = record.asked
        changed = new_record(choose(part, self._node(), self._used(lease_id, holder), asked), asked)
        changed.go_on_from(record)
        try:
            self._change(lease_id, changed, record, holder)
        except HolderGone:
            raise
        except BackendError as error:
            logger.warning("The limits beside lease %s stay as they were: %s", lease_id, error)
            return attachment
        made = self._attachment(lease_id, holder, part, changed)
        self.show(made)
        return made

    def _change(self, lease_id: str, new: HostRecord, old: HostRecord, holder: ProcessMark) -> None:
        """Put other limits in force, by the mechanism that limits already."""
        if old.scope:
            self._scopes.change(old.scope, new.wanted)
            self._scopes.verify(old.scope, new.wanted)
        elif new.undo is not None and not old.yielding:
            bounds = (new.bounds, old.bounds)
            self._limits.resize(_name(lease_id), new.undo, *bounds, holder, check=lambda *_: None)

    def watch(self, attachment: Attachment) -> LeaseSample:
        """Keep the limits up, or give way to a share of the CPU; replaces the record where it changed."""
        lease_id, holder, record = attachment.lease_id, attachment.holder, load(attachment)
        yields = self._limits.neighbours.leases_cpu(holder)
        turned, record.yielding = yields is not record.yielding, yields
        if record.undo is None:
            tree = self._limits.tree(_name(lease_id), _nothing(), holder)
            changed, memory = False, self._limits.measure_tree(tree, exact=False)
        else:
            changed, tree, memory = self._keep(lease_id, record, record.undo, holder, turned=turned)
        if turned or changed:
            attachment.undo = dump(record)
            attachment.isolation = self._describe(record, holder)
        used = memory.used_bytes if tree else None
        neighbour = self.show(attachment)
        if record.asked_bytes:
            # the pool counts what was asked for: that much of it is not used without a lease
            neighbour.used_bytes = None if used is None else min(used, record.asked_bytes)
        return LeaseSample(lease_id=lease_id, processes=len(memory.data_bytes), host_memory_bytes=used)

    def _keep(
        self, lease_id: str, record: HostRecord, undo: Undo, holder: ProcessMark, *, turned: bool
    ) -> tuple[bool, list[ProcessMark], TreeMemory]:
        """Keep limits of ours up, unless they give way; set them anew when they no longer do."""
        name, bounds = _name(lease_id), record.bounds
        if turned and not record.yielding:
            self._limits.resize(name, undo, bounds, bounds, holder, check=lambda *_: None)
        kept = self._limits.keep(name, undo, bounds, holder, enforce=not record.yielding)
        return kept.changed, kept.tree, kept.memory

    def show(self, attachment: Attachment) -> Neighbour:
        """Remember a holder for the sake of others' leases on the CPU."""
        record = load(attachment)
        return self._limits.neighbours.note(
            *(_name(attachment.lease_id), attachment.holder, record.undo or _nothing()),
            record.cores_milli / 1000,
            leased=False,
        )

    def detach(self, attachment: Attachment) -> None:
        """Take everything away again; idempotent.

        Raises
        ------
        BackendError
            If something could not be restored.
        """
        name, holder, record = _name(attachment.lease_id), attachment.holder, load(attachment)
        if record.scope:
            self._scopes.release(record.scope)
        elif record.undo is not None and self._limits.neighbours.leases_cpu(holder):
            leasegroups.remove_groups(record.undo.groups)  # what its processes have is the CPU lease's
        elif record.undo is not None:
            self._limits.detach(name, record.undo, holder)
        self._limits.neighbours.forget(name)

    # --- shared -------------------------------------------------------------------------------------

    def _node(self) -> Node:
        self._device.look()
        return Node(
            cores=self._device.cores.count,
            memory_bytes=self._device.leasable_bytes,
            most_processes=self._rules.most_processes,
        )

    def _used(self, lease_id: str, holder: ProcessMark) -> Used:
        """Look at what a tree uses now."""
        tree = self._limits.tree(_name(lease_id), _nothing(), holder)
        memory = self._limits.measure_tree(tree)
        tasks = sum(len(self._limits.procfs.threads(mark.pid)) for mark in tree)
        return Used(memory_bytes=memory.used_bytes, tasks=tasks)

    def _describe(self, record: HostRecord, holder: ProcessMark) -> list[IsolationDoc]:
        status = self._limits.procfs.status(holder.pid)
        return describe(record, os.geteuid() if status is None else status.uid, os.geteuid())

    def _attachment(self, lease_id: str, holder: ProcessMark, part: float, record: HostRecord) -> Attachment:
        milli = max(1, round(1000 * part))
        share = ShareOrder(device_id=HOST, compute_milli=milli, memory_bytes=record.memory_bytes or 0)
        threads = record.bounds.whole_cores
        return Attachment(
            lease_id=lease_id,
            share=share,
            holder=holder,
            isolation=self._describe(record, holder),
            environment=environment(lease_id, threads),
            threads=threads,
            undo=dump(record),
        )


_RESOURCES = (Resource.HOST_COMPUTE, Resource.HOST_MEMORY, Resource.PROCESSES)


def host_limits(backends: Sequence[Backend], rules: NodeRules) -> HostLimits:
    """Make the limits beside shares for a node with these backends."""
    cpu = next((each for each in backends if isinstance(each, CPUBackend)), None) or CPUBackend()
    return HostLimits(cpu.limits, CPUDevice(Machine()), rules)


def _name(lease_id: str) -> str:
    """Return under which name a holder is limited beside its share."""
    return f"{lease_id}-host"


def _nothing() -> Undo:
    """Return a record of no change."""
    return Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
