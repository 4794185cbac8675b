"""One GPU, shared in one way, and the holders that are put on it.

Rule of this module: it makes and looks; what is claimed is said elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jupyter_gpupool.backends.hand import script
from jupyter_gpupool.backends.nvidia import probe
from jupyter_gpupool.backends.nvidia.backend import NvidiaBackend
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.probe_kernels import PTX
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import Resource, Strength
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder
from jupyter_gpupool.selftest.holders import Holder

_Answer = TypeVar("_Answer")

#: Memory of a share of less than the whole device, at most, bytes: a limit holds at 8 GiB as it does at 80.
_MOST_BYTES = 8 << 30
#: The PID namespace of the host has this name on every Linux.
_HOST_NAMESPACE = "pid:[4026531836]"
#: For how long a change may take to be seen, seconds.
_SEE_SECONDS = 15.0


class Stage:
    """A device on which holders are put.

    Parameters
    ----------
    backend : NvidiaBackend
        Attaches the holders.
    device : DeviceReport
        The device, as it is shared.
    at_first_bytes : int
        How much of its memory was in use before anything was tried.
    """

    def __init__(self, backend: NvidiaBackend, device: DeviceReport, at_first_bytes: int) -> None:
        self.backend, self.device, self.at_first_bytes = backend, device, at_first_bytes
        self.gpu: GPU = backend.gpu(device.id)
        #: Of the holders that stand for all others, thousandths.
        self.milli = WHOLE_MILLI if device.whole_only else WHOLE_MILLI // 2

    @property
    def capped(self) -> bool:
        """True when a share limits compute here."""
        compute = [doc for doc in self.device.isolation if doc.resource is Resource.COMPUTE]
        return any(doc.strength is not Strength.NONE for doc in compute)

    def share(self, milli: int) -> ShareOrder:
        """Return a share: all memory with all compute, else its part of the memory, but not much."""
        memory = self.device.memory_bytes * milli // WHOLE_MILLI
        if milli < WHOLE_MILLI:
            memory = min(memory, _MOST_BYTES)
        return ShareOrder(device_id=self.device.id, compute_milli=milli, memory_bytes=memory)

    def holder(self, milli: int) -> Holder:
        """Return a holder that has not touched CUDA yet."""
        return Holder(self.backend, self.share(milli), *script(probe.__file__, "probe_child.py"))

    def enter(self, holder: Holder) -> str:
        """Have a holder make a CUDA context; return CUDA's error, "" for none."""
        return probe.enter_cuda(holder.hand, self.gpu, holder.attachment.environment)

    def ready(self, holder: Holder) -> None:
        """Have a holder make a context and load its kernels.

        Raises
        ------
        GPUPoolError
            If CUDA does not start in it.
        """
        error = self.enter(holder) or holder.ask("load", ptx=PTX.decode())["error"]
        if error:
            raise GPUPoolError(f"CUDA does not start in a holder: {error}.")

    def used(self) -> int:
        """Return how much of the device's memory is in use now, bytes."""
        return used_bytes(self.backend, self.device)


def used_bytes(backend: NvidiaBackend, device: DeviceReport) -> int:
    """Return how much of a device's memory is in use now, bytes.

    Raises
    ------
    GPUPoolError
        If it does not say.
    """
    samples = [each for each in backend.sample([]) if each.device_id == device.id]
    used = samples[0].readings.memory_used_bytes if samples else None
    if used is None:
        raise GPUPoolError(f"{device.name} does not say how much of its memory is in use.")
    return used


def hidden_processes() -> str:
    """Say why the driver's lists of processes mean nothing here, one clause; empty when they do."""
    try:
        own = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        own = ""
    if own == _HOST_NAMESPACE:
        return ""
    return (
        "the driver names processes as the host does, and this container has numbers of its own, so it cannot"
        " be seen which process is whose: start the container with --pid=host"
    )


def doc_of(holder: Holder, resource: Resource) -> IsolationDoc:
    """Return what is in force for one resource of a holder."""
    return next(doc for doc in holder.attachment.isolation if doc.resource is resource)


def until(look: Callable[[], _Answer]) -> _Answer:
    """Look until the answer is true, or the time is over; return the last answer."""
    end = time.monotonic() + _SEE_SECONDS
    while not (answer := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer
