"""How workers leave: no new tasks, the running ones end, results go to the others, then the process.

Rule of this module: every step is bounded or ends with the worker itself; a result that nobody can take is
lost with it, and Dask computes it again when it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Any

from distributed.core import Status

logger = logging.getLogger(__name__)

#: How long results may take to reach other workers, seconds.
_HAND_OVER_SECONDS = 60.0


async def retire(scheduler: Any, names: Collection[str], finish_seconds: float | None) -> None:
    """Retire workers, which may take as long as their tasks do.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The cluster's own.
    names : collection of str
        Of workers; those that it does not know have nothing to finish.
    finish_seconds : float or None
        How long running tasks may take; None for as long as they do.
    """
    addresses = [ws.address for ws in scheduler.workers.values() if ws.name in names]
    if not addresses:
        return
    for address in addresses:
        _stop_feeding(scheduler, address)
    await asyncio.gather(*(_finish(scheduler, address, finish_seconds) for address in addresses))
    try:
        async with asyncio.timeout(_HAND_OVER_SECONDS):
            await scheduler.retire_workers(workers=addresses, close_workers=False, remove=True)
    except TimeoutError:
        logger.warning("Results of %s could not be handed over within %g s.", names, _HAND_OVER_SECONDS)


def _stop_feeding(scheduler: Any, address: str) -> None:
    """Give a worker no further tasks; those that run go on."""
    stimulus = f"gpupool-retire-{address}"
    scheduler.handle_worker_status_change(Status.closing_gracefully, address, stimulus)
    scheduler.stream_comms[address].send(
        {"op": "worker-status-change", "status": "closing_gracefully", "stimulus_id": stimulus}
    )


async def _finish(scheduler: Any, address: str, seconds: float | None) -> None:
    """Wait until nothing runs on a worker, or it is gone."""
    with contextlib.suppress(OSError, TimeoutError):  # a lost connection is an OSError, too
        async with asyncio.timeout(seconds):
            await scheduler.rpc(address).gpupool_finish()
