"""A pool that other machines can join, in this process: its HTTPS door and its control plane, without a pool.

Rule of this module: everything that is started is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster.control import ControlPlane
from jupyter_gpupool.cluster.joined import JoinedPool
from jupyter_gpupool.cluster.joining import PoolAddress, ensure_joined, read_address
from jupyter_gpupool.cluster.link import AgentLink
from jupyter_gpupool.protocol import names, paths
from jupyter_gpupool.protocol.join import JoinToken
from jupyter_gpupool.protocol.messages import HelloReport, Report
from jupyter_gpupool.service import joining
from jupyter_gpupool.service.settings import ServiceSettings


async def _nothing_here(scope: Any, receive: Any, send: Any) -> None:
    """Answer as the API does where nothing is."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


class JoinBench:
    """The pool's side, and as many nodes as a test wants."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = contextlib.AsyncExitStack()
        self._serving = contextlib.AsyncExitStack()
        self.settings = ServiceSettings(
            runtime=paths.make_runtime_dir(),
            data=home / "pool",
            owner="test",
            listen="127.0.0.1",
            listen_port=0,
            control_port=0,
            start_agent=False,
        )
        self.joined: list[str] = []
        self.left: list[str] = []
        self.address = PoolAddress("", 0)

    async def serve(self) -> None:
        """Start the pool's side, again after `stop`."""
        self.settings.data.mkdir(exist_ok=True)
        self.parts = joining.prepare(self.settings)
        self.control = ControlPlane(
            tls=self.parts.tls,
            on_reports=self._on_reports,
            on_left=self._on_left,
            passes=self.parts.gate.passes,
            desk=self.parts.desk.handlers,
        )
        control = await self.control.start(self.parts.control_port(0))
        self._serving.push_async_callback(self.control.close)
        outside = joining.listening(self.settings, self.parts, _nothing_here, control)
        self.address = read_address(await self._serving.enter_async_context(outside))

    async def stop(self) -> None:
        """End the pool's side."""
        await self._serving.aclose()
        self._serving = contextlib.AsyncExitStack()

    def token(self, *, seconds: float = 60.0, uses: int = 1) -> JoinToken:
        """Make a join token."""
        return self.parts.authority.create_token(seconds=seconds, uses=uses)

    def node(self, name: str) -> JoinedPool:
        """Return what a node keeps."""
        return JoinedPool(self._home / name, self._home / "dask")

    async def join(self, name: str, token: JoinToken | None, address: PoolAddress | None = None) -> Any:
        """Let a node join."""
        where = address or self.address
        return await asyncio.to_thread(
            lambda: ensure_joined(self.node(name), where, token, node_id=f"node-{name}", node_name=name)
        )

    def link(self, name: str, *, says: str = "", format: int = names.FORMAT) -> AgentLink:  # noqa: A002
        """Start the link of a node that has joined, and end it with the test."""
        link = AgentLink(
            pool=self.node(name),
            node_id=f"node-{name}",
            hello=lambda: _hello(says or f"node-{name}", name, format),
            on_orders=lambda _: None,
        )
        running = asyncio.ensure_future(link.run())

        async def end() -> None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        self._stack.push_async_callback(end)
        return link

    async def close(self) -> None:
        """End everything that was started."""
        await self._stack.aclose()
        await self.stop()

    async def _on_reports(self, node_id: str, reports: list[Report]) -> None:
        self.joined.append(node_id)

    async def _on_left(self, node_id: str) -> None:
        self.left.append(node_id)


def _hello(node_id: str, name: str, format: int) -> HelloReport:  # noqa: A002
    return HelloReport(
        format=format,
        version=version(),
        node_id=node_id,
        hostname=name,
        pid=os.getpid(),
        socket="/nowhere",
        devices=[],
        holders=[],
    )


@contextlib.asynccontextmanager
async def join_bench(home: Path) -> AsyncIterator[JoinBench]:
    """Give a pool that other machines can join."""
    bench = JoinBench(home)
    try:
        await bench.serve()
        yield bench
    finally:
        await bench.close()
