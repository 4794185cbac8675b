"""How workers leave: no new tasks, the running ones end, results go to the others, then the process.

Rule of this module: every step is bounded or ends with the worker itself; a result that nobody can take is
lost with it, and Dask computes it again when it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from distributed.core import Status

logger = logging.getLogger(__name__)

#: How long results may take to reach other workers, seconds.
_HAND_OVER_SECONDS = 60.0


async def retire(scheduler: Any, name: str, finish_seconds: float | None) -> None:
    """Retire a worker, which may take as long as its tasks do.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The cluster's own.
    name : str
        Of the worker; one that it does not know has nothing to finish.
    finish_seconds : float or None
        How long running tasks may take; None for as long as they do.
    """
    address = scheduler.aliases.get(name)
    if address is None:
        return
    _stop_feeding(scheduler, address)
    await _finish(scheduler, address, finish_seconds)
    try:
        async with asyncio.timeout(_HAND_OVER_SECONDS):
            await scheduler.retire_workers(workers=[address], close_workers=False, remove=True)
    except TimeoutError:
        logger.warning("Results of %s could not be handed over within %g s.", name, _HAND_OVER_SECONDS)


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
