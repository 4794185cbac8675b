"""What was limited beside a share, and how to undo it: the companion's part of an attachment.

Rule of this module: everything that a later agent needs is here, in JSON.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.backends.base import Attachment, read_undo
from jupyter_gpupool.backends.bounds import Bounds
from jupyter_gpupool.backends.host.plan import CUDA_ROOM_BYTES, Asked, Wanted
from jupyter_gpupool.backends.undo import Undo
from jupyter_gpupool.core.leases import Resource


class HostRecord(msgspec.Struct, kw_only=True):
    """What is in force on one holder."""

    cores_milli: int
    memory_bytes: int | None
    processes: int | None
    #: Why a resource is not limited, by its name.
    reasons: dict[Resource, str] = {}
    #: Changes on processes and control groups of ours; None where a scope limits.
    undo: Undo | None = None
    #: Name of the scope that systemd made; empty where we limit.
    scope: str = ""
    #: True while a share of the CPU limits the same process.
    yielding: bool = False
    #: What was asked for, and is counted by the pool: thousandths of a core, and bytes; 0 where nothing was.
    asked_cpu_milli: int = 0
    asked_bytes: int = 0

    @property
    def asked(self) -> Asked:
        """What was asked for."""
        return Asked(cpu_milli=self.asked_cpu_milli, memory_bytes=self.asked_bytes)

    def go_on_from(self, old: HostRecord) -> None:
        """Take over what is in force; where the holder uses more than its new part, the old limit stays."""
        self.undo, self.scope, self.yielding = old.undo, old.scope, old.yielding
        if self.undo is None and not self.scope:
            self.reasons = old.reasons
        if self.memory_bytes is None and old.memory_bytes is not None:
            self.memory_bytes = old.memory_bytes
            self.reasons.pop(Resource.HOST_MEMORY, None)
        if self.processes is None and old.processes is not None:
            self.processes = old.processes
            self.reasons.pop(Resource.PROCESSES, None)

    @property
    def wanted(self) -> Wanted:
        """How much the holder gets."""
        return Wanted(
            cores_milli=self.cores_milli,
            memory_bytes=self.memory_bytes,
            processes=self.processes,
            reasons=self.reasons,
        )

    @property
    def bounds(self) -> Bounds:
        """The same for limits of ours."""
        return Bounds(
            cores_milli=self.cores_milli,
            memory_bytes=self.memory_bytes,
            room_bytes=CUDA_ROOM_BYTES,
            processes=self.processes,
        )


def new_record(wanted: Wanted, asked: Asked) -> HostRecord:
    """Begin a record."""
    return HostRecord(
        cores_milli=wanted.cores_milli,
        memory_bytes=wanted.memory_bytes,
        processes=wanted.processes,
        reasons=wanted.reasons,
        asked_cpu_milli=asked.cpu_milli,
        asked_bytes=asked.memory_bytes,
    )


_decoder = msgspec.json.Decoder(HostRecord)


def load(attachment: Attachment) -> HostRecord:
    """Read the record of an attachment.

    Raises
    ------
    BackendError
        If it was not written here.
    """
    return read_undo(
        attachment, _decoder, f"The record of the limits beside {attachment.lease_id} cannot be read"
    )


def dump(record: HostRecord) -> msgspec.Raw:
    """Write a record."""
    return msgspec.Raw(msgspec.json.encode(record))
