"""Every backend under the same contract: who they are, and how a test uses one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import Attachment, Backend, ProcessMark
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.emulated import EmulatedBackend
from jupyter_gpupool.backends.registry import make_nvidia
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung
from jupyter_gpupool.protocol.codec import decode, encode
from jupyter_gpupool.protocol.messages import ShareOrder
from tests.support.compiled import compiled
from tests.support.fake_gpus import SOURCES
from tests.support.obedient import MIB


def nvml_library() -> str:
    """Return the path of the fake driver's library."""
    return str(compiled("libnvidia-ml.so.1", sorted(SOURCES.iterdir())))


#: How each backend is made; a second call makes that of the next agent.
MAKERS: dict[str, Callable[[], Backend]] = {
    "cpu, affinity": lambda: CPUBackend(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT),
    "cpu, control group": lambda: CPUBackend(compute=ComputeRung.CGROUP, memory=MemoryRung.RLIMIT),
    "cpu, strongest": CPUBackend,
    "emulated": lambda: EmulatedBackend("2xA100-80GB,1xT4-16GB"),
    "nvidia": lambda: make_nvidia(NodeRules(), library=nvml_library()),
}
CPU_MAKERS = [name for name in MAKERS if name.startswith("cpu")]
#: Where version 1 keeps its cpu controller; elsewhere the control group rung cannot be tried.
V1_CPU = Path("/sys/fs/cgroup/cpu")


@dataclass
class World:
    """A backend, and what a test does with it."""

    name: str
    backend: Backend
    #: Backends of earlier agents.
    earlier: list[Backend] = field(default_factory=list)

    @property
    def device_id(self) -> str:
        """The first device."""
        return self.backend.discover()[0].id

    def share(self, milli: int = 250, mib: int = 300) -> ShareOrder:
        """Make a share of the first device."""
        return ShareOrder(device_id=self.device_id, compute_milli=milli, memory_bytes=mib * MIB)

    def attach(self, mark: ProcessMark, milli: int = 250, mib: int = 300) -> Attachment:
        """Attach a process under a lease of its own."""
        return self.backend.attach(f"lease_{uuid.uuid4().hex}", self.share(milli, mib), mark)

    def next_agent(self) -> World:
        """Make the backend of an agent that knows nothing but records."""
        return World(self.name, MAKERS[self.name](), self.earlier)

    def __post_init__(self) -> None:
        """Note the backend, so that all are closed in the end."""
        self.earlier.append(self.backend)

    def close(self) -> None:
        """Close the backends of all agents."""
        for backend in self.earlier:
            backend.close()


def recorded(attachment: Attachment) -> Attachment:
    """Send an attachment through its JSON record."""
    return decode(encode(attachment), Attachment)


def make_world(name: str) -> World:
    """Make a backend, or skip where this machine cannot have it."""
    if name == "cpu, control group" and not (V1_CPU / "cpu.cfs_quota_us").is_file():
        pytest.skip("no version 1 cpu control group here")
    return World(name, MAKERS[name]())
