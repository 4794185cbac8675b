"""Fixtures of the contract tests: each backend, and children for it to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.contracts.worlds import CPU_MAKERS, MAKERS, World, make_world
from tests.support.fake_gpus import FakeGPUs
from tests.support.obedient import Child


@pytest.fixture(params=MAKERS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Give a backend of each kind; those of GPUs find two on a fake driver."""
    with FakeGPUs(tmp_path / "gpus").a100(2) if request.param == "nvidia" else nullcontext():
        made = make_world(request.param)
        yield made
        made.close()


@pytest.fixture(params=CPU_MAKERS)
def cpu(request: pytest.FixtureRequest) -> World:
    """Give the CPU backend with each mechanism."""
    return make_world(request.param)


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Start children that end with the test."""
    children: list[Child] = []

    def start(*, uid: int | None = None) -> Child:
        children.append(Child(uid=uid))
        return children[-1]

    yield start
    for child in children:
        child.end()


@pytest.fixture
def child(spawn: Callable[..., Child]) -> Child:
    """Give one child."""
    return spawn()
