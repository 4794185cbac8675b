"""Following the load: Dask's own adaptive scaling, with a hard maximum and a calm hand.

Rule of this module: it may grow at once and shrinks late, so that a pause between two computations does not
give away what the next one would wait for; a pool that refused is not asked again and again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from distributed.deploy.adaptive import Adaptive
from distributed.metrics import time

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster

#: How often the load is looked at.
INTERVAL = "1s"
#: How often in a row a worker must be superfluous before it is given back.
WAIT_COUNT = 10
#: After it has grown, nothing is given back for so long, seconds.
CALM_SECONDS = 15.0
#: After the pool has refused a worker, no further one is asked for during so long, seconds.
REFUSED_SECONDS = 30.0


class PoolAdaptive(Adaptive):  # type: ignore[misc]
    """Adaptive scaling on leases.

    Parameters
    ----------
    cluster : GPUPoolCluster
        The cluster.
    maximum : int or float or None
        The most workers; None or infinite for as many as the pool has room for when it is empty.
    calm_seconds : float
        For how long nothing is given back after it has grown.
    **options
        As `distributed.deploy.Adaptive` has them.
    """

    cluster: GPUPoolCluster

    def __init__(
        self,
        cluster: GPUPoolCluster,
        *,
        maximum: float | None = None,
        calm_seconds: float = CALM_SECONDS,
        **options: Any,
    ) -> None:
        bounded = cluster.capacity if maximum is None or math.isinf(maximum) else int(maximum)
        options.setdefault("interval", INTERVAL)
        options.setdefault("wait_count", WAIT_COUNT)
        self._calm_seconds = calm_seconds
        self._grew = -math.inf
        super().__init__(cluster, maximum=bounded, **options)

    async def safe_target(self) -> int:
        """Return how many workers there should be, within the bounds."""
        wanted = int(await super().safe_target())
        present = len(self.plan)
        if wanted > present and time() - self.cluster.refused_at < REFUSED_SECONDS:
            return present
        if wanted < present <= self.maximum and time() - self._grew < self._calm_seconds:
            return present
        return wanted

    async def scale_up(self, n: int) -> None:
        """Ask for more."""
        self._grew = time()
        self.cluster.scale(n)

    async def scale_down(self, workers: list[str]) -> None:
        """Give some back; what they run ends first."""
        await self.cluster.scale_down(workers)
