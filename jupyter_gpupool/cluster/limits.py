"""The shares of one lease on one process, as one: all of them in force, or none.

Rules of this module: synchronous, called in the agent's one backend thread; how to undo a thing is on disk
before the thing is done; what was begun and failed is undone, and where that fails too it is kept as a
leftover, to be tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from jupyter_gpupool.backends.base import Attachment, BackendError, Demand, ProcessMark
from jupyter_gpupool.backends.host.limits import HostLimits
from jupyter_gpupool.backends.host.plan import Asked
from jupyter_gpupool.cluster.calls import call
from jupyter_gpupool.cluster.holders import HolderBook, HolderRecord
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.core.errors import GPUPoolError, NoSuchDevice
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.messages import LeaseSample, PrepareOrder, ShareOrder

logger = logging.getLogger(__name__)

T = TypeVar("T", int, float)


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a look at a holder found.

    Attributes
    ----------
    sample : LeaseSample
        What it uses.
    changed : bool
        True when something else is in force than before, or there is something new to say.
    demand : Demand or None
        What has to be done to it.
    reason : str
        Why, one clause.
    """

    sample: LeaseSample
    changed: bool = False
    demand: Demand | None = None
    reason: str = ""


class Limits:
    """Puts leases in force on processes, and keeps their records.

    Parameters
    ----------
    inventory : Inventory
        Knows the backend of each device.
    book : HolderBook
        Where records are kept.
    beside : HostLimits or None
        Limits the node's processor and memory beside shares of other devices; None for no such limits.
    """

    def __init__(self, inventory: Inventory, book: HolderBook, beside: HostLimits | None = None) -> None:
        self._inventory = inventory
        self._book = book
        self._beside = beside
        #: What was begun, failed, and could not be undone: whoever attaches takes it from here.
        self.leftovers: list[HolderRecord] = []

    # --- attach -------------------------------------------------------------------------------------

    def attach(
        self, order: PrepareOrder, holder: ProcessMark, frameworks: Mapping[str, str] | None = None
    ) -> HolderRecord:
        """Put a process under all shares of a lease, and write its record.

        Raises
        ------
        BackendError
            If it may not share a device, or one share cannot be put in force; none is then.
        NoSuchDevice
            If a device is not of this node.
        """
        for share in order.shares:
            call(self._inventory.backend(share.device_id).admit, share, frameworks or {})
        record = HolderRecord(
            format=names.FORMAT,
            lease_id=order.lease_id,
            generation=order.generation,
            owner=order.owner,
            holder=holder,
            attachments=[],
            begun=True,
        )
        try:
            # first the node: a limit of the device may be one of the control group that the holder is in
            asked = Asked(cpu_milli=order.host_cpu_milli, memory_bytes=order.host_memory_bytes)
            record.beside = self._attach_beside(record, order.shares, asked)
            for share in order.shares:
                record.attachments.append(self._attach_share(record, share))
            record.begun = False
            self._book.save(record)
        except BaseException:
            self._undo(record)
            raise
        return record

    def _attach_share(self, record: HolderRecord, share: ShareOrder) -> Attachment:
        """Put one share in force; a record of how to undo it is on disk first."""
        backend = self._inventory.backend(share.device_id)
        return call(backend.attach, record.lease_id, share, record.holder, self._noting(record))

    def _noting(self, record: HolderRecord) -> Callable[[Attachment], None]:
        """Return what writes down that one more share is begun."""

        def note(attachment: Attachment) -> None:
            begun = [*record.attachments, attachment]
            self._book.save(msgspec.structs.replace(record, attachments=begun))

        return note

    def _attach_beside(
        self, record: HolderRecord, shares: list[ShareOrder], asked: Asked
    ) -> Attachment | None:
        """Limit the node's processor and memory beside the shares, where that is wanted."""
        part = self._inventory.part(shares)
        if self._beside is None or part is None:
            return None

        def note(attachment: Attachment) -> None:
            self._book.save(msgspec.structs.replace(record, beside=attachment))

        return call(self._beside.attach, record.lease_id, part, record.holder, note, asked)

    def _undo(self, record: HolderRecord) -> None:
        """Undo what was begun; what cannot be undone now is left over."""
        failed = False
        for attachment in reversed(record.all):
            try:
                self._detach_one(record, attachment)
            except GPUPoolError as error:
                failed = True
                logger.error("A share of lease %s cannot be taken back: %s", record.lease_id, error)
        if failed:
            self.leftovers.append(msgspec.structs.replace(record, begun=True))
        else:
            self._book.remove(record.lease_id)

    # --- resize -------------------------------------------------------------------------------------

    def resize(self, record: HolderRecord, shares: list[ShareOrder]) -> HolderRecord:
        """Put other shares of the same devices in force.

        Raises
        ------
        BackendError
            If one cannot be put in force; the old ones hold then.
        NoSuchDevice
            If a share is of a device that the lease does not have.
        """
        wanted = {share.device_id: share for share in shares}
        if wanted.keys() != {attachment.share.device_id for attachment in record.attachments}:
            raise NoSuchDevice(f"Lease {record.lease_id} has no share of a device that the resize names.")
        done: list[Attachment] = []
        try:
            self._book.save(msgspec.structs.replace(record, resizing=True))
            for old in record.attachments:
                backend = self._inventory.backend(old.share.device_id)
                done.append(call(backend.resize, old, wanted[old.share.device_id]))
            beside = self._resize_beside(record, done)
            resized = msgspec.structs.replace(record, attachments=done, beside=beside, resizing=False)
            self._book.save(resized)
        except BaseException:
            self._put_back(record, done)
            raise
        return resized

    def _resize_beside(self, record: HolderRecord, attachments: list[Attachment]) -> Attachment | None:
        part = self._inventory.part([attachment.share for attachment in attachments])
        if self._beside is None or record.beside is None or part is None:
            return record.beside
        return call(self._beside.resize, record.beside, part)

    def _put_back(self, record: HolderRecord, done: list[Attachment]) -> None:
        """Put the old shares in force again where the new ones are already."""
        for index, new in enumerate(done):
            share = record.attachments[index].share
            try:
                record.attachments[index] = call(self._inventory.backend(share.device_id).resize, new, share)
            except BackendError as error:
                record.attachments[index] = new
                logger.error("A share of lease %s cannot be put back: %s", record.lease_id, error)
        try:
            record.resizing = False
            self._book.save(record)
        except OSError as error:
            logger.error("The record of lease %s cannot be written: %s", record.lease_id, error)

    def assure(self, record: HolderRecord) -> HolderRecord:
        """Put in force what a record says, if an agent ended while it was changing it."""
        if not record.resizing:
            return record
        return self.resize(record, [attachment.share for attachment in record.attachments])

    # --- watch --------------------------------------------------------------------------------------

    def watch(self, record: HolderRecord) -> Look:
        """Look at the holder's process tree; new children come under the limits."""
        before = [(bytes(each.undo), [*each.isolation], [*each.notices]) for each in record.all]
        demands: list[tuple[Demand, str]] = []
        try:
            samples = [self._watch_one(attachment, demands) for attachment in record.attachments]
            if self._beside is not None and record.beside is not None:
                samples.append(call(self._beside.watch, record.beside))
        finally:
            after = [(bytes(each.undo), [*each.isolation], [*each.notices]) for each in record.all]
            if before != after:
                self._book.save(record)
        changed = [each[1:] for each in before] != [each[1:] for each in after]
        # ending is more than interrupting
        demand, reason = next(iter(sorted(demands, key=lambda each: each[0] is not Demand.END)), (None, ""))
        return Look(sample=_together(samples), changed=changed, demand=demand, reason=reason)

    def _watch_one(self, attachment: Attachment, demands: list[tuple[Demand, str]]) -> LeaseSample:
        backend = self._inventory.backend(attachment.share.device_id)
        sample = call(backend.watch, attachment)
        demand = call(backend.demand, attachment)
        if demand is not None:
            used = sample.memory_used_bytes
            uses = "" if used is None else f" ({format_memory(used)})"
            share = format_memory(attachment.share.memory_bytes)
            device = self._inventory.name(attachment.share.device_id)
            demands.append((demand, f"it went on using more{uses} than its {share} of {device}"))
        return sample

    def show(self, records: list[HolderRecord]) -> None:
        """Let the backends know of holders that were taken over, before anything is done to one of them."""
        self._inventory.sample(attachment for record in records for attachment in record.attachments)
        for record in records:
            if self._beside is not None and record.beside is not None:
                call(self._beside.show, record.beside)

    def quiesce(self, record: HolderRecord, pid: int = 0) -> None:
        """Make it safe to signal the holder's processes; bounded in time by the backends.

        Parameters
        ----------
        record : HolderRecord
            The holder.
        pid : int
            Only this one of its processes, and the children of that; 0 for all.

        Raises
        ------
        GPUPoolError
            If a backend cannot.
        """
        for attachment in record.attachments:
            call(self._inventory.backend(attachment.share.device_id).quiesce, attachment, pid)

    # --- detach -------------------------------------------------------------------------------------

    def detach(self, record: HolderRecord) -> None:
        """Restore what was there before, on every process that still lives, and remove the record.

        Raises
        ------
        BackendError
            If something could not be restored; the record stays, so that it can be tried again.
        """
        for attachment in reversed(record.all):
            self._detach_one(record, attachment)
        self._book.remove(record.lease_id)

    def _detach_one(self, record: HolderRecord, attachment: Attachment) -> None:
        if attachment is not record.beside:
            call(self._inventory.backend(attachment.share.device_id).detach, attachment)
        elif self._beside is not None:
            call(self._beside.detach, attachment)

    def forget(self, record: HolderRecord) -> None:
        """Remove a record whose devices this node does not have any more; the node itself it still has."""
        if record.beside is not None:
            self._detach_one(record, record.beside)
        self._book.remove(record.lease_id)


def _together(samples: list[LeaseSample]) -> LeaseSample:
    """Put the samples of all shares, and of what is beside them, together: what is known is summed."""
    if len(samples) == 1:
        return samples[0]
    return LeaseSample(
        lease_id=samples[0].lease_id,
        memory_used_bytes=_sum([sample.memory_used_bytes for sample in samples]),
        processes=max((it.processes for it in samples if it.processes is not None), default=None),
        host_memory_bytes=_sum([sample.host_memory_bytes for sample in samples]),
        utilization_percent=_sum([sample.utilization_percent for sample in samples]),
        notices=list(dict.fromkeys(notice for sample in samples for notice in sample.notices)),
    )


def _sum(values: Sequence[T | None]) -> T | None:
    """Add up what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
