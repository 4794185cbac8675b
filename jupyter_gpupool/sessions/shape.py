"""How many threads, how much memory and which resources a worker has: what follows from its lease.

Rule of this module: pure arithmetic on documents of the pool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import DeviceDoc, LeaseDoc
from jupyter_gpupool.sessions.errors import TooManyWorkers

#: How many workers a session cluster has at most: each occupies a connection of the kernel's process.
MOST_WORKERS = 128
#: Name of the Dask resource that a share of a device of each kind is.
RESOURCES = {DeviceKind.CUDA: "GPU", DeviceKind.CPU: "CPU"}
_RANGE = re.compile(r"(\d+)(?::(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wish:
    """How many workers somebody wants.

    Attributes
    ----------
    least, most : int
        The same number, or the bounds between which the cluster follows its load.
    adaptive : bool
        Whether it does.
    """

    least: int
    most: int
    adaptive: bool = False


def parse_workers(value: str | int) -> Wish:
    """Read ``4`` or ``2:8``.

    Raises
    ------
    InvalidValue
        If it is neither.
    TooManyWorkers
        If it is more than `MOST_WORKERS`.
    """
    found = _RANGE.fullmatch(str(value).strip())
    if isinstance(value, bool) or found is None:
        raise InvalidValue(
            f"“{str(value)[:40]}” is no number of workers.", hint="Write 4, or 2:8 for between 2 and 8."
        )
    least = int(found[1])
    most = least if found[2] is None else int(found[2])
    if most < least:
        raise InvalidValue(f"{least}:{most} ends before it begins.", hint=f"Write {most}:{least}.")
    if most == 0 and found[2] is not None:
        raise InvalidValue("0:0 leaves no room for a worker.", hint="Write 0 to end all of them.")
    check_workers(most)
    return Wish(least=least, most=most, adaptive=found[2] is not None)


def check_workers(number: int) -> None:
    """Refuse more workers than a session cluster has."""
    if number > MOST_WORKERS:
        raise TooManyWorkers(
            f"A session cluster has at most {MOST_WORKERS} workers, and {number} are asked for.",
            hint="Ask for fewer workers with larger shares.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a worker is told of its size.

    Attributes
    ----------
    nthreads : int
        How many tasks it runs at once.
    memory_limit_bytes : int
        Main memory by which Dask spills and pauses; 0 for no limit.
    resources : dict of str to float
        Dask's resources: the share, as ``GPU`` or ``CPU``.
    """

    nthreads: int
    memory_limit_bytes: int
    resources: dict[str, float]


def shape_of(lease: LeaseDoc, devices: Sequence[DeviceDoc], *, machine_memory_bytes: int) -> Shape:
    """Return the size of the worker that holds a lease.

    Parameters
    ----------
    lease : LeaseDoc
        As it was granted.
    devices : sequence of DeviceDoc
        The devices of the pool.
    machine_memory_bytes : int
        Main memory of the node, for leases that say nothing of it.

    Returns
    -------
    Shape
        Of a share of a CPU: as many threads as cores, rounded up, and its memory. Of a GPU: one thread for
        each device, or the cores asked for beside it; and the main memory asked for beside it, or the same
        part of the node's as the share is of the node's GPUs.
    """
    known = {device.id: device for device in devices}
    resources = {RESOURCES.get(lease.kind or DeviceKind.CPU, "CPU"): _devices(lease)}
    if lease.kind is DeviceKind.CPU:
        units = max(
            (known[it.device_id].compute_units for it in lease.shares if it.device_id in known), default=1
        )
        threads = -(-lease.compute_milli * units // WHOLE_MILLI)
        return Shape(
            nthreads=max(1, threads), memory_limit_bytes=lease.memory_bytes or 0, resources=resources
        )
    alike = [it for it in devices if it.kind is lease.kind and it.node_id == lease.node_id]
    whole = sum(it.parent_milli for it in alike) or WHOLE_MILLI
    part = machine_memory_bytes * round(_devices(lease) * WHOLE_MILLI) // max(whole, WHOLE_MILLI)
    return Shape(
        nthreads=max(1, lease.host_cpu_milli // WHOLE_MILLI, len(lease.shares)),
        memory_limit_bytes=lease.host_memory_bytes or part,
        resources=resources,
    )


def _devices(lease: LeaseDoc) -> float:
    """Return how many whole devices the shares of a lease are together."""
    milli = sum(it.compute_milli * it.parent_milli for it in lease.shares)
    return milli / WHOLE_MILLI**2 if lease.shares else lease.compute_milli * lease.count / WHOLE_MILLI


def capacity(
    devices: Sequence[DeviceDoc], kind: DeviceKind | None, compute_milli: int, count: int = 1
) -> int:
    """Return how many leases of one size the pool could hold if nobody else held any, at least 1.

    Parameters
    ----------
    devices : sequence of DeviceDoc
        The devices of the pool.
    kind : DeviceKind or None
        What is asked for; None for CUDA where there is any.
    compute_milli, count : int
        How much of a device, and of how many.
    """
    if kind is None:
        kind = DeviceKind.CUDA if any(it.kind is DeviceKind.CUDA for it in devices) else DeviceKind.CPU
    fitting = sum(WHOLE_MILLI // compute_milli for it in devices if it.kind is kind)
    return min(MOST_WORKERS, max(1, fitting // count))
