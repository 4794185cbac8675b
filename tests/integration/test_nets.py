"""Three of the four nets that end a lease, each with the others taken away.

The fourth, the Jupyter server's side, has a file of its own (test_server_net.py). Kernels here are not run by
our provisioner, so nothing but the net under test can know that they ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.paths import make_runtime_dir
from tests.support.limits import in_force, lives
from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

ROOT = Path(__file__).parents[2]
REQUEST = "import jupyter_gpupool as gpupool; lease = gpupool.request(0.25); lease.id"
NO_SWEEP = "--PoolService.sweep_seconds=100000"
NO_GRACE_END = "--PoolService.agent_grace_seconds=100000"
OWN_AGENT = "--PoolService.start_agent=False"


@contextmanager
def an_agent(
    environment: Mapping[str, str], log: Path, **settings: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent that is not the service's to start again."""
    asked = {"runtime": str(make_runtime_dir()), **settings}
    with log.open("ab") as output:
        agent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.agent_process", json.dumps(asked)],
            env=dict(environment),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield agent
    finally:
        agent.kill()
        agent.wait(10)


def kill(pid: int) -> None:
    """Kill a kernel and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not lives(pid), "the kernel to be gone")


def test_the_end_of_the_process_alone_ends_the_lease(pool_environment: dict[str, str]) -> None:
    with running_pool(arguments=(NO_SWEEP, NO_GRACE_END)) as pool, notebook(pool_environment) as book:
        lease_id = book.ok(REQUEST).result.strip("'")
        kill(book.pid)

        assert pool.wait_state(lease_id, "ended")["end_reason"] == "holder_exited"


def test_the_sweep_alone_ends_the_lease(pool_environment: dict[str, str], tmp_path: Path) -> None:
    with (
        an_agent(pool_environment, tmp_path / "agent.log", watch_holders=False),
        running_pool(arguments=("--PoolService.sweep_seconds=0.5", NO_GRACE_END, OWN_AGENT)) as pool,
        notebook(pool_environment) as book,
    ):
        lease_id = book.ok(REQUEST).result.strip("'")
        kill(book.pid)

        assert pool.wait_state(lease_id, "ended")["end_reason"] == "holder_exited"


@pytest.mark.slow
@pytest.mark.beside
def test_nothing_ends_the_lease_when_every_net_is_taken_away(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    with (
        an_agent(pool_environment, tmp_path / "agent.log", watch_holders=False),
        running_pool(arguments=(NO_SWEEP, NO_GRACE_END, OWN_AGENT)) as pool,
        notebook(pool_environment) as book,
    ):
        lease_id = book.ok(REQUEST).result.strip("'")
        kill(book.pid)

        with pytest.raises(AssertionError, match="in vain"):
            pool.wait_state(lease_id, "ended", seconds=3)


@pytest.mark.slow
@pytest.mark.beside
def test_losing_the_agent_alone_ends_the_lease_and_the_next_agent_takes_the_limits_away(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = (NO_SWEEP, "--PoolService.agent_grace_seconds=1", OWN_AGENT)
    log = tmp_path / "agent.log"
    with (
        an_agent(pool_environment, log) as agent,
        running_pool(arguments=arguments) as pool,
        notebook(pool_environment) as book,
    ):
        before = in_force(book.pid)
        lease_id = book.ok(REQUEST).result.strip("'")
        assert in_force(book.pid) != before
        agent.kill()
        agent.wait(10)

        assert pool.wait_state(lease_id, "ended")["end_reason"] == "agent_lost"
        assert lives(book.pid)

        with an_agent(pool_environment, log):
            _offered_only_without_the_old_holder(pool, book.pid, before)


def _offered_only_without_the_old_holder(pool: PoolProcess, pid: int, before: object) -> None:
    """Check that the device is offered again, and only once the old holder is free of its limits."""

    def offered() -> bool:
        devices = pool.get("/api/v1/devices").body
        return bool(devices) and devices[0]["offered"]

    wait_for(offered, "the device to be offered again")
    assert in_force(pid) == before
