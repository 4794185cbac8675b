"""The backend of the CPU: shares of the processor and main memory of this machine.

Rules of this module: the strongest mechanism that works here is taken, or the one that is pinned. What it
remembers between calls only makes it faster or fairer: an attachment's record is enough to go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection

from jupyter_gpupool.backends.base import Attachment, Backend, Note, ProcessMark, no_note
from jupyter_gpupool.backends.bounds import Bounds
from jupyter_gpupool.backends.cpu_device import CPUDevice
from jupyter_gpupool.backends.cpu_isolation import cores_milli, describe, environment
from jupyter_gpupool.backends.cpu_probe import kernel_release
from jupyter_gpupool.backends.cpu_refusals import check_share, refuse_foreign, refuse_larger
from jupyter_gpupool.backends.machine import Machine
from jupyter_gpupool.backends.neighbours import Neighbour
from jupyter_gpupool.backends.probebook import ProbeBook, judged
from jupyter_gpupool.backends.proving import CPUProver
from jupyter_gpupool.backends.treelimits import Check, TreeLimits
from jupyter_gpupool.backends.treetime import TreeTime
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo, dump_undo, load_undo
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample, LeaseSample, ShareOrder


class CPUBackend(Backend):
    """The CPU of this machine.

    Parameters
    ----------
    compute, memory : ComputeRung, MemoryRung
        Pins a mechanism; AUTO takes the strongest that works.
    clock : callable
        Monotonic seconds.
    book : ProbeBook or None
        What probes found; None to prove nothing.
    node_name : str
        What tells this node from others that have the same machine id.
    """

    def __init__(
        self,
        *,
        book: ProbeBook | None = None,
        compute: ComputeRung = ComputeRung.AUTO,
        memory: MemoryRung = MemoryRung.AUTO,
        clock: Callable[[], float] = time.monotonic,
        node_name: str = "",
    ) -> None:
        self._rungs = (compute, memory)
        self._device = CPUDevice(Machine(), node_name)
        #: Shared with the limits beside other devices' shares, so that both know of one another.
        self.limits = TreeLimits(lambda: self._device.cores, clock)
        self._times = TreeTime(self.limits.procfs, clock)
        self._book = book
        self._prover = (
            None if book is None else CPUProver(book, CPUBackend, self.limits.neighbours.leases_any)
        )

    def discover(self) -> list[DeviceReport]:
        """Report the CPU with the cores and memory that are really usable."""
        self._device.look()
        return self._device.report(self.limits.neighbours.used_bytes())

    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        """Read use and temperature; the first call has no utilization, which is a difference."""
        for attachment in leases:
            self._note(attachment, load_undo(attachment))
        return [self._device.sample(self.limits.neighbours.used_bytes())]

    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        """Put a running process tree under a share; see `Backend.attach`."""
        check_share(lease_id, share, self._device.id)
        uid = refuse_foreign(self.limits.procfs, holder)

        def begin(undo: Undo) -> None:
            note(self._attachment(lease_id, share, holder, undo, uid))

        undo = self.limits.attach(
            *(lease_id, self._bounds(share), holder, self._rungs),
            check=_not_larger(share, holder),
            note=begin,
        )
        return self._written(lease_id, share, holder, undo, uid)

    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        """Put another share in force; see `Backend.resize`."""
        lease_id, holder = attachment.lease_id, attachment.holder
        check_share(lease_id, share, self._device.id)
        uid = refuse_foreign(self.limits.procfs, holder)
        undo = load_undo(attachment)
        self.limits.resize(
            *(lease_id, undo, self._bounds(share), self._bounds(attachment.share), holder),
            check=_not_larger(share, holder),
        )
        return self._written(lease_id, share, holder, undo, uid)

    def detach(self, attachment: Attachment) -> None:
        """Restore what was there before; see `Backend.detach`."""
        self.limits.detach(attachment.lease_id, load_undo(attachment), attachment.holder)
        self._times.forget(attachment.lease_id)

    def watch(self, attachment: Attachment) -> LeaseSample:
        """Bring new children under the limits and act on the sum; see `Backend.watch`.

        Replaces ``attachment.undo`` when processes came or went: write the record again then.
        """
        undo = load_undo(attachment)
        kept = self.limits.keep(attachment.lease_id, undo, self._bounds(attachment.share), attachment.holder)
        if kept.changed:
            attachment.undo = dump_undo(undo)
        used = kept.memory.used_bytes if kept.tree else None
        self._note(attachment, undo).used_bytes = used
        cores = self._device.cores.count
        return LeaseSample(
            lease_id=attachment.lease_id,
            memory_used_bytes=used,
            processes=len(kept.memory.data_bytes),
            utilization_percent=self._times.percent(attachment.lease_id, kept.tree, cores),
        )

    def prove(self, device_ids: Collection[str]) -> None:
        """Exceed the limits in a child, once for each release of the kernel; see `Backend.prove`."""
        if self._prover is not None and self._device.id in device_ids:
            self._prover.proving.prove([self._device.id])

    def close(self) -> None:
        """Stop proving."""
        if self._prover is not None:
            self._prover.proving.close()

    # --- shared -------------------------------------------------------------------------------------

    def _bounds(self, share: ShareOrder) -> Bounds:
        """Return what a share is, in cores and bytes."""
        return Bounds(
            cores_milli=cores_milli(share, self._device.cores.count), memory_bytes=share.memory_bytes
        )

    def _note(self, attachment: Attachment, undo: Undo) -> Neighbour:
        """Remember a lease for the sake of the others."""
        cores = self._bounds(attachment.share).cores
        return self.limits.neighbours.note(attachment.lease_id, attachment.holder, undo, cores)

    def _written(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, undo: Undo, uid: int
    ) -> Attachment:
        """Write down what is in force, and remember it."""
        made = self._attachment(lease_id, share, holder, undo, uid)
        self._note(made, undo)
        return made

    def _attachment(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, undo: Undo, uid: int
    ) -> Attachment:
        units = self._device.cores.count
        threads = min(self._bounds(share).whole_cores, len(undo.cores) or units)
        return Attachment(
            lease_id=lease_id,
            share=share,
            holder=holder,
            isolation=[self._judged(doc) for doc in describe(undo, share, units, uid, os.geteuid())],
            environment=environment(lease_id, threads),
            threads=threads,
            undo=dump_undo(undo),
        )

    def _judged(self, doc: IsolationDoc) -> IsolationDoc:
        """Say of a limit what a probe of its mechanism found."""
        if self._book is None:
            return doc
        return judged(doc, self._book.result(self._device.id, kernel_release(), doc.mechanism))


def _not_larger(share: ShareOrder, holder: ProcessMark) -> Check:
    """Return the check that refuses a tree that already uses more than a share."""
    return lambda undo, memory: refuse_larger(undo, memory, share, holder)
