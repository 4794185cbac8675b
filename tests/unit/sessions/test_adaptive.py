"""When a cluster that follows its load grows and shrinks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from distributed.metrics import time

from jupyter_gpupool.sessions.adaptive import PoolAdaptive


@dataclass
class PlayedScheduler:
    """Wants a number of workers."""

    wanted: int = 0

    async def adaptive_target(self, target_duration: float) -> int:
        return self.wanted


@dataclass
class PlayedCluster:
    """A cluster that grows and shrinks as it is told."""

    scheduler_comm: PlayedScheduler = field(default_factory=PlayedScheduler)
    workers: list[str] = field(default_factory=list)
    capacity: int = 6
    refused_at: float = -math.inf

    @property
    def plan(self) -> set[str]:
        return set(self.workers)

    requested = observed = plan

    def scale(self, n: int) -> None:
        self.workers = [f"w{number}" for number in range(n)]

    async def scale_down(self, workers: list[str]) -> None:
        self.workers = [name for name in self.workers if name not in workers]


def adaptive(cluster: PlayedCluster, **options: Any) -> PoolAdaptive:
    """Make one that looks when it is told to."""
    return PoolAdaptive(cluster, interval=0, **options)  # type: ignore[arg-type]


@pytest.mark.asyncio
@pytest.mark.parametrize(("maximum", "most"), [(4, 4), (None, 6), (math.inf, 6)])
async def test_it_never_grows_beyond_its_maximum_and_has_one_always(maximum: float | None, most: int) -> None:
    cluster = PlayedCluster()
    looks = adaptive(cluster, minimum=1, maximum=maximum)
    for wanted in (0, 3, 100):
        cluster.scheduler_comm.wanted = wanted
        await looks.adapt()
    assert len(cluster.workers) == most
    assert looks.maximum == most


@pytest.mark.asyncio
async def test_it_gives_nothing_back_for_a_while_after_it_has_grown() -> None:
    cluster = PlayedCluster(PlayedScheduler(4))
    looks = adaptive(cluster, maximum=4, wait_count=1, calm_seconds=math.inf)
    await looks.adapt()
    cluster.scheduler_comm.wanted = 0
    await looks.adapt()
    assert await looks.safe_target() == 4
    assert len(cluster.workers) == 4


@pytest.mark.asyncio
async def test_a_pool_that_refused_is_not_asked_again_at_once() -> None:
    cluster = PlayedCluster(PlayedScheduler(4), workers=["w0", "w1"], refused_at=time())
    looks = adaptive(cluster, maximum=4)
    assert await looks.safe_target() == 2
    cluster.refused_at = -math.inf
    assert await looks.safe_target() == 4


@pytest.mark.asyncio
async def test_a_lower_maximum_counts_at_once() -> None:
    cluster = PlayedCluster(PlayedScheduler(8), workers=["w0", "w1", "w2"])
    assert await adaptive(cluster, maximum=2, calm_seconds=math.inf).safe_target() == 2
