"""Where a holder's processes are: in its tree, and on which devices.

Rules of this module: the pool's own processes and those of other holders never count to a holder; a process
that the driver names by a pid of another namespace belongs to nobody that we know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from jupyter_gpupool.backends._nvml import NVML, Reading
from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.processes import GPUProcess, device_processes
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.processtree import ProcessTable, ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS

#: For how long one look at all processes serves the watches of all leases, seconds.
_TABLE_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """What a process tree does on the devices of a node.

    Attributes
    ----------
    here : tuple of GPUProcess
        Its processes on the lease's device.
    elsewhere : dict of str to list of int
        Its processes on other devices, by the device's name.
    unknown : str
        Why the driver does not say who is on the lease's device; empty when it does.
    """

    here: tuple[GPUProcess, ...]
    elsewhere: dict[str, list[int]]
    unknown: str = ""

    @property
    def memory_bytes(self) -> int | None:
        """All that its processes use on the lease's device, bytes; None where the driver does not say."""
        if self.unknown or any(process.memory_bytes is None for process in self.here):
            return None
        return sum(process.memory_bytes or 0 for process in self.here)


class Presence:
    """Finds holders' processes on devices.

    Parameters
    ----------
    nvml : NVML
        The door.
    sampler : DeviceSampler
        Has the latest look at all devices.
    procfs : ProcFS
        Where processes are looked at.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        nvml: NVML,
        sampler: DeviceSampler,
        procfs: ProcFS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nvml = nvml
        self._sampler = sampler
        self._procfs = procfs
        self._watch = ProcessWatch(procfs, clock)
        #: Holder and devices of each lease.
        self._leases: dict[str, tuple[ProcessMark, set[str]]] = {}

    def note(self, lease_id: str, holder: ProcessMark, device_id: str) -> None:
        """Remember who holds what, for the sake of the others."""
        known, devices = self._leases.get(lease_id, (holder, set()))
        self._leases[lease_id] = (holder, {*devices, device_id} if known == holder else {device_id})

    def forget(self, lease_id: str) -> None:
        """Forget a lease."""
        self._leases.pop(lease_id, None)

    def is_leased(self, device_id: str) -> bool:
        """Say whether somebody holds something of a device."""
        return any(device_id in devices for _, devices in list(self._leases.values()))

    def table(self, holder: ProcessMark, *, fresh: bool = False) -> ProcessTable:
        """Look at all processes."""
        return self._watch.look(holder, within_seconds=0.0 if fresh else _TABLE_SECONDS)

    def tree(
        self,
        lease_id: str,
        holder: ProcessMark,
        known: Iterable[ProcessMark] = (),
        *,
        fresh: bool = False,
    ) -> list[ProcessMark]:
        """List the living processes of a holder, parents before children."""
        others = {mark.pid for other, (mark, _) in list(self._leases.items()) if other != lease_id}
        tree = self.table(holder, fresh=fresh).tree(holder, known, others)
        return [mark for mark in tree if self._procfs.alive(mark)]  # the table may be a moment old

    def use(self, lease_id: str, gpu: GPU, tree: Sequence[ProcessMark], *, live: bool = False) -> Use:
        """Find the processes of a tree on the devices.

        Parameters
        ----------
        lease_id : str
            Its lease.
        gpu : GPU
            The lease's device.
        tree : sequence of ProcessMark
            The processes.
        live : bool
            True to ask the driver now, False to take the latest sample.
        """
        pids = {mark.pid for mark in tree}
        own = self._leases.get(lease_id, (None, set()))[1]
        elsewhere: dict[str, list[int]] = {}
        here: Reading[list[GPUProcess]] = Reading(None, "the device is not there")
        for other in self._sampler.latest().gpus:
            if other.mig_enabled:  # it lists what its instances list
                continue
            found = self.on_device(other, live=live)
            if other.uuid == gpu.uuid:
                here = found
            elif other.uuid not in own:
                ours = sorted(process.pid for process in found.value or () if _is_in(process, pids))
                if ours:
                    elsewhere[other.name] = ours
        return Use(
            here=tuple(process for process in here.value or () if _is_in(process, pids)),
            elsewhere=elsewhere,
            unknown=here.reason if here.value is None else "",
        )

    def on_device(self, gpu: GPU, *, live: bool = False) -> Reading[list[GPUProcess]]:
        """List all processes on a device."""
        if live:
            return device_processes(self._nvml, gpu)
        sample = self._sampler.latest().by_uuid.get(gpu.uuid)
        return Reading(None, "not sampled yet") if sample is None else sample.processes


def _is_in(process: GPUProcess, pids: set[int]) -> bool:
    return process.visible and process.pid in pids
