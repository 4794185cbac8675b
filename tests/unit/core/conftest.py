"""Pools for tests: whatever a test does with one, its invariants hold at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.testing import PoolDriver, a_device
from tests.support.pools import MakePool


@pytest.fixture
def a_pool() -> Iterator[MakePool]:
    """Make pools: ``a_pool(device, …, config=…)``."""
    made: list[PoolDriver] = []

    def make(*devices: Device, config: PoolConfig | None = None) -> PoolDriver:
        made.append(PoolDriver(devices, config=config))
        return made[-1]

    yield make
    for driver in made:
        driver.check()


@pytest.fixture
def pool(a_pool: MakePool) -> PoolDriver:
    """Make the pool of a laptop: one node with one CPU device of 16 GiB."""
    return a_pool(a_device("cpu"))
