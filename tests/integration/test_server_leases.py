"""Leases of real kernels under a real Jupyter server and a real pool."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Config

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


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool() as running:
        yield running


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
            "AsyncIOLoopKernelRestarter": {"time_to_dead": 0.2},
        }
    )


@pytest.fixture
def start_kernel(jp_fetch: Any, jp_serverapp: Any) -> Callable[[], Awaitable[Kernel]]:
    """Start a kernel each time."""
    return lambda: start_kernel_on(jp_serverapp, jp_fetch)


@pytest.mark.slow
@pytest.mark.beside
async def test_a_shutdown_ends_the_lease_and_says_why(pool: PoolProcess, start_kernel: Any) -> None:
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    doc = await held_by(pool, lease_id, lambda: kernel.pid)
    assert doc["holder"]["kernel_id"] == kernel.id
    assert doc["holder"]["restartable"] is True
    await kernel.end()
    assert await ended(pool, lease_id) == "kernel_shutdown"


@pytest.mark.slow
@pytest.mark.beside
async def test_a_restarted_kernel_keeps_its_lease_under_a_new_process(
    pool: PoolProcess, start_kernel: Any
) -> None:
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    before = await held_by(pool, lease_id, lambda: kernel.pid)
    await kernel.restart()
    after = await held_by(pool, lease_id, lambda: kernel.pid)
    assert after["holder"]["pid"] != before["holder"]["pid"]
    assert after["generation"] == before["generation"] + 1
    await kernel.end()
    assert await ended(pool, lease_id) == "kernel_shutdown"


async def test_a_killed_kernel_comes_back_and_holds_its_lease_again(
    pool: PoolProcess, start_kernel: Any
) -> None:
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    killed = kernel.pid
    os.kill(killed, signal.SIGKILL)
    await until(lambda: kernel.pid != killed, what="the kernel to be restarted", seconds=30)
    after = await held_by(pool, lease_id, lambda: kernel.pid)
    assert after["generation"] == 2
    await kernel.end()


@pytest.mark.slow
@pytest.mark.beside
async def test_the_lease_of_a_kernel_in_a_crash_loop_ends_when_the_server_gives_up(
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
    crash.touch()
    os.kill(kernel.pid, signal.SIGKILL)
    await until(
        lambda: pool.lease(lease_id)["state"] == "ended", what="the lease to end", seconds=PATIENCE_SECONDS
    )
    assert pool.lease(lease_id)["end_reason"] == "kernel_dead"


async def test_a_kernel_reaches_only_its_own_lease(pool: PoolProcess, start_kernel: Any) -> None:
    first, second = await start_kernel(), await start_kernel()
    lease_id = await first.run(REQUEST)
    seen = await second.run(
        "import os, urllib.request\n"
        "from urllib.error import HTTPError\n"
        f"url = os.environ['JUPYTER_GPUPOOL_URL'] + '/api/v1/leases/{lease_id}'\n"
        "auth = {'Authorization': 'Bearer ' + os.environ['JUPYTER_GPUPOOL_TOKEN']}\n"
        "try: print(urllib.request.urlopen(urllib.request.Request(url, headers=auth)).status)\n"
        "except HTTPError as error: print(error.code)\n"
    )
    assert seen == "404"
    await first.end()
    await second.end()
