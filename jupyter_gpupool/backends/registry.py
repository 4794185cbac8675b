"""Which backends an agent runs.

Rules of this module: emulated devices take the place of real ones, so that nobody mistakes one for the other;
only who asks for both gets both. The backend of GPUs is always there: without a driver it lists none, and
nothing of it runs.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import Backend
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.emulated import EmulatedBackend
from jupyter_gpupool.backends.nvidia.backend import NvidiaBackend
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.rungs.base import Rung
from jupyter_gpupool.backends.nvidia.rungs.driver import DriverRung
from jupyter_gpupool.backends.nvidia.rungs.framework import FrameworkRung
from jupyter_gpupool.backends.nvidia.rungs.mig import MIGRung, WholeRung
from jupyter_gpupool.backends.nvidia.rungs.mps import MPSRung
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.protocol.paths import data_dir


def make_backends(
    emulate: str,
    emulate_beside: bool,
    rules: NodeRules | None = None,
    runtime: Path | None = None,
    node_name: str = "",
) -> list[Backend]:
    """Make the backends of one node.

    Parameters
    ----------
    emulate : str
        Devices to emulate ("8xA100-80GB,2xH100-80GB"); empty for none.
    emulate_beside : bool
        Whether real devices are offered beside the emulated ones.
    rules : NodeRules, optional
        What an administrator decided.
    runtime : Path, optional
        Private runtime directory, for the pipes of MPS; without it there is no MPS.
    node_name : str
        What tells this node's devices from those of others that have the same machine id.

    Raises
    ------
    InvalidValue
        If ``emulate`` cannot be read.
    """
    real: list[Backend] = []
    if emulate_beside or not emulate.strip():
        probes = ProbeBook(data_dir() / PROBES_FILE)
        gpus = make_nvidia(rules or NodeRules(), runtime, probes=probes)
        real = [gpus, CPUBackend(book=probes, node_name=node_name)]
    if not emulate.strip():
        return real
    prefix = "emulated" if real else "cuda"
    return [EmulatedBackend(emulate.strip(), prefix=prefix, node_name=node_name), *real]


def make_nvidia(
    rules: NodeRules, runtime: Path | None = None, *, library: str = "", probes: ProbeBook | None = None
) -> NvidiaBackend:
    """Put the backend of GPUs together.

    Parameters
    ----------
    rules : NodeRules
        What an administrator decided.
    runtime : Path, optional
        Private runtime directory; without it there is no MPS.
    library : str
        A library in place of the driver's NVML.
    probes : ProbeBook, optional
        What exceeding limits has shown on this machine.
    """
    nvml, procfs = NVML(library), ProcFS()
    health = HealthRules(ignored_xids=rules.ignored_xids, quiet_seconds=rules.xid_quiet_seconds)
    sampler = DeviceSampler(nvml, Discovery(nvml), seconds=rules.sample_seconds, health=health)
    presence = Presence(nvml, sampler, procfs)
    rungs: list[Rung] = [MIGRung(presence), WholeRung(presence), DriverRung(nvml, presence)]
    if runtime is not None:
        rungs.append(MPSRung(MPSControl(rules.mps_control), runtime, rules, nvml, procfs=procfs))
    rungs.append(FrameworkRung(presence, rules))
    return NvidiaBackend(
        *(nvml, sampler, presence, rungs, rules), probes=probes, probe_folder=runtime, procfs=procfs
    )
