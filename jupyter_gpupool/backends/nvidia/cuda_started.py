"""Whether a process has started CUDA: then no variable reaches it any more, and it keeps its devices.

Rules of this module: found from outside, without importing anything and without a word from the process; what
cannot be done is said in one sentence, with what works instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.base import BackendError, ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Use

#: The file that CUDA keeps open in every process that has started it.
_UVM = "/nvidia-uvm"


class OtherDevice(BackendError):
    """Raised when a process computes on another device than its lease's. Restart it, or ask for that one."""

    code = "other_device"


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """What was found of a holder.

    Attributes
    ----------
    pid : int
        The first of its processes that has started CUDA; 0 when none has.
    here : bool
        True when the driver lists it on the lease's device.
    """

    pid: int = 0
    here: bool = False

    def __bool__(self) -> bool:
        return self.pid > 0

    def notice(self, gpu: GPU, *, mps: bool) -> str:
        """Say what cannot be applied any more, and what works.

        Parameters
        ----------
        gpu : GPU
            The lease's device.
        mps : bool
            True where it would have got MPS limits.
        """
        limits = "the limits of MPS cannot reach it" if mps else "its environment cannot be changed"
        here = "" if self.here else f"; it must use {gpu.name} itself ({gpu.uuid})"
        return (
            f"CUDA was started in process {self.pid} before the lease, so {limits}{here}. Caps of frameworks"
            " apply and its use is watched; restart the kernel and request again to have all limits."
        )


def look(
    holder: ProcessMark, tree: Sequence[ProcessMark], gpu: GPU, use: Use, proc: str = "/proc"
) -> Started:
    """Look at a holder before it is attached.

    Raises
    ------
    OtherDevice
        If its CUDA runs on another device, and not on this one.
    """
    here = [process.pid for process in use.here]
    if use.elsewhere and not here:
        where, pids = next(iter(use.elsewhere.items()))
        raise OtherDevice(
            f"Process {pids[0]} computes on {where}, and the lease is on {gpu.name}: CUDA keeps the device"
            " that it started with.",
            hint=f"Restart the kernel, or request --device {where}.",
        )
    if here:
        return Started(pid=holder.pid if holder.pid in here else here[0], here=True)
    return Started(pid=next((mark.pid for mark in tree if has_started(mark.pid, proc)), 0))


def has_started(pid: int, proc: str = "/proc") -> bool:
    """Say whether a process holds CUDA's memory file open; False where it cannot be looked at."""
    try:
        links = list((Path(proc) / str(pid) / "fd").iterdir())
    except OSError:
        return False
    return any(_target(link).endswith(_UVM) for link in links)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile
        return ""
