"""What dask-cuda adds to a worker on a GPU share: spilling from the share's memory, and a limited RMM pool.

Rule of this module: only where dask-cuda is installed; without it the worker is a plain one.
"""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import dask
from dask.utils import parse_bytes

from jupyter_gpupool.sessions.order import WorkerOrder

#: From which part of the share's memory on Dask's results are spilled to main memory.
SPILL_PART = 0.8
#: Which part of the share's memory RMM's pool takes at most: a context and libraries need the rest.
POOL_PART = 0.9


def worker_options(order: WorkerOrder) -> dict[str, Any]:
    """Return further arguments of the worker.

    ``distributed.rmm.pool-size`` of Dask's configuration is the size that RMM's pool begins with, as in
    dask-cuda; without it there is no pool.
    """
    if importlib.util.find_spec("dask_cuda") is None or not order.device_memory_bytes:
        return {}
    from dask_cuda.device_host_file import DeviceHostFile

    limits = {
        "device_memory_limit": int(order.device_memory_bytes * SPILL_PART),
        "memory_limit": order.memory_limit_bytes,
    }
    options: dict[str, Any] = {"data": (DeviceHostFile, limits)}
    first = dask.config.get("distributed.rmm.pool-size", default=None)
    if first is not None and importlib.util.find_spec("rmm") is not None:
        from dask_cuda.plugins import RMMSetup

        largest = int(order.device_memory_bytes * POOL_PART)
        settings = dict.fromkeys(inspect.signature(RMMSetup).parameters)  # further ones came with versions
        settings |= {
            "initial_pool_size": min(largest, parse_bytes(first)),
            "maximum_pool_size": largest,
            **dict.fromkeys(("managed_memory", "async_alloc", "track_allocations"), False),
        }
        options["plugins"] = (RMMSetup(**settings),)
    return options
