"""What was there before: the CPU backend's part of an attachment.

Rule of this module: everything that a later agent needs to watch, resize and undo an attachment is here, in
JSON; nothing of it lives in the backend only.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from jupyter_gpupool.backends.base import Attachment, ProcessMark, read_undo


class ComputeRung(Enum):
    """By which mechanism compute is limited; AUTO takes the strongest that works."""

    #: The strongest that works here.
    AUTO = "auto"
    #: A control group's cpu quota.
    CGROUP = "cgroup"
    #: The cores that threads may run on.
    AFFINITY = "affinity"


class MemoryRung(Enum):
    """By which mechanism memory is limited; AUTO takes the strongest that works."""

    #: The strongest that works here.
    AUTO = "auto"
    #: A control group's memory limit (version 2 only).
    CGROUP = "cgroup"
    #: The soft RLIMIT_DATA of each process, and a watch on the sum.
    RLIMIT = "rlimit"


class ThreadRecord(msgspec.Struct, kw_only=True):
    """A thread whose cores differed from its process's."""

    tid: int
    start_ticks: int
    #: Its cores, as in "0-3,7".
    cpus: str


class ProcessRecord(msgspec.Struct, kw_only=True):
    """One process of the tree, and how it was before."""

    pid: int
    start_ticks: int
    #: Soft RLIMIT_DATA, bytes; -1 for unlimited.
    data_soft: int
    #: Cores of its main thread, and of threads that are born later.
    cpus: str
    threads: list[ThreadRecord] = []
    #: Where it was, by the path of our group that it was moved to.
    groups: dict[str, str] = {}

    @property
    def mark(self) -> ProcessMark:
        """Return the process's name for life."""
        return ProcessMark(pid=self.pid, start_ticks=self.start_ticks)


class GroupRecord(msgspec.Struct, kw_only=True):
    """A control group of ours."""

    #: Its directory.
    path: str
    #: 1 or 2.
    version: int
    cpu: bool
    memory: bool
    #: Whether it limits how many processes and threads there are.
    processes: bool = False

    @property
    def controller(self) -> str:
        """Which version 1 hierarchy it belongs to; version 2 has only one."""
        return "cpu" if self.cpu or self.version == 2 else "pids"


class Undo(msgspec.Struct, kw_only=True):
    """All that was changed for one lease."""

    compute: ComputeRung
    memory: MemoryRung
    #: Cores that the tree may run on; empty unless ``compute`` is AFFINITY.
    cores: list[int] = []
    groups: list[GroupRecord] = []
    processes: list[ProcessRecord] = []

    def by_mark(self) -> dict[ProcessMark, ProcessRecord]:
        """Return the records by process."""
        return {record.mark: record for record in self.processes}


_decoder = msgspec.json.Decoder(Undo)


def load_undo(attachment: Attachment) -> Undo:
    """Read the record of an attachment.

    Raises
    ------
    BackendError
        If it was not written by this backend.
    """
    return read_undo(
        attachment, _decoder, f"The record of {attachment.lease_id} is not one of the CPU backend"
    )


def dump_undo(undo: Undo) -> msgspec.Raw:
    """Write the record."""
    return msgspec.Raw(msgspec.json.encode(undo))
