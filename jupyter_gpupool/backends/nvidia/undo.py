"""What was done for a lease on a GPU: the backend's part of an attachment.

Rule of this module: everything that a later agent needs to watch, resize and undo an attachment is here, in
JSON; of each rung its own record, in the order in which they were put.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.backends.base import Attachment, ProcessMark, read_undo
from jupyter_gpupool.backends.nvidia.ladder import Mode, Plan
from jupyter_gpupool.backends.nvidia.rungs.base import RungName


class NvidiaUndo(msgspec.Struct, kw_only=True):
    """All that was done for one lease."""

    mode: Mode
    memory: RungName | None
    compute: RungName | None
    beside: list[RungName] = []
    because: list[str] = []
    because_memory: list[str] = []
    #: The record of each rung, in the order in which they were put.
    rungs: dict[RungName, msgspec.Raw] = {}
    #: The holder's user.
    uid: int
    #: The process that had started CUDA before the lease; 0 for none.
    started_pid: int = 0
    #: Processes of the holder that were seen on the device: they stay its when their parents die.
    known: list[ProcessMark] = []

    @property
    def plan(self) -> Plan:
        """What was chosen."""
        return Plan(
            mode=self.mode,
            memory=self.memory,
            compute=self.compute,
            beside=tuple(self.beside),
            because=tuple(self.because),
            because_memory=tuple(self.because_memory),
        )

    def follow(self, plan: Plan) -> None:
        """Take over another choice."""
        self.mode, self.memory, self.compute = plan.mode, plan.memory, plan.compute
        self.beside, self.because = list(plan.beside), list(plan.because)
        self.because_memory = list(plan.because_memory)


def begin(plan: Plan, uid: int, started_pid: int) -> NvidiaUndo:
    """Return the record of a lease for which nothing was done yet."""
    undo = NvidiaUndo(
        mode=plan.mode, memory=plan.memory, compute=plan.compute, uid=uid, started_pid=started_pid
    )
    undo.follow(plan)
    return undo


_decoder = msgspec.json.Decoder(NvidiaUndo)


def load_undo(attachment: Attachment) -> NvidiaUndo:
    """Read the record of an attachment.

    Raises
    ------
    BackendError
        If it was not written by this backend.
    """
    return read_undo(
        attachment, _decoder, f"The record of {attachment.lease_id} is not one of the NVIDIA backend"
    )


def dump_undo(undo: NvidiaUndo) -> msgspec.Raw:
    """Write the record."""
    return msgspec.Raw(msgspec.json.encode(undo))
