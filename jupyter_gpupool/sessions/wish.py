"""What each worker of a session cluster asks the pool for.

Rule of this module: what can be written is what `request` takes, and is refused in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.core.shares import format_compute, parse_cores, parse_memory, parse_shares
from jupyter_gpupool.core.wording import plural
from jupyter_gpupool.kernel.api import device_kind, priority_class
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseRequest
from jupyter_gpupool.sessions.errors import OtherWorkers
from jupyter_gpupool.sessions.home import Home


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerWish:
    """What each worker asks for; as `LeaseRequest` has it."""

    compute_milli: int
    count: int = 1
    memory_bytes: int | None = None
    kind: DeviceKind | None = None
    device: str = ""
    priority: Priority = Priority.NORMAL
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0
    model: str = ""

    @classmethod
    def read(
        cls,
        share: str | float,
        *,
        memory: str | int | None = None,
        kind: Any = None,
        device: str | None = None,
        cpus: str | float | None = None,
        host_memory: str | int | None = None,
        model: str | None = None,
        priority: Any = None,
    ) -> WorkerWish:
        """Read it as people write it."""
        shares = parse_shares(share)
        return cls(
            compute_milli=shares.compute_milli,
            count=shares.devices,
            memory_bytes=None if memory is None else parse_memory(memory),
            kind=device_kind(kind),
            device=device or "",
            priority=priority_class(priority),
            host_cpu_milli=0 if cpus is None else parse_cores(cpus),
            host_memory_bytes=0 if host_memory is None else parse_memory(host_memory),
            model=model or "",
        )

    @property
    def share(self) -> str:
        """What each worker asks for, in words: "0.25", "1 x2"."""
        return format_compute(self.compute_milli) + (f" x{self.count}" if self.count > 1 else "")

    def body(self, home: Home, worker: str) -> LeaseRequest:
        """Return the request of one worker."""
        return LeaseRequest(
            compute_milli=self.compute_milli,
            count=self.count,
            memory_bytes=self.memory_bytes,
            kind=self.kind,
            device=self.device,
            priority=self.priority,
            host_cpu_milli=self.host_cpu_milli,
            host_memory_bytes=self.host_memory_bytes,
            model=self.model,
            holder=HolderRequest(
                key=home.key, worker=worker, label=f"{home.label}: worker {worker}", hostname=home.hostname
            ),
        )

    def check_alone(self, workers: int, present: WorkerWish) -> None:
        """Refuse to take the place of another wish while there are workers of it."""
        if workers:
            have = f"{plural(workers, 'worker', 'workers')} with a share of {present.share} each"
            raise OtherWorkers(
                f"This cluster has {have}, and all of its workers are alike.",
                hint="Give them back first: `%gpupool scale 0`.",
            )
