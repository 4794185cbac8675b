"""Nothing is left behind: what exists before and after random lifecycles in which everything is killed."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_cuda import HOLDER as CUDA_HOLDER
from tests.support.fake_cuda import cuda_environment
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS
from tests.support.lifecycles import Kills, Lifecycles
from tests.support.node_bench import HOLDER
from tests.support.pool_process import PoolProcess, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")

#: Repeats a course: the seed that a failure names.
SEED_VARIABLE = "NOTHING_LEFT_SEED"


def _seed() -> int:
    return int(os.environ.get(SEED_VARIABLE, "") or secrets.randbelow(2**32))


def _nothing_is_left(
    count: int,
    kills: Kills,
    environment: Mapping[str, str],
    command: list[str],
    **settings: Any,
) -> None:
    """Go through lifecycles, and compare what exists afterwards with what existed before."""
    seed = _seed()
    course = Lifecycles(PoolProcess(environment), command, seed=seed, kills=kills, **settings)
    try:
        course.start()
        before = course.whats_there()
        course.run(count)
        try:
            wait_for(lambda: course.whats_there() == before, "everything to be as before", 20)
        except AssertionError:
            after = course.whats_there()
            left = {what: after[what] - before[what] for what in after if after[what] != before[what]}
            gone = {what: before[what] - after[what] for what in left}
            assert not left, f"left: {left}; gone: {gone}"
    except BaseException as error:
        error.add_note(f"Repeat it with {SEED_VARIABLE}={seed}.\n{course.log()}")
        raise
    finally:
        course.close()


_CPU_HOLDER = [sys.executable, "-I", os.fspath(HOLDER)]


def test_nothing_is_left_of_10_lifecycles_on_the_cpu(pool_environment: dict[str, str]) -> None:
    _nothing_is_left(10, Kills(agents=1, services=0), pool_environment, _CPU_HOLDER)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_left_of_200_lifecycles_on_the_cpu(pool_environment: dict[str, str]) -> None:
    _nothing_is_left(200, Kills(agents=30, services=12), pool_environment, _CPU_HOLDER)


def _on_gpus(count: int, kills: Kills, environment: dict[str, str], gpus: FakeGPUs, **rules: Any) -> None:
    """Go through lifecycles of holders that use CUDA."""
    _nothing_is_left(
        count,
        kills,
        cuda_environment(gpus.state, {**environment, **gpus.environment(), "PATH": environment["PATH"]}),
        [sys.executable, "-I", os.fspath(CUDA_HOLDER)],
        agent={"rules": rules},
        request={"kind": "cuda", "memory_bytes": 2**31},
        then=[("init", {}), ("alloc", {"bytes": 2**26})],
        spawns=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_left_of_100_lifecycles_on_gpus(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(2)
    _on_gpus(100, Kills(agents=10, services=4), pool_environment, gpus, sharing=_shared_by("timeslice"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_left_of_200_lifecycles_with_mps(pool_environment: dict[str, str], tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(2)
    with FakeMPS(tmp_path / "mps") as mps:
        environment = {**pool_environment, "PATH": mps.environment()["PATH"]}
        _on_gpus(200, Kills(agents=20, services=8), environment, gpus, sharing=_shared_by("mps"))
        wait_for(lambda: mps.processes() == [], "no daemon to be left")


def _shared_by(how: str) -> list[dict[str, str]]:
    return [{"model": "*", "sharing": how}]
