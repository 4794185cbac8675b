"""Real kernels of a Jupyter server that runs in the test's own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.server.link import LinkState
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts
from tests.support.pool_process import PoolProcess
from tests.support.waiting import until

#: Long enough for a kernel to start and attach on a busy machine, seconds.
PATIENCE_SECONDS = 60.0

REQUEST = """
import jupyter_gpupool as gpupool
lease = gpupool.request(0.05, kind="cpu")
print(lease.id)
"""


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


async def start_kernel_on(app: Any, fetch: Any) -> Kernel:
    """Start a kernel; before the first one, the extension."""
    parts: ServerParts = app.web_app.settings[PARTS_KEY]
    if parts.link.state is not LinkState.CONNECTED:
        await app.extension_manager.start_all_extensions()
        await until(lambda: parts.link.state is LinkState.CONNECTED, what="the link to be connected")
    return await Kernel(fetch, app.kernel_manager).start()


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
