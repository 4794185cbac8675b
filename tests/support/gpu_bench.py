"""The backend of GPUs on a fake driver, in the test's own process, with holders that are real processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import Attachment, ProcessMark
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.nvidia.backend import NvidiaBackend
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.rungs.base import Rung
from jupyter_gpupool.backends.nvidia.rungs.driver import DriverRung
from jupyter_gpupool.backends.nvidia.rungs.framework import FrameworkRung
from jupyter_gpupool.backends.nvidia.rungs.mig import MIGRung, WholeRung
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import LeaseSample, ShareOrder
from tests.support.fake_cuda import CUDAHolder, cuda_environment
from tests.support.fake_gpus import FakeGPUs

GIB = 2**30
LEASE = "lease_0192f0c1"


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class GPUBench:
    """One backend, on fake GPUs.

    Parameters
    ----------
    gpus : FakeGPUs
        The machine's.
    rules : NodeRules
        What its administrator decided.
    root : Path or None
        What takes the place of "/" for control groups; None for a machine without them.
    more : sequence of Rung
        Further rungs.
    """

    def __init__(
        self,
        gpus: FakeGPUs,
        rules: NodeRules | None = None,
        *,
        root: Path | None = None,
        more: Sequence[Rung] = (),
    ) -> None:
        self.gpus = gpus
        self.clock = Clock()
        rules = rules or NodeRules()
        self.nvml = NVML(str(gpus.library))
        self.sampler = DeviceSampler(self.nvml, Discovery(self.nvml))
        self.presence = Presence(self.nvml, self.sampler, ProcFS(), self.clock)
        groups = ControlGroups(root or Path("/nowhere"))
        rungs: list[Rung] = [
            MIGRung(self.presence),
            WholeRung(self.presence),
            DriverRung(self.nvml, self.presence, groups, agent_uid=0),
            *more,
            FrameworkRung(self.presence, rules),
        ]
        self.backend = NvidiaBackend(self.nvml, self.sampler, self.presence, rungs, rules, clock=self.clock)
        self.backend.discover()

    def holder(self) -> CUDAHolder:
        """Start a process that can use the GPUs."""
        return CUDAHolder(cuda_environment(self.gpus.state, os.environ))

    def attach(
        self,
        holder: CUDAHolder,
        milli: int = 250,
        memory: int = 20 * GIB,
        device: str = "",
        lease: str = LEASE,
    ) -> Attachment:
        """Put a holder under a share."""
        order = share(device or self.gpus.uuid(0), milli, memory)
        return self.backend.attach(lease, order, mark(holder))

    def watch(self, attachment: Attachment, *, seconds: float = 1.0) -> LeaseSample:
        """Let time pass, take a sample, and look at a holder."""
        self.clock.now += seconds
        self.sampler.refresh()
        return self.backend.watch(attachment)

    def close(self) -> None:
        """Stop."""
        self.backend.close()


def share(device: str, milli: int = 250, memory: int = 20 * GIB) -> ShareOrder:
    """Return a share of a device."""
    return ShareOrder(device_id=device, compute_milli=milli, memory_bytes=memory)


def mark(holder: CUDAHolder) -> ProcessMark:
    """Return a process's name for life."""
    stat = ProcFS().stat(holder.pid)
    assert stat is not None
    return stat.mark


def told(docs: Sequence[IsolationDoc]) -> dict[str, tuple[str, str, str]]:
    """Return what is said of each resource: strength, mechanism, verified."""
    return {doc.resource.value: (doc.strength.value, doc.mechanism, doc.verified.value) for doc in docs}
