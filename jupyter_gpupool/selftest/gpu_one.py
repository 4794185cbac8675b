"""The claims about one holder of a GPU: its share is in force, and holds when it is exceeded.

Rule of this module: what is expected follows from what the lease itself says: a limit that it calls soft by
the caps of frameworks is expected not to stop raw CUDA calls, and to be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from jupyter_gpupool.backends.nvidia import probe
from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.selftest.cpu import PAST_TORCH, torch_past
from jupyter_gpupool.selftest.holders import TORCH, TORCH_SECONDS, Holder, isolation_text
from jupyter_gpupool.selftest.record import Bench
from jupyter_gpupool.selftest.stage import Stage, doc_of, hidden_processes, until

#: What PyTorch takes under its share, and how far it goes past it, bytes.
_TORCH_UNDER, _TORCH_MORE = 256 << 20, 1 << 30

ATTACH = "a share is put in force, and reads back at the first CUDA context"
UNDER = "memory under the share is granted (cuMemAlloc)"


@dataclass
class TorchHere:
    """What is known of the PyTorch of this interpreter, so that it is asked only once.

    Attributes
    ----------
    missing : str
        Why it cannot use a GPU; empty when it can, or was not asked.
    """

    missing: str = ""


class OneHolder:
    """Runs them.

    Parameters
    ----------
    bench : Bench
        Where they are written down.
    stage : Stage
        The device.
    torch : TorchHere
        What is known of PyTorch here.
    """

    def __init__(self, bench: Bench, stage: Stage, torch: TorchHere) -> None:
        self._bench, self._stage, self._torch_here = bench, stage, torch
        self._started = False

    def run(self) -> None:
        """Run them."""
        limit = self._stage.share(self._stage.milli).memory_bytes
        with self._stage.holder(self._stage.milli) as holder:
            self._bench.claim("attach", ATTACH, lambda: self._enter(holder))
            if self._started:
                self._bench.claim("memory.under", UNDER, lambda: _under(holder, limit))
                self._past(holder, limit)
                self._compute(holder)
        self._bench.claim("memory.past.torch", PAST_TORCH, self._torch)

    def _past(self, holder: Holder, limit: int) -> None:
        claims = {
            "memory.past.driver": ("memory past the share is refused to cuMemAlloc", _past_driver),
            "memory.past.runtime": ("memory past the share is refused to cudaMalloc", _past_runtime),
        }
        memory = doc_of(holder, Resource.MEMORY)
        if not _is_framework(memory):
            for name, (claim, check) in claims.items():
                self._bench.claim(name, claim, partial(check, holder, limit))
            return
        for name, (claim, _) in claims.items():
            self._bench.impossible(
                name, claim, "caps of frameworks do not bind raw CUDA calls; the lease says so"
            )
        self._bench.claim(
            "memory.watch",
            "memory past the share by cuMemAlloc is seen, and the holder is told",
            lambda: self._watched(holder, limit),
        )

    def _compute(self, holder: Holder) -> None:
        claim = "kernels run on no more multiprocessors than the share has"
        if doc_of(holder, Resource.COMPUTE).strength is Strength.NONE:
            why = "under time-slicing a fraction does not buy compute, and the lease says so"
            self._bench.impossible("compute.cap", claim, why)
            return
        self._bench.claim(
            "compute.cap",
            claim,
            lambda: probe.exceed_compute(holder.hand, self._stage.gpu, self._stage.milli),
        )

    def _enter(self, holder: Holder) -> Seen:
        if error := self._stage.enter(holder):
            return Seen(held=False, text=f"CUDA does not start: {error}")
        self._started = True
        until(lambda: self._read_back(holder))
        docs = holder.attachment.isolation
        promised = {doc.resource for doc in self._stage.device.isolation if doc.strength is not Strength.NONE}
        lost = [doc for doc in docs if doc.resource in promised and doc.strength is Strength.NONE]
        text = f"{isolation_text(holder.attachment)} {' '.join(doc.note for doc in lost)}"
        seen = self._read_back(holder)
        if not seen and (why := hidden_processes()):
            return Seen(held=None, text=f"{why}; {text}")
        return Seen(held=seen and not lost, text=text.strip())

    def _read_back(self, holder: Holder) -> bool:
        self._stage.backend.watch(holder.attachment)
        return all(doc.verified is not Verified.PENDING for doc in holder.attachment.isolation)

    def _watched(self, holder: Holder, limit: int) -> Seen:
        step = limit // 8
        pointers = []
        for _ in range(9):
            made = holder.ask("alloc", bytes=step)
            if made["error"]:
                return Seen(
                    held=None, text=f"the device has no {format_memory(9 * step)} free ({made['error']})"
                )
            pointers.append(made["pointer"])
        told = until(lambda: self._stage.backend.watch(holder.attachment).notices)
        for pointer in pointers:
            holder.ask("free", pointer=pointer)
        if not told and (why := hidden_processes()):
            return Seen(held=None, text=why)
        taken = f"{format_memory(9 * step)} were taken of a share of {format_memory(limit)}"
        return Seen(held=bool(told), text=f"{taken}; the holder was told: {told[0] if told else 'nothing'}")

    def _torch(self) -> Seen:
        if self._torch_here.missing:
            return Seen(held=None, text=self._torch_here.missing)
        with Holder(self._stage.backend, self._stage.share(self._stage.milli), *TORCH) as holder:
            if not holder.ask("ready", within_seconds=TORCH_SECONDS)["version"]:
                self._torch_here.missing = "PyTorch is not installed"
            elif not holder.enter_torch()["gpu"]:
                self._torch_here.missing = "this PyTorch sees no GPU"
            if self._torch_here.missing:
                return Seen(held=None, text=self._torch_here.missing)
            limit = self._stage.share(self._stage.milli).memory_bytes
            return torch_past(holder, "cuda", limit, _TORCH_UNDER, limit + _TORCH_MORE)


def _is_framework(doc: IsolationDoc) -> bool:
    return doc.mechanism.startswith("framework caps")


def _under(holder: Holder, limit: int) -> Seen:
    made = holder.ask("fill", most_bytes=limit // 2, step_bytes=limit // 16)
    refused = made["error"] or made["refused"]
    text = f"{format_memory(made['reached'])} of {format_memory(limit)} were granted"
    return Seen(held=not refused, text=f"{text}, then {refused}" if refused else text)


def _past_driver(holder: Holder, limit: int) -> Seen:
    return probe.exceed_memory(holder.hand, limit)


def _past_runtime(holder: Holder, limit: int) -> Seen:
    made = holder.ask("runtime_alloc", bytes=limit + limit // 8)
    if missing := made.get("missing"):
        return Seen(held=None, text=missing)
    asked = f"{format_memory(limit + limit // 8)} past a share of {format_memory(limit)}"
    return Seen(held=bool(made["refused"]), text=f"{asked}: {made['refused'] or 'granted'}")
