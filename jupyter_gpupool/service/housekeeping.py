"""What a service does when nobody asks for anything: forget what is old, and end when it is not needed.

Rule of this module: none of it is urgent, and a failure of it is logged and tried again.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_gpupool.cluster.journal import Journal, JournalUnavailable
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.service.activity import Activity
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.journaling import JournalThread

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86400.0
#: Pause between two steps of pruning, so that commits come between, seconds.
_STEP_SECONDS = 0.2
#: Pause between two looks at what was asked for, seconds.
DEMAND_SECONDS = 60.0
#: Leases forgotten in one step.
_STEP = 500


async def prune(journal: JournalThread, clock: PoolClock, keep_days: float, usage_keep_days: float) -> None:
    """Forget leases that ended long ago, and who held what then, now and once a day; ends when cancelled."""

    def step(open_journal: Journal) -> int:
        now = clock.read()
        before = now.wall_ms - round(keep_days * _DAY_SECONDS * 1000)
        open_journal.spent.prune(now.wall_ms - round(usage_keep_days * _DAY_SECONDS * 1000))
        return open_journal.prune(ended_before_wall_ms=before, now_ms=now.now_ms, limit=_STEP)

    while True:
        more = False
        try:
            more = await journal.read(step) == _STEP
        except JournalUnavailable as error:
            _log.warning("Old leases could not be forgotten: %s", error)
        await asyncio.sleep(_STEP_SECONDS if more else _DAY_SECONDS)


async def keep_demand(host: PoolHost, journal: JournalThread) -> None:
    """Write down what was asked for, and how good estimates were, whenever there is more, and at the end.

    It ends when it is cancelled.
    """
    kept, judged = host.pool.demand_rows(), host.pool.judged
    try:
        while True:
            await asyncio.sleep(DEMAND_SECONDS)
            kept = await _keep_demand(host, journal, kept)
            judged = await _keep_judged(host, journal, judged)
    finally:
        await _keep_demand(host, journal, kept)
        await _keep_judged(host, journal, judged)


async def _keep_judged(host: PoolHost, journal: JournalThread, kept: str) -> str:
    judged = host.pool.judged
    if judged != kept:
        try:
            await journal.read(lambda open_journal: open_journal.write_judged(judged))
        except JournalUnavailable as error:
            _log.warning("How good estimates were could not be written down: %s", error)
            return kept
    return judged


async def _keep_demand(
    host: PoolHost, journal: JournalThread, kept: list[tuple[Shape, int]]
) -> list[tuple[Shape, int]]:
    rows = host.pool.demand_rows()
    if rows != kept:
        try:
            await journal.read(lambda open_journal: open_journal.write_demand(set(rows) - set(kept)))
        except JournalUnavailable as error:
            _log.warning("What was asked for could not be written down: %s", error)
            return kept
    return rows


async def until_unused(host: PoolHost, activity: Activity, idle_seconds: float) -> None:
    """Return when there has been no lease and no client for a while."""
    last_lease = asyncio.get_running_loop().time()
    while True:
        await asyncio.sleep(min(5.0, idle_seconds / 4))
        now = asyncio.get_running_loop().time()
        if host.leases:
            last_lease = now
        if min(activity.idle_seconds, now - last_lease) >= idle_seconds:
            return
