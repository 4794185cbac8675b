"""The shares of one lease on one process, as one: all of them in force, or none.

Rule of this module: synchronous, called in the agent's one backend thread; what was begun and failed is
undone.
"""

from __future__ import annotations

import logging

import msgspec

from jupyter_gpupool.backends.base import Attachment, BackendError, ProcessMark
from jupyter_gpupool.cluster.calls import call
from jupyter_gpupool.cluster.holders import HolderBook, HolderRecord
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.core.errors import NoSuchDevice
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.messages import LeaseSample, PrepareOrder, ShareOrder

logger = logging.getLogger(__name__)


class Limits:
    """Puts leases in force on processes, and keeps their records.

    Parameters
    ----------
    inventory : Inventory
        Knows the backend of each device.
    book : HolderBook
        Where records are kept.
    """

    def __init__(self, inventory: Inventory, book: HolderBook) -> None:
        self._inventory = inventory
        self._book = book

    def attach(self, order: PrepareOrder, holder: ProcessMark) -> HolderRecord:
        """Put a process under all shares of a lease, and write its record.

        Raises
        ------
        BackendError
            If one share cannot be put in force; none is then.
        NoSuchDevice
            If a device is not of this node.
        """
        done: list[Attachment] = []
        try:
            for share in order.shares:
                backend = self._inventory.backend(share.device_id)
                done.append(call(backend.attach, order.lease_id, share, holder))
            record = HolderRecord(
                format=names.FORMAT,
                lease_id=order.lease_id,
                generation=order.generation,
                owner=order.owner,
                holder=holder,
                attachments=done,
            )
            self._book.save(record)
        except BaseException:
            self._detach(done)
            raise
        return record

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
            for old in record.attachments:
                backend = self._inventory.backend(old.share.device_id)
                done.append(call(backend.resize, old, wanted[old.share.device_id]))
            resized = msgspec.structs.replace(record, attachments=done)
            self._book.save(resized)
        except BaseException:
            self._put_back(record, done)
            raise
        return resized

    def watch(self, record: HolderRecord) -> LeaseSample:
        """Look at the holder's process tree; new children come under the limits."""
        undo = [bytes(attachment.undo) for attachment in record.attachments]
        try:
            samples = [
                call(self._inventory.backend(attachment.share.device_id).watch, attachment)
                for attachment in record.attachments
            ]
        finally:
            if undo != [bytes(attachment.undo) for attachment in record.attachments]:
                self._book.save(record)
        return samples[0]

    def detach(self, record: HolderRecord) -> None:
        """Restore what was there before, on every process that still lives, and remove the record.

        Raises
        ------
        BackendError
            If something could not be restored; the record stays, so that it can be tried again.
        """
        for attachment in record.attachments:
            call(self._inventory.backend(attachment.share.device_id).detach, attachment)
        self._book.remove(record.lease_id)

    def forget(self, record: HolderRecord) -> None:
        """Remove a record whose devices this node does not have any more."""
        self._book.remove(record.lease_id)

    def _detach(self, attachments: list[Attachment]) -> None:
        for attachment in reversed(attachments):
            try:
                call(self._inventory.backend(attachment.share.device_id).detach, attachment)
            except BackendError as error:
                logger.error("A share of lease %s cannot be taken back: %s", attachment.lease_id, error)

    def _put_back(self, record: HolderRecord, done: list[Attachment]) -> None:
        """Put the old shares in force again where the new ones are already."""
        for index, new in enumerate(done):
            share = record.attachments[index].share
            try:
                record.attachments[index] = call(self._inventory.backend(share.device_id).resize, new, share)
            except BackendError as error:
                record.attachments[index] = new
                logger.error("A share of lease %s cannot be put back: %s", record.lease_id, error)
        if done:
            try:
                self._book.save(record)
            except OSError as error:
                logger.error("The record of lease %s cannot be written: %s", record.lease_id, error)
