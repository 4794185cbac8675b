"""The claims about the CPU.

Rule of this module: the backend is the real one, once with the strongest mechanisms that work here and once
with those that work everywhere.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from jupyter_gpupool.backends import cpu_probe
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.hand import script
from jupyter_gpupool.backends.probebook import ProbeBook
from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder
from jupyter_gpupool.selftest.holders import TORCH, TORCH_SECONDS, Holder, isolation_text
from jupyter_gpupool.selftest.record import Bench, Record

#: What PyTorch's holder gets, and what it tries to take under and past it, bytes.
_TORCH_SHARE, _TORCH_UNDER, _TORCH_PAST = 1 << 30, 128 << 20, 2 << 30
#: For how long holders compute side by side, seconds.
_WORK_SECONDS = 1.0
#: Memory of a holder that only computes, bytes.
_SMALL_BYTES = 256 << 20
#: How much less two halves may do than one whole, thousandths.
_LEAST_TOGETHER = 0.8

PAST = "memory under the share is granted, past it refused, and the process lives on"
BUSY = "busy processes get no more of the CPU than their share"
PAST_TORCH = "an allocation past the share by PyTorch is refused, one under it is not"


def prove_cpu(record: Record, book: ProbeBook) -> None:
    """Run the claims about this machine's CPU, and keep what they prove for agents."""
    record.doing("looking at the CPU")
    ways = {"": CPUBackend()}
    plain = CPUBackend(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
    device = next(iter(ways[""].discover()), None)
    if device is None:
        record.on("cpu").impossible("attach", "a share is put in force", "its memory cannot be read here")
        return
    plain.discover()
    strongest = _mechanisms(ways[""], device)
    if strongest != _mechanisms(plain, device):
        ways = {"strongest": ways[""], "plainest": plain}
    for number, (way, backend) in enumerate(ways.items()):
        bench = record.on("cpu", way)
        _prove_way(bench, backend, device, book)
        if number == 0:
            bench.claim("memory.past.torch", PAST_TORCH, partial(_torch, backend, device))


def _mechanisms(backend: CPUBackend, device: DeviceReport) -> set[str]:
    with _child(backend, cpu_probe.order(device)) as holder:
        return {doc.mechanism for doc in holder.attachment.isolation}


def _child(backend: CPUBackend, share: ShareOrder) -> Holder:
    return Holder(backend, share, *script(cpu_probe.__file__, "cpu_probe_child.py"))


def _prove_way(bench: Bench, backend: CPUBackend, device: DeviceReport, book: ProbeBook) -> None:
    with _child(backend, cpu_probe.order(device)) as holder:
        before = _state(holder.hand.pid)
        bench.claim(
            "attach",
            "a share is put in force, and reads back",
            lambda: Seen(held=True, text=isolation_text(holder.attachment)),
        )
        docs = {doc.resource: doc for doc in holder.attachment.isolation}
        for name, claim, doc, exceed in (
            ("memory.past", PAST, docs[Resource.MEMORY], lambda _: cpu_probe.exceed_memory(holder.hand)),
            ("compute.cap", BUSY, docs[Resource.COMPUTE], partial(_exceed_compute, holder, device)),
        ):
            seen = bench.claim(name, claim, partial(exceed, doc))
            if seen.held is not None:
                result = cpu_probe.result_of(doc, seen)
                book.write(device.id, cpu_probe.kernel_release(), doc.mechanism, result)
        bench.claim(
            "release",
            "after its release a process may use what it could use before",
            lambda: _release(holder, before),
        )
    bench.claim(
        "two.holders",
        "two holders of 0.5 get as much done together as one of the whole device alone",
        lambda: _two(backend, device),
    )
    bench.claim(
        "kill", "when a holder is killed, nothing of its share stays in use", lambda: _kill(backend, device)
    )


def _exceed_compute(holder: Holder, device: DeviceReport, doc: IsolationDoc) -> Seen:
    return cpu_probe.exceed_compute(holder.hand, device, doc.mechanism)


def _state(pid: int) -> str:
    """Return what a process may use: its groups, limits and cores."""
    root = Path(f"/proc/{pid}")
    cores = re.search(r"^Cpus_allowed_list:.*$", (root / "status").read_text(), re.MULTILINE)
    return (root / "cgroup").read_text() + (root / "limits").read_text() + (cores[0] if cores else "")


def _release(holder: Holder, limited: str) -> Seen:
    holder.release()
    free = _state(holder.hand.pid)
    past = holder.ask("take", bytes=cpu_probe.PAST_BYTES)["refused"]
    holder.ask("give_back")
    if past:
        return Seen(held=False, text=f"{format_memory(cpu_probe.PAST_BYTES)} was still refused ({past})")
    if free == limited:
        return Seen(held=False, text="its groups, limits and cores are those that it had under the share")
    return Seen(
        held=True, text=f"{format_memory(cpu_probe.PAST_BYTES)} were granted, and its limits are gone"
    )


def _share(device: DeviceReport, milli: int) -> ShareOrder:
    return ShareOrder(device_id=device.id, compute_milli=milli, memory_bytes=_SMALL_BYTES)


def _two(backend: CPUBackend, device: DeviceReport) -> Seen:
    cores = device.compute_units
    alone = _rates(backend, device, [WHOLE_MILLI])[0]
    together = _rates(backend, device, [WHOLE_MILLI // 2] * 2)
    parts = " + ".join(f"{rate:.2f}" for rate in together)
    text = f"alone {alone:.2f} cores, together {parts} = {sum(together):.2f} cores"
    if alone < cores / 2:
        return Seen(held=None, text=f"the machine is too busy to tell: {text}")
    return Seen(held=sum(together) >= _LEAST_TOGETHER * alone, text=text)


def _rates(backend: CPUBackend, device: DeviceReport, shares: list[int]) -> list[float]:
    """Let holders of these shares compute side by side; return how many cores each got."""
    with ExitStack() as stack:
        holders = [stack.enter_context(_child(backend, _share(device, milli))) for milli in shares]
        for holder in holders:
            holder.hand.begin("spin", processes=device.compute_units, seconds=_WORK_SECONDS)
        answers = [holder.hand.answer("spin") for holder in holders]
    return [answer["used_seconds"] / answer["took_seconds"] for answer in answers]


def _kill(backend: CPUBackend, device: DeviceReport) -> Seen:
    with _child(backend, cpu_probe.order(device)) as holder:
        holder.ask("take", bytes=cpu_probe.UNDER_BYTES)
        used = backend.watch(holder.attachment).memory_used_bytes
        holder.kill()
        after = backend.watch(holder.attachment)
    left = format_memory(after.memory_used_bytes) if after.memory_used_bytes else "nothing"
    text = f"{format_memory(used)} in use before, {left} after it"
    return Seen(held=bool(used) and not after.memory_used_bytes, text=text)


def _torch(backend: CPUBackend, device: DeviceReport) -> Seen:
    share = ShareOrder(device_id=device.id, compute_milli=WHOLE_MILLI // 2, memory_bytes=_TORCH_SHARE)
    with Holder(backend, share, *TORCH) as holder:
        if not holder.ask("ready", within_seconds=TORCH_SECONDS)["version"]:
            return Seen(held=None, text="PyTorch is not installed")
        holder.enter_torch()
        return torch_past(holder, "cpu", _TORCH_SHARE, _TORCH_UNDER, _TORCH_PAST)


def torch_past(holder: Holder, device: str, limit: int, under: int, past: int) -> Seen:
    """Allocate under and past a limit by PyTorch."""

    def take(size: int) -> str:
        answer = holder.ask("alloc", bytes=size, device=device, within_seconds=TORCH_SECONDS)
        return str(answer["refused"])

    if refused := take(under):
        return Seen(
            held=False, text=f"{format_memory(under)} under {format_memory(limit)} was refused ({refused})"
        )
    refused = take(past)
    text = f"{format_memory(under)} was granted, {format_memory(past)} past a share of {format_memory(limit)}"
    return Seen(held=bool(refused), text=f"{text} {f'refused ({refused})' if refused else 'granted too'}")
