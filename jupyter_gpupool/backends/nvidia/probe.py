"""Exceeds the limits of a GPU in a child, to see that they hold.

Rules of this module: the limits are put on by the same rungs as a holder's, and taken away before the probe
returns; the child calls the CUDA driver itself, so that no framework's politeness is taken for a limit; where
a device is too full or too silent to tell, nothing is said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.hand import Hand, script
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.probe_kernels import PTX
from jupyter_gpupool.backends.nvidia.rungs.base import Rung, RungName, Site
from jupyter_gpupool.backends.probebook import ProbeResult, probed_now
from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_memory
from jupyter_gpupool.protocol.messages import ShareOrder

#: Which limits of which rungs can be exceeded by the driver's own calls. Caps of frameworks cannot: that is
#: what makes them soft; and a whole device has no limit but its end.
EXCEEDABLE = {
    RungName.MIG: (Resource.MEMORY, Resource.COMPUTE),
    RungName.DRIVER: (Resource.MEMORY,),
    RungName.MPS: (Resource.MEMORY, Resource.COMPUTE),
}
#: Memory of the probe's share, bytes: at most this, and at most this part of the device.
_SHARE_BYTES, _SHARE_PART = 4 << 30, 4
#: Compute of the probe's share, thousandths.
_SHARE_MILLI = 500
#: Into how many steps an attempt to pass the limit is divided, and how many of them go past it.
_STEPS, _STEPS_PAST = 32, 4
#: What CUDA answers when there is no more memory to be had.
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
#: For how long the first call into CUDA and each later one may take, seconds.
INIT_SECONDS, CALL_SECONDS = 60.0, 30.0

Note = Callable[[Hand], None]


class CannotTell(BackendError):
    """Raised when a probe could show nothing on this device. The message says why; no limit is in doubt."""

    code = "cannot_tell"


def probe_share(gpu: GPU) -> ShareOrder:
    """Return the share that a probe takes: small, but well above what a CUDA context needs."""
    if gpu.is_mig:
        return ShareOrder(device_id=gpu.uuid, compute_milli=WHOLE_MILLI, memory_bytes=gpu.memory_bytes)
    memory = min(_SHARE_BYTES, gpu.memory_bytes // _SHARE_PART)
    return ShareOrder(device_id=gpu.uuid, compute_milli=_SHARE_MILLI, memory_bytes=memory)


def start_hand(note: Note = lambda _hand: None, environment: Mapping[str, str] | None = None) -> Hand:
    """Start a child that has not touched CUDA yet."""
    hand = Hand(*script(__file__, "probe_child.py"), environment=environment)
    note(hand)
    return hand


def enter_cuda(hand: Hand, gpu: GPU, environment: Mapping[str, str]) -> str:
    """Have the child make a context on a device; return CUDA's error, "" for none."""
    wanted = {"CUDA_VISIBLE_DEVICES": gpu.uuid, **environment}
    answer = hand.ask("init", environment=wanted, within_seconds=INIT_SECONDS)
    return str(answer["error"])


def site_of(gpu: GPU, share: ShareOrder, hand: Hand, lease_id: str) -> Site:
    """Return where a probe's limits are put."""
    return Site(
        lease_id=lease_id, gpu=gpu, share=share, holder=hand.mark, uid=os.geteuid(), cuda_started=False
    )


def probe_rung(rung: Rung, gpu: GPU, lease_id: str, note: Note, keep: Callable[[bytes], None]) -> ProbeResult:
    """Exceed what a rung limits, in a child.

    Parameters
    ----------
    rung : Rung
        The mechanism.
    gpu : GPU
        An idle device on which it is possible.
    lease_id : str
        Name for what the rung makes.
    note : callable
        Is told the child as soon as there is one.
    keep : callable
        Writes the record down by which the limits can be taken away, before they are put on.

    Returns
    -------
    ProbeResult
        What was seen.

    Raises
    ------
    CannotTell
        If it could not be told whether the limits hold.
    BackendError
        If the limits cannot be put on, or the child does not answer.
    """
    share = probe_share(gpu)
    with start_hand(note) as hand:
        site = site_of(gpu, share, hand, lease_id)
        if why := rung.refused(site):
            raise CannotTell(f"The limit cannot be put on a child of ours: {why}.")
        keep(bytes(rung.intent(site)))
        put = rung.put(site)
        keep(bytes(put.record))
        try:
            if error := enter_cuda(hand, gpu, put.environment):
                raise BackendError(f"CUDA does not start under {rung.name.value}: {error}.")
            seen = {resource: _exceed(hand, gpu, share, resource) for resource in EXCEEDABLE[rung.name]}
        finally:
            hand.close()
            rung.take_away(lease_id, put.record)
    return _result(seen)


def _exceed(hand: Hand, gpu: GPU, share: ShareOrder, resource: Resource) -> Seen:
    if resource is Resource.MEMORY:
        return exceed_memory(hand, share.memory_bytes)
    return exceed_compute(hand, gpu, share.compute_milli)


def exceed_memory(hand: Hand, limit_bytes: int) -> Seen:
    """Allocate under the limit and past it, by cuMemAlloc."""
    step = limit_bytes // _STEPS
    under = hand.ask("fill", most_bytes=limit_bytes // 4, step_bytes=step, within_seconds=CALL_SECONDS)
    if under["error"] or under["refused"]:
        what = under["error"] or under["refused"]
        return Seen(
            held=None, text=f"not even a quarter of {format_memory(limit_bytes)} was to be had ({what})"
        )
    past = hand.ask(
        "fill", most_bytes=limit_bytes + _STEPS_PAST * step, step_bytes=step, within_seconds=CALL_SECONDS
    )
    limit, reached = format_memory(limit_bytes), format_memory(past["reached"])
    if past["error"]:
        return Seen(held=False, text=f"past a limit of {limit}, CUDA failed with {past['error']}")
    if past["reached"] > limit_bytes or not past["refused"]:
        return Seen(held=False, text=f"{reached} could be allocated past a limit of {limit}")
    if past["refused"] != OUT_OF_MEMORY:
        return Seen(held=False, text=f"past a limit of {limit}, CUDA answered {past['refused']}")
    return Seen(held=True, text=f"{reached} could be allocated under a limit of {limit}, and no more")


def exceed_compute(hand: Hand, gpu: GPU, compute_milli: int) -> Seen:
    """Compute on as many multiprocessors as there are to be had, and count them."""
    loaded = hand.ask("load", ptx=PTX.decode(), within_seconds=CALL_SECONDS)
    found = hand.ask("spread", within_seconds=CALL_SECONDS) if not loaded["error"] else loaded
    told = hand.ask("info", within_seconds=CALL_SECONDS)
    if error := found["error"] or told["error"]:
        return Seen(held=None, text=f"a kernel could not be run ({error})")
    seen, promised = found["multiprocessors"], told["multiprocessors"]
    return judge_multiprocessors(seen, promised, gpu.multiprocessors, compute_milli)


def judge_multiprocessors(seen: int, promised: int, whole: int, compute_milli: int) -> Seen:
    """Compare the multiprocessors that a kernel ran on with a share of all of them.

    Parameters
    ----------
    seen : int
        On how many its blocks were, in all its time.
    promised : int
        How many CUDA says that there are.
    whole : int
        How many the device has; 0 when NVML does not say.
    compute_milli : int
        The share, thousandths.
    """
    if not whole or not seen:
        return Seen(held=None, text=f"a kernel ran on {seen} multiprocessors, of an unknown number")
    allowed = -(-whole * compute_milli // WHOLE_MILLI)
    text = f"a kernel ran on {seen} of {whole} multiprocessors, with {allowed} in its share"
    if seen > allowed >= promised:
        return Seen(held=None, text=f"{text}, though CUDA says {promised}: on those it was one after another")
    return Seen(held=seen <= allowed, text=text)


def _result(seen: Mapping[Resource, Seen]) -> ProbeResult:
    proved = [resource for resource, saw in seen.items() if saw.held]
    failed = {resource: saw.sentence for resource, saw in seen.items() if saw.held is False}
    text = " ".join(saw.sentence for saw in seen.values())
    if not proved and not failed:
        raise CannotTell(text)
    return probed_now(proved, failed, text)
