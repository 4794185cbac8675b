"""Exceeds the CPU's limits in a child, to see that they hold.

Rules of this module: the child is attached by a backend of its own, through the same calls as any holder, and
is gone with its limits when the probe returns; where the machine is too busy or too small to tell, nothing is
said.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

from jupyter_gpupool.backends.base import Backend
from jupyter_gpupool.backends.cpu_isolation import whole_cores
from jupyter_gpupool.backends.hand import Hand, script
from jupyter_gpupool.backends.probebook import ProbeResult, probed_now
from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder

#: Memory of the probe's share, and what is taken under and past it, bytes.
SHARE_BYTES, UNDER_BYTES, PAST_BYTES = 256 << 20, 64 << 20, 320 << 20
#: Its part of the CPU, thousandths.
SHARE_MILLI = 500
#: For how long it computes, seconds.
SPIN_SECONDS = 0.3
#: How far over its share a holder may be measured (the clock's ticks, the quota's period), cores.
_TOLERANCE = 0.25


def kernel_release() -> str:
    """Return the version of what enforces the CPU's limits."""
    return os.uname().release


def start_child(note: Callable[[Hand], None] = lambda _hand: None) -> Hand:
    """Start a child that can be told to exceed limits."""
    hand = Hand(*script(__file__, "cpu_probe_child.py"))
    note(hand)
    hand.ask("ready")
    return hand


def exceed_memory(hand: Hand) -> Seen:
    """Take memory under the share, past it, and under it again."""
    under = hand.ask("take", bytes=UNDER_BYTES)["refused"]
    if under:
        return Seen(held=False, text=f"{format_memory(UNDER_BYTES)} under the limit was refused ({under})")
    past = hand.ask("take", bytes=PAST_BYTES)["refused"]
    hand.ask("give_back")
    again = hand.ask("take", bytes=UNDER_BYTES)["refused"]
    hand.ask("give_back")
    wanted, limit = format_memory(UNDER_BYTES + PAST_BYTES), format_memory(SHARE_BYTES)
    if not past:
        return Seen(held=False, text=f"{wanted} could be taken past a limit of {limit}")
    if again:
        return Seen(held=False, text=f"memory under the limit was refused afterwards ({again})")
    return Seen(
        held=True, text=f"{wanted} was refused past a limit of {limit} ({past}), and the process lives"
    )


def exceed_compute(hand: Hand, device: DeviceReport, mechanism: str) -> Seen:
    """Compute in more processes than the share has cores."""
    share = order(device)
    exact = device.compute_units * share.compute_milli / 1000
    cores = float(whole_cores(share, device.compute_units)) if "affinity" in mechanism else exact
    if cores >= device.compute_units:
        return Seen(held=None, text="on one core a part of it cannot be told from the whole")
    answer = hand.ask("spin", processes=int(cores) + 2, seconds=SPIN_SECONDS)
    used = answer["used_seconds"] / answer["took_seconds"]
    text = f"{used:.2f} cores were used under a limit of {cores:.2f}, by {int(cores) + 2} busy processes"
    if used > cores + _TOLERANCE:
        return Seen(held=False, text=text)
    if used < cores / 2:
        return Seen(held=None, text=f"the machine is too busy to tell: {text}")
    return Seen(held=True, text=text)


def order(device: DeviceReport) -> ShareOrder:
    """Return the share that a probe takes."""
    return ShareOrder(device_id=device.id, compute_milli=SHARE_MILLI, memory_bytes=SHARE_BYTES)


def probe_cpu(
    backend: Backend,
    device: DeviceReport,
    *,
    note: Callable[[Hand], None] = lambda _hand: None,
    known: Callable[[str], bool] = lambda _mechanism: False,
) -> dict[str, ProbeResult]:
    """Exceed what a holder gets from a backend, and return the results by mechanism.

    Parameters
    ----------
    backend : Backend
        A backend of the CPU that serves nobody else.
    device : DeviceReport
        Its device.
    note : callable
        Is told the child as soon as there is one.
    known : callable
        Says of which mechanisms there is a result already.
    """
    with start_child(note) as hand:
        attachment = backend.attach(f"lease_probe-{uuid.uuid4().hex[:12]}", order(device), hand.mark)
        try:
            new = [
                doc for doc in attachment.isolation if doc.resource in _EXCEED and not known(doc.mechanism)
            ]
            seen = [(doc, _exceed(hand, device, doc)) for doc in new]
        finally:
            hand.close()
            backend.detach(attachment)
    return {doc.mechanism: result_of(doc, saw) for doc, saw in seen if saw.held is not None}


_EXCEED = (Resource.MEMORY, Resource.COMPUTE)


def _exceed(hand: Hand, device: DeviceReport, doc: IsolationDoc) -> Seen:
    if doc.resource is Resource.MEMORY:
        return exceed_memory(hand)
    return exceed_compute(hand, device, doc.mechanism)


def result_of(doc: IsolationDoc, seen: Seen) -> ProbeResult:
    """Return what is kept of one exceeded limit."""
    if seen.held:
        return probed_now([doc.resource], {}, seen.sentence)
    return probed_now([], {doc.resource: seen.sentence}, seen.sentence)
