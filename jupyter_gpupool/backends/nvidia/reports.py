"""How GPUs are reported to the pool: what a new lease on each would get, and what is wrong with it.

Rules of this module: pure but for asking the rungs; a device that went away is reported as failed until it
comes back, so that its leases are not forgotten.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.backends.machine import reserve_bytes
from jupyter_gpupool.backends.nvidia import ladder
from jupyter_gpupool.backends.nvidia.climb import Climber
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Mode
from jupyter_gpupool.backends.nvidia.sampler import GPUSnapshot
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder

#: What stands in for the number of a share that nobody has yet.
_ITS_SHARE = {Resource.MEMORY: "its share of the memory", Resource.COMPUTE: "its share of the compute"}


def report(
    gpu: GPU, sample: GPUSnapshot | None, climber: Climber, rules: NodeRules, unmanaged_bytes: int | None
) -> DeviceReport:
    """Describe a device.

    Parameters
    ----------
    gpu : GPU
        The device.
    sample : GPUSnapshot or None
        The latest look at it.
    climber : Climber
        The node's rungs.
    rules : NodeRules
        What an administrator decided.
    unmanaged_bytes : int or None
        What processes without a lease take of it, bytes; None when unknown.
    """
    able = climber.device(gpu)
    sharing = rules.rule_for(gpu.model).sharing
    mode = ladder.mode_of(able, sharing)
    plan = ladder.choose(able, sharing, whole=mode.whole_only, mode=mode)
    memory_bytes = leasable_bytes(gpu)
    share = ShareOrder(
        device_id=gpu.uuid,
        compute_milli=WHOLE_MILLI if mode.whole_only else WHOLE_MILLI // 2,
        memory_bytes=memory_bytes if mode.whole_only else memory_bytes // 2,
    )
    docs = climber.promise(plan, gpu, share)
    health, reason = _health(gpu, sample)
    return DeviceReport(
        id=gpu.uuid,
        name=gpu.name,
        kind=DeviceKind.CUDA,
        model=gpu.model,
        memory_bytes=memory_bytes,
        compute_units=gpu.multiprocessors,
        health=health,
        health_reason=reason,
        unmanaged_bytes=unmanaged_bytes,
        parent_id=gpu.parent_uuid,
        parent_milli=gpu.parent_milli,
        whole_only=mode.whole_only,
        one_owner=mode is Mode.MPS and not rules.mps_multiuser,
        most_leases=climber.most_leases(plan, gpu),
        sharing=mode.value,
        isolation=docs if mode.whole_only else [_of_any_share(doc) for doc in docs],
    )


def leasable_bytes(gpu: GPU) -> int:
    """Return how much of a device can be leased, bytes; of the system's memory not what the system needs."""
    return gpu.memory_bytes - reserve_bytes(gpu.memory_bytes) if gpu.unified else gpu.memory_bytes


def lost(before: DeviceReport, why: str) -> DeviceReport:
    """Describe a device that is not there any more."""
    return msgspec.structs.replace(before, health=Health.FAILED, health_reason=why)


def _health(gpu: GPU, sample: GPUSnapshot | None) -> tuple[Health, str]:
    if gpu.compute_mode == ladder.PROHIBITED:
        return Health.FAILED, (
            "Its compute mode is PROHIBITED: no process can use it until an administrator sets another one"
            " (nvidia-smi -c DEFAULT)."
        )
    return (Health.HEALTHY, "") if sample is None else (sample.health, sample.health_reason)


def _of_any_share(doc: IsolationDoc) -> IsolationDoc:
    """Say the same of a share whose size is not known yet."""
    return (
        msgspec.structs.replace(doc, limit=_ITS_SHARE.get(doc.resource, doc.limit))
        if doc.limit != "none"
        else doc
    )
