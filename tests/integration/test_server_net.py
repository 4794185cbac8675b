"""The server's side as the only net: no process is watched, nothing is swept, and the agent is never away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Config

from jupyter_gpupool.protocol.paths import make_runtime_dir
from tests.support.pool_process import PoolProcess, running_pool
from tests.support.server_kernels import (
    PATIENCE_SECONDS,
    REQUEST,
    Kernel,
    ended,
    held_by,
    start_kernel_on,
)
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
#: For so long nothing may happen to a lease that no net holds, seconds.
NOTHING_SECONDS = 2.0


@pytest.fixture
def pool(pool_environment: dict[str, str], tmp_path: Path) -> Iterator[PoolProcess]:
    """Run a pool whose agent watches no process and that never sweeps."""
    settings = {"runtime": str(make_runtime_dir()), "watch_holders": False}
    with (tmp_path / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.agent_process", json.dumps(settings)],
            env=pool_environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with running_pool(arguments=("--PoolService.sweep_seconds=100000",)) as running:
            assert running.agent_pid == agent.pid
            yield running
    finally:
        agent.kill()
        agent.wait(10)


@pytest.fixture(autouse=True)
def fresh_factory() -> Iterator[None]:
    KernelProvisionerFactory.clear_instance()
    yield
    KernelProvisionerFactory.clear_instance()


@pytest.fixture
def jp_server_config(pool: PoolProcess) -> Config:
    return Config(
        {
            "ServerApp": {"jpserver_extensions": {"jupyter_gpupool": True}},
            # A restarted kernel waits 10 s in vain for its lease here: that is no stable start.
            "AsyncIOLoopKernelRestarter": {
                "time_to_dead": 0.2,
                "restart_limit": 1,
                "stable_start_time": 100.0,
            },
        }
    )


@pytest.fixture
def start_kernel(jp_fetch: Any, jp_serverapp: Any) -> Callable[[], Awaitable[Kernel]]:
    return lambda: start_kernel_on(jp_serverapp, jp_fetch)


async def test_a_shutdown_alone_ends_the_lease(pool: PoolProcess, start_kernel: Any) -> None:
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    await held_by(pool, lease_id, lambda: kernel.pid)
    await kernel.end()
    assert await ended(pool, lease_id) == "kernel_shutdown"


@pytest.mark.slow
@pytest.mark.beside
async def test_giving_a_kernel_up_alone_ends_the_lease(
    pool: PoolProcess, start_kernel: Any, pool_environment: dict[str, str], tmp_path: Path
) -> None:
    crash = tmp_path / "crash"
    startup = Path(pool_environment["IPYTHONDIR"]) / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "crash.py").write_text(
        f"import os, pathlib\nif pathlib.Path({str(crash)!r}).exists(): os._exit(1)\n"
    )
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    await held_by(pool, lease_id, lambda: kernel.pid)
    crash.touch()
    os.kill(kernel.pid, signal.SIGKILL)
    await until(
        lambda: pool.lease(lease_id)["state"] == "ended", what="the lease to end", seconds=PATIENCE_SECONDS
    )
    assert pool.lease(lease_id)["end_reason"] == "kernel_dead"


class TestWithThisNetOffToo:
    """The check of the checks above: without this net, nothing ends the lease."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.GPUPoolExtension.release_on_shutdown = False
        return jp_server_config

    @pytest.mark.slow
    @pytest.mark.beside
    async def test_a_shutdown_ends_nothing(self, pool: PoolProcess, start_kernel: Any) -> None:
        kernel = await start_kernel()
        lease_id = await kernel.run(REQUEST)
        await held_by(pool, lease_id, lambda: kernel.pid)
        await kernel.end()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(NOTHING_SECONDS):
                await until(lambda: pool.lease(lease_id)["state"] != "active", what="anything at all")
        pool.release(lease_id)
        assert await ended(pool, lease_id) == "released"
