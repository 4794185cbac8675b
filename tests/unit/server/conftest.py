"""A Jupyter server with our extension, whose pool is a `FakePool`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Config

from jupyter_gpupool.server.link import LinkState
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts
from tests.support.fake_pool import FakePool
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def fresh_factory() -> Iterator[None]:
    """Keep the process-wide factory of provisioners from leaking between tests."""
    KernelProvisionerFactory.clear_instance()
    yield
    KernelProvisionerFactory.clear_instance()


@pytest.fixture
def fake_pool(jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[FakePool]:
    pool = FakePool()
    jp_asyncio_loop.run_until_complete(pool.start())
    yield pool
    jp_asyncio_loop.run_until_complete(pool.stop())


@pytest.fixture
def jp_server_config(fake_pool: FakePool) -> Config:
    return Config(
        {
            "ServerApp": {
                # The terminals have a method that the strict mode below warns of.
                "jpserver_extensions": {"jupyter_gpupool": True, "jupyter_server_terminals": False},
                "reraise_server_extension_failures": True,
                "allow_unauthenticated_access": False,
            },
            "GPUPoolExtension": {"url": fake_pool.url, "token": fake_pool.token},
        }
    )


@pytest.fixture
def open_tab(
    jp_ws_fetch: Any, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Callable[..., Awaitable[Any]]]:
    """Open the live channel as a browser tab does; all are closed in the end."""
    tabs: list[Any] = []

    async def open_one(**kwargs: Any) -> Any:
        tabs.append(await jp_ws_fetch("jupyter_gpupool", "api", "v1", "stream", **kwargs))
        return tabs[-1]

    async def close_all() -> None:
        for tab in tabs:
            already_closed = tab.close_code is not None
            tab.close()
            async with asyncio.timeout(20):
                while not already_closed and await tab.read_message() is not None:
                    pass

    yield open_one
    jp_asyncio_loop.run_until_complete(close_all())


@pytest.fixture
def parts(jp_serverapp: Any) -> ServerParts:
    found: ServerParts = jp_serverapp.web_app.settings[PARTS_KEY]
    return found


@pytest.fixture
def connected(jp_serverapp: Any, parts: ServerParts) -> Callable[[], Awaitable[None]]:
    """Start the extension as the server does once its loop runs, and wait until it follows the pool."""

    async def start() -> None:
        await jp_serverapp.extension_manager.start_all_extensions()
        await until(lambda: parts.link.state is LinkState.CONNECTED, what="the link to be connected")

    return start
