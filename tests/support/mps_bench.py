"""The MPS rung on a fake control program and fake GPUs, with holders that are real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.mps.survey import FRESH_SECONDS
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Site
from jupyter_gpupool.backends.nvidia.rungs.mps import MPSRung
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeClient, FakeMPS

GIB = 2**30
EMPTY = msgspec.Raw(b"{}")


class MPSBench:
    """One rung with its world; a context manager that leaves no process.

    Parameters
    ----------
    folder : Path
        Of the test.
    rules : NodeRules, optional
        What an administrator decided; the control program is filled in.
    call_seconds, start_seconds : float
        How long one call of the control program may take, and a daemon until it listens.
    """

    def __init__(
        self,
        folder: Path,
        rules: NodeRules | None = None,
        *,
        call_seconds: float = 5.0,
        start_seconds: float = 10.0,
    ) -> None:
        self.folder = folder
        self.mps = FakeMPS(folder / "mps")
        self.gpus = FakeGPUs(folder / "gpus").a100(2)
        self.rules = rules or NodeRules()
        self.environment: dict[str, str] = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "nobody")}
        self.call_seconds = call_seconds
        self.start_seconds = start_seconds
        self.late = 0.0
        self.runtime = folder / "run"
        self.rung = self.agent()

    def __enter__(self) -> MPSBench:
        self.gpus.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.mps.end()
        for place in self.seen_places:
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.parent.rmdir()
        self.gpus.__exit__(kind, error, trace)

    def agent(self) -> MPSRung:
        """Return the rung of another agent in the same runtime directory."""
        control = MPSControl(
            str(self.mps.program), call_seconds=self.call_seconds, start_seconds=self.start_seconds
        )
        nvml = NVML(str(self.gpus.library))
        return MPSRung(
            control, self.runtime, self.rules, nvml, environment=self.environment, clock=self._clock
        )

    def _clock(self) -> float:
        return time.monotonic() + self.late

    def gpu(self, **changes: object) -> GPU:
        """Return the first GPU, otherwise than it is if so wanted."""
        found = Discovery(NVML(str(self.gpus.library))).look()[0]
        return dataclasses.replace(found, **changes)  # type: ignore[arg-type]

    def site(
        self,
        holder: FakeClient,
        *,
        lease: str = "lease_a",
        milli: int = 250,
        memory: int = 20 * GIB,
        started: bool = False,
        gpu: GPU | None = None,
        pid: int = 0,
    ) -> Site:
        """Return where the rung is put; ``pid`` where it is the holder's child that has the lease."""
        gpu = gpu or self.gpu()
        return Site(
            lease_id=lease,
            gpu=gpu,
            share=ShareOrder(device_id=gpu.uuid, compute_milli=milli, memory_bytes=memory),
            holder=holder.mark(pid),
            uid=holder.uid,
            cuda_started=started,
        )

    def start_cuda(self, holder: FakeClient, put: Put, pid: int = 0) -> None:
        """Let CUDA start in a holder, or its child ``pid``, with the environment that it got; be served."""
        pipes = self.pipes(put)
        holder.connect(pipes, self.gpu().uuid)
        line = f"accepted {pid or holder.pid}\n"
        self.until(lambda: line in (pipes / "fake-daemon").read_text(), line)

    def pipes(self, put: Put) -> Path:
        """Return the pipe directory that a holder was given."""
        return Path(put.environment["CUDA_MPS_PIPE_DIRECTORY"])

    def look(self, site: Site, put: Put) -> dict[Resource, IsolationDoc]:
        """Look at what is in force, as much later as it takes to look anew."""
        self.late += FRESH_SECONDS
        return {doc.resource: doc for doc in self.rung.look(site, put.record)}

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            time.sleep(0.01)

    def left(self) -> list[str]:
        """List what is there of MPS: processes, and files and directories of ours."""
        found = [f"process {pid}" for pid in self.mps.processes()]
        found += [str(path) for path in self.runtime.rglob("*")]
        for record in self.seen_places:
            found += [str(record)] if record.exists() else []
        return found

    @property
    def seen_places(self) -> set[Path]:
        """Return every pipe directory that a daemon was started in."""
        log = self.mps.directory / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return {Path(line.split()[0]).parent for line in lines if line.split()[1] == "-d"}
