"""The hooks of a spawner, in a real spawner of JupyterHub, with a pool in name only."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import pytest_asyncio
from jupyterhub.spawner import LocalProcessSpawner
from tornado.web import HTTPError
from traitlets.config import Config

import jupyter_gpupool.hub
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from tests.support.fake_pool import FakePool, lease_doc, ticket
from tests.support.some_user import SomeUser

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def pool() -> Any:
    found = FakePool()
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
def config() -> Config:
    return Config()


def spawner(config: Config, pool: FakePool, options: dict[str, Any], **configure: Any) -> Any:
    """Make a spawner as a Hub with our line does, which has the token of a server."""
    where = {"url": pool.url, "api_token": "x" * 32, "server_host": "here", "offers": ["0.25"]}
    jupyter_gpupool.hub.configure(config, **{**where, **configure})
    made = LocalProcessSpawner(config=config, user=SomeUser(pool.token), log=logging.getLogger("hub"))
    made.api_token = pool.token
    made.user_options = options
    return made


async def started(made: Any) -> str:
    """Do what a Hub does before it starts a server, and return the lease that the server is told of."""
    await made._run_apply_user_options(made.user_options)
    await made.run_pre_spawn_hook()
    return str(made.environment[names.ENV_SERVER_LEASE](made))


QUARTER = {"gpupool": {"share": "0.25", "wait_minutes": 0}}


async def test_what_was_configured_before_comes_first_and_stays(config: Config, pool: FakePool) -> None:
    seen: list[str] = []

    async def before(spawner: Any) -> None:
        seen.append("before")

    def after(spawner: Any) -> None:
        seen.append("after")

    async def form(spawner: Any) -> str:
        return f"<p>for {spawner.user.name}</p>"

    config.Spawner.pre_spawn_hook = before
    config.Spawner.post_stop_hook = after
    config.Spawner.options_form = form
    config.Spawner.options_from_form = "simple"
    config.Spawner.apply_user_options = {"folder": "notebook_dir"}
    pool.answer("POST", "leases", lease_doc("lease_1", state=LeaseState.ATTACHING, attach=ticket()))
    pool.answer("DELETE", "leases/lease_1", lease_doc("lease_1", state=LeaseState.ENDED))
    made = spawner(config, pool, {**QUARTER, "folder": "/work"})
    page = await made.get_options_form()
    assert page.startswith("<p>for ann</p>")
    assert "0.25 of a GPU" in page
    sent = {"folder": ["/home"], "gpupool_share": ["0.25"], "gpupool_wait_minutes": ["0"]}
    assert made.run_options_from_form(sent) == {"folder": "/home", **QUARTER}
    assert await started(made) == "lease_1"
    assert (seen, made.notebook_dir) == (["before"], "/work")
    await made.run_post_stop_hook()
    assert seen == ["before", "after"]
    assert [(method, path) for method, path, _ in pool.asked if method == "DELETE"] == [
        ("DELETE", f"{names.API_PREFIX}/leases/lease_1")
    ]
    assert made.environment[names.ENV_SERVER_LEASE](made) == "", "not that of the last start"


async def test_a_server_without_a_share_asks_nothing_of_the_pool(config: Config, pool: FakePool) -> None:
    for options in ({}, {"gpupool": {"share": "none", "wait_minutes": 0}}):
        assert await started(spawner(config, pool, options)) == ""
    assert pool.asked == []


async def test_options_of_an_earlier_time_are_looked_at_again_before_the_start(
    config: Config, pool: FakePool
) -> None:
    made = spawner(config, pool, {"gpupool": {"share": "0.5"}}, offers=lambda spawner: ["0.25"])
    with pytest.raises(HTTPError) as caught:
        await made._run_apply_user_options(made.user_options)
    assert caught.value.status_code == 400
    with pytest.raises(HTTPError, match=r"Allowed: share: none, 0\.25") as caught:
        await made.run_pre_spawn_hook()
    assert caught.value.status_code == 400
    assert pool.asked == []


async def test_a_pool_that_is_away_is_no_fault_of_the_user(config: Config, pool: FakePool) -> None:
    made = spawner(config, pool, QUARTER)
    await pool.stop()
    assert "The pool does not answer now." in await made.get_options_form()
    with pytest.raises(HTTPError) as caught:
        await started(made)
    assert caught.value.status_code == 503
    assert made.environment[names.ENV_SERVER_LEASE](made) == ""


async def test_a_share_that_is_not_granted_says_what_to_do(config: Config, pool: FakePool) -> None:
    pool.answer("POST", "leases", lease_doc("lease_1", state=LeaseState.ENDED, reason="No room was found."))
    pool.answer("DELETE", "leases/lease_1", lease_doc("lease_1", state=LeaseState.ENDED))
    with pytest.raises(HTTPError) as caught:
        await started(spawner(config, pool, QUARTER))
    assert caught.value.status_code == 409
    assert "No room was found. Choose less, wait longer, or start without" in str(
        caught.value.jupyterhub_message  # type: ignore[attr-defined]
    )


async def test_a_share_on_another_machine_than_servers_run_on_is_given_back(
    config: Config, pool: FakePool
) -> None:
    pool.answer("POST", "leases", lease_doc("lease_1", state=LeaseState.ATTACHING, attach=ticket()))
    pool.answer("DELETE", "leases/lease_1", lease_doc("lease_1", state=LeaseState.ENDED))
    with pytest.raises(HTTPError) as caught:
        await started(spawner(config, pool, QUARTER, server_host="there"))
    assert "only on node here, and servers run on there" in str(caught.value)
    assert pool.asked[-1][0] == "DELETE"
