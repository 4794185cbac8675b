"""The claims about GPUs: which mechanisms are possible, and the claims for each way of sharing a device.

Rules of this module: a device that somebody uses, or that a pool has, is left alone and said so; what is
tried is what a lease gets, through the backend that agents run.
"""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

from jupyter_gpupool.backends.nvidia.backend import NvidiaBackend
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import TITLES
from jupyter_gpupool.backends.nvidia.probe import EXCEEDABLE, CannotTell, probe_rung
from jupyter_gpupool.backends.nvidia.rungs.base import Rung
from jupyter_gpupool.backends.nvidia.unmanaged import SPARED
from jupyter_gpupool.backends.probebook import ProbeBook
from jupyter_gpupool.backends.registry import make_nvidia
from jupyter_gpupool.backends.rules import NodeRules, Sharing, SharingRule
from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.messages import DeviceReport
from jupyter_gpupool.selftest.claims import RungDoc
from jupyter_gpupool.selftest.gpu_claims import GPUClaims
from jupyter_gpupool.selftest.gpu_one import TorchHere
from jupyter_gpupool.selftest.record import Record
from jupyter_gpupool.selftest.stage import Stage, used_bytes

ALL = "its limits are put on and exceeded"
#: Pause between two looks at the devices, seconds.
_SAMPLE_SECONDS = 0.25
#: How a device that is shared so by itself can be shared besides.
_OTHER_WAYS = {"mps": Sharing.TIMESLICE}


class GPUTest:
    """Everything that is claimed about the GPUs of this machine.

    Parameters
    ----------
    record : Record
        Where claims are written down.
    runtime : Path
        A private directory for what the mechanisms need.
    book : ProbeBook
        Where the results of probes are kept for agents.
    """

    def __init__(self, record: Record, runtime: Path, book: ProbeBook) -> None:
        self._record, self._runtime, self._book = record, runtime, book
        self._torch = TorchHere()

    def run(self, only: str = "") -> None:
        """Run the claims, about one device or about all."""
        self._record.doing("looking for GPUs")
        backend = self._backend(Sharing.AUTO)
        locks = DeviceLocks()
        try:
            devices = backend.discover()
            chosen = [device for device in devices if only in {"", device.name, device.id}]
            if not devices:
                why = backend.problem() or "there is none"
                self._record.on("GPU").impossible("gpu", "GPUs are found, shared and isolated", why)
            elif not chosen:
                names = ", ".join(device.name for device in devices)
                self._record.on(only).impossible("device", ALL, f"there is no such device; there are {names}")
            for device in chosen:
                try:
                    self._device(backend, device, locks)
                except (GPUPoolError, OSError) as error:  # the next device may do better
                    self._record.on(device.name).broke("device", ALL, error)
        finally:
            backend.close()
            locks.close()

    def _backend(self, sharing: Sharing) -> NvidiaBackend:
        rules = NodeRules(sharing=(SharingRule(model="*", sharing=sharing),), sample_seconds=_SAMPLE_SECONDS)
        return make_nvidia(rules, self._runtime / sharing.value)

    def _device(self, backend: NvidiaBackend, device: DeviceReport, locks: DeviceLocks) -> None:
        gpu = backend.gpu(device.id)
        self._record.machine[device.name] = f"{device.model}, {format_memory(device.memory_bytes)}"
        self._record.machine["driver"] = gpu.driver
        for rung, why in backend.reasons(device.id).items():
            self._record.rungs.append(
                RungDoc(device=device.name, rung=TITLES[rung], possible=not why, reason=why)
            )
        if why := _in_use(backend, device, locks):
            self._record.on(device.name).impossible("device", ALL, why)
            return
        at_first = used_bytes(backend, device)
        self._probes(backend, device)
        self._way(backend, device, at_first)
        if other := _OTHER_WAYS.get(device.sharing):
            another = self._backend(other)
            try:
                found = [each for each in another.discover() if each.id == device.id]
                for each in found:
                    self._way(another, each, at_first)
            finally:
                another.close()

    def _probes(self, backend: NvidiaBackend, device: DeviceReport) -> None:
        """Exceed what each mechanism limits by itself, and keep the results for agents."""
        reasons = backend.reasons(device.id)
        bench = self._record.on(device.name)
        for name, rung in backend.rungs.items():
            claim = f"limits by {TITLES[name]} hold when raw CUDA calls exceed them"
            if name not in EXCEEDABLE:
                continue
            if why := reasons.get(name, ""):
                bench.impossible(f"probe.{name.value}", claim, why)
                continue
            bench.claim(f"probe.{name.value}", claim, partial(self._probe, backend.gpu(device.id), rung))

    def _probe(self, gpu: GPU, rung: Rung) -> Seen:
        lease_id = f"lease_selftest-{uuid.uuid4().hex[:12]}"
        try:
            result = probe_rung(rung, gpu, lease_id, note=lambda _hand: None, keep=lambda _record: None)
        except CannotTell as why:
            return Seen(held=None, text=str(why))
        self._book.write(gpu.uuid, gpu.driver, rung.name.value, result)
        return Seen(held=result.ok, text=result.detail)

    def _way(self, backend: NvidiaBackend, device: DeviceReport, at_first: int) -> None:
        bench = self._record.on(device.name, device.sharing)
        try:
            stage = Stage(backend, device, at_first)
            GPUClaims(bench, stage, self._runtime, self._torch).run()
        except (GPUPoolError, OSError) as error:  # the next way may do better
            bench.broke("share", ALL, error)


def _in_use(backend: NvidiaBackend, device: DeviceReport, locks: DeviceLocks) -> str:
    """Say who has a device; empty when nobody has."""
    if owner := locks.take(device.id):
        return f"{owner} has it: stop that first (jupyter gpupool stop)"
    sample = next((each for each in backend.sample([]) if each.device_id == device.id), None)
    if sample is None:
        return "it does not answer"
    strangers = [process for process in sample.unmanaged if process.name.partition(" ")[0] not in SPARED]
    if strangers:
        first = strangers[0]
        memory = "" if first.memory_bytes is None else f" with {format_memory(first.memory_bytes)}"
        return f"process {first.pid} ({first.name}, {first.user}) uses it{memory}: end it first"
    return ""
