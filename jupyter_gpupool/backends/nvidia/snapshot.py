"""What one round of the sampler has found.

Rule of this module: frozen; a reading that is not there is None, and its reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jupyter_gpupool.backends._nvml import Reading
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.processes import GPUProcess
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.protocol.documents import ReadingsDoc


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUSnapshot:
    """One GPU or MIG instance.

    Attributes
    ----------
    readings : ReadingsDoc
        What every client sees.
    metrics : mapping of str to float
        All other readings, by the names of the catalogue.
    missing : mapping of str to str
        Why readings are not there, by their names.
    processes : Reading
        The processes that use it.
    per_process_utilization : mapping of int to float
        How busy each process keeps the multiprocessors, percent by pid; empty where NVML does not say.
    health : Health
        What its indicators say.
    health_reason : str
        What is wrong and what helps; empty when it is healthy.
    """

    readings: ReadingsDoc
    metrics: Mapping[str, float]
    missing: Mapping[str, str]
    processes: Reading[list[GPUProcess]]
    per_process_utilization: Mapping[int, float] = field(default_factory=dict)
    health: Health = Health.HEALTHY
    health_reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All GPUs of a node at one time.

    Attributes
    ----------
    taken_seconds : float
        When, on the sampler's clock.
    gpus : tuple of GPU
        GPUs (also those in MIG mode, and those that do not answer any more) and MIG instances.
    problem : str
        Why there is none, or why this is old: one sentence; empty when all is well.
    by_uuid : mapping of str to GPUSnapshot
        One for each of ``gpus``.
    """

    taken_seconds: float
    gpus: tuple[GPU, ...] = ()
    problem: str = ""
    by_uuid: Mapping[str, GPUSnapshot] = field(default_factory=dict)

    def stalled(self, seconds: float) -> Snapshot:
        """Return the same, as known while the driver does not answer; healthy devices count as degraded."""
        problem = f"The NVIDIA driver has not answered for {seconds:.0f} s: the readings are from before."
        reason = "The NVIDIA driver does not answer: if this lasts, reboot the node."
        devices = {
            uuid: replace(one, health=Health.DEGRADED, health_reason=reason)
            if one.health is Health.HEALTHY
            else one
            for uuid, one in self.by_uuid.items()
        }
        return replace(self, problem=problem, by_uuid=devices)
