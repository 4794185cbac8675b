"""Leases of real kernels under a real Jupyter server and a real pool."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Config

from jupyter_gpupool.server.link import LinkState
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts
from tests.support.pool_process import PoolProcess, running_pool
from tests.support.waiting import until

#: Long enough for a kernel to start and attach on a busy machine, seconds.
PATIENCE_SECONDS = 60.0

REQUEST = """
import jupyter_gpupool as gpupool
lease = gpupool.request(0.05, kind="cpu")
print(lease.id)
"""


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


class Kernel:
    """A kernel of the server, started, restarted and ended over REST, and spoken to directly."""

    def __init__(self, fetch: Any, manager: Any) -> None:
        self._fetch = fetch
        self._manager = manager
        self.id = ""

    async def start(self) -> Kernel:
        answer = await self._fetch(
            "api",
            "kernels",
            method="POST",
            body=json.dumps({"name": "python3"}),
            request_timeout=PATIENCE_SECONDS,
        )
        self.id = json.loads(answer.body)["id"]
        return self

    async def restart(self) -> None:
        await self._fetch(
            "api",
            "kernels",
            self.id,
            "restart",
            method="POST",
            body="{}",
            request_timeout=PATIENCE_SECONDS,
        )

    async def end(self) -> None:
        await self._fetch("api", "kernels", self.id, method="DELETE", request_timeout=PATIENCE_SECONDS)

    @property
    def pid(self) -> int:
        pid: int = self._manager.get_kernel(self.id).provisioner.pid
        return pid

    async def run(self, code: str) -> str:
        """Run a cell and return what it printed; it must not fail."""
        printed: list[str] = []

        def note(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])

        client = self._manager.get_kernel(self.id).client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=PATIENCE_SECONDS)
            reply = await client.execute_interactive(code, timeout=PATIENCE_SECONDS, output_hook=note)
        finally:
            client.stop_channels()
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()


@pytest.fixture
def start_kernel(jp_fetch: Any, jp_serverapp: Any) -> Callable[[], Awaitable[Kernel]]:
    """Start the extension once, and a kernel each time."""

    async def start() -> Kernel:
        parts: ServerParts = jp_serverapp.web_app.settings[PARTS_KEY]
        if parts.link.state is not LinkState.CONNECTED:
            await jp_serverapp.extension_manager.start_all_extensions()
            await until(lambda: parts.link.state is LinkState.CONNECTED, what="the link to be connected")
        return await Kernel(jp_fetch, jp_serverapp.kernel_manager).start()

    return start


async def held_by(pool: PoolProcess, lease_id: str, pid: Callable[[], int]) -> Any:
    """Wait until a lease is held by the process of the moment."""

    def look() -> bool:
        doc = pool.lease(lease_id)
        assert doc["state"] in ("attaching", "active"), doc
        return bool(doc["state"] == "active" and doc["holder"]["pid"] == pid())

    await until(look, what="the lease to be held by the present process", seconds=PATIENCE_SECONDS)
    return pool.lease(lease_id)


async def ended(pool: PoolProcess, lease_id: str) -> str:
    """Wait until a lease is over; return why."""
    await until(lambda: pool.lease(lease_id)["state"] == "ended", what="the lease to end", seconds=30)
    return str(pool.lease(lease_id)["end_reason"])


async def test_a_shutdown_ends_the_lease_and_says_why(pool: PoolProcess, start_kernel: Any) -> None:
    kernel = await start_kernel()
    lease_id = await kernel.run(REQUEST)
    doc = await held_by(pool, lease_id, lambda: kernel.pid)
    assert doc["holder"]["kernel_id"] == kernel.id
    assert doc["holder"]["restartable"] is True
    await kernel.end()
    assert await ended(pool, lease_id) == "kernel_shutdown"


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
