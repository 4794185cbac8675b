"""Work on leases counts as activity of the server and of its kernels, so that no culler ends what runs.

A kernel whose threads or children use a device runs no cell and says nothing, so that Jupyter takes it for
idle, and so does the Hub, which its server tells. The pool knows better.

Rules of this module: only what the pool has seen counts, never that somebody asks or looks; what is unknown
is no activity; it asks nobody, and changes nothing but times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.server.background import LifeTask
from jupyter_gpupool.server.link import PoolLink

#: How often it is looked, seconds: cullers count in minutes.
LOOK_SECONDS = 10.0
#: Under which name the server's own times have ours.
NAME = "jupyter_gpupool"


class Working:
    """Tells a server and its kernels when their leases were used last.

    Parameters
    ----------
    link : PoolLink
        The link to the pool.
    kernels : callable
        Returns the managers of the server's kernels by id.
    times : dict of str to datetime
        The server's ``last_activity_times``.
    server_lease : str
        Id of the lease that the server has for all of its kernels; empty for none.
    """

    def __init__(
        self,
        link: PoolLink,
        kernels: Callable[[], Mapping[str, Any]],
        times: dict[str, datetime],
        server_lease: str = "",
    ) -> None:
        self._link = link
        self._kernels = kernels
        self._times = times
        self._server_lease = server_lease
        self._task = LifeTask("jupyter_gpupool working")

    def start(self) -> None:
        """Begin to look; returns at once."""
        self._task.start(self._run)

    async def close(self) -> None:
        """Look no more."""
        await self._task.end()

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Note of each lease of this server when it was used last, as far as the pool says that now."""
        if self._link.pool is None or not self._link.connected:
            return
        kernels, now = self._kernels(), datetime.now(UTC)
        for lease in self._link.pool.leases:
            kernel = kernels.get(lease.holder.kernel_id)
            ours = kernel is not None or (lease.id == self._server_lease != "")
            if (
                not ours
                or not lease.mine
                or lease.state is not LeaseState.ACTIVE
                or lease.idle_seconds is None
            ):
                continue
            used = now - timedelta(seconds=lease.idle_seconds)
            if kernel is not None and used > getattr(kernel, "last_activity", used):
                kernel.last_activity = used
            self._times[NAME] = max(used, self._times.get(NAME, used))
