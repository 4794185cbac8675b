"""Work on leases counts as activity of the server and its kernels; looking never does."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import HolderDoc
from jupyter_gpupool.server import working
from tests.support.fake_pool import FakePool, lease_doc, pool_doc
from tests.support.waiting import until

Start = Callable[[], Awaitable[Any]]
LONG_AGO = datetime.now(UTC) - timedelta(hours=5)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "LOOK_SECONDS", 0.02)


@pytest.fixture
def start(jp_fetch: Any, jp_serverapp: Any, jp_data_dir: Path, connected: Any) -> Start:
    """Return what follows the pool, and starts a kernel that says nothing, as one that computes."""
    place = jp_data_dir / "kernels" / "mute"
    place.mkdir(parents=True)
    argv = ["sh", "-c", "exec sleep 300", "{connection_file}"]
    spec = {"argv": argv, "display_name": "mute", "language": "none"}
    (place / "kernel.json").write_text(json.dumps(spec))

    async def begin() -> Any:
        await connected()
        answer = await jp_fetch("api", "kernels", method="POST", body=json.dumps({"name": "mute"}))
        kernel = jp_serverapp.kernel_manager.get_kernel(json.loads(answer.body)["id"])
        aged(jp_serverapp, kernel)
        return kernel

    return begin


def aged(server: Any, kernel: Any) -> None:
    """Let nothing have happened for hours."""
    server.web_app.settings["started"] = LONG_AGO
    server.web_app.settings["api_last_activity"] = LONG_AGO
    server.kernel_manager.last_kernel_activity = kernel.last_activity = LONG_AGO


def ago(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


@pytest.mark.parametrize(("idle", "least", "most"), [(0.0, 0, 60), (1800.0, 1700, 1900)])
async def test_when_a_lease_was_used_last_is_when_its_kernel_and_the_server_were(
    start: Start, jp_serverapp: Any, fake_pool: FakePool, idle: float, least: float, most: float
) -> None:
    kernel = await start()
    mine = HolderDoc(kernel_id=kernel.kernel_id)
    fake_pool.publish(pool_doc(2, leases=[lease_doc(holder=mine, idle_seconds=idle)]))
    await until(lambda: kernel.last_activity > LONG_AGO, what="it is told")
    assert least <= ago(kernel.last_activity) < most
    assert least <= ago(jp_serverapp.web_app.last_activity()) < most


@pytest.mark.parametrize(
    "changes",
    [
        {"idle_seconds": None},
        {"idle_seconds": 0.0, "mine": False},
        {"idle_seconds": 0.0, "state": LeaseState.ENDING},
        {"idle_seconds": 0.0, "holder": HolderDoc(kernel_id="of-another-server")},
    ],
)
async def test_what_is_unknown_or_of_others_is_no_activity(
    start: Start, jp_serverapp: Any, fake_pool: FakePool, changes: Any
) -> None:
    kernel = await start()
    fields = {"holder": HolderDoc(kernel_id=kernel.kernel_id), **changes}
    seen = lease_doc("lease_2", holder=HolderDoc(kernel_id=kernel.kernel_id), idle_seconds=3600.0)
    fake_pool.publish(pool_doc(2, leases=[lease_doc(**fields), seen]))
    await until(lambda: kernel.last_activity > LONG_AGO, what="the other lease is looked at")
    assert ago(kernel.last_activity) > 3500
    assert ago(jp_serverapp.web_app.last_activity()) > 3500
