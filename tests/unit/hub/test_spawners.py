"""One configuration under each of the usual spawners: real classes, with a pool in name only.

What they start is not there (containers, a batch system, a cluster), so that the hooks are run as a Hub runs
them, up to the start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from batchspawner import SlurmSpawner
from dockerspawner import DockerSpawner, SwarmSpawner, SystemUserSpawner
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from kubespawner import KubeSpawner
from systemdspawner import SystemdSpawner
from traitlets.config import Config
from wrapspawner import ProfilesSpawner, WrapSpawner

import jupyter_gpupool.hub
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from tests.support.fake_pool import FakePool, lease_doc, ticket
from tests.support.some_user import SomeUser

pytestmark = pytest.mark.asyncio
QUARTER = {"gpupool": {"share": "0.25", "wait_minutes": 0}}


def kube(config: Config) -> None:
    config.KubeSpawner.profile_list = [{"display_name": "Small", "slug": "small"}]


def docker(config: Config) -> None:
    config.DockerSpawner.allowed_images = ["one", "two"]


def profiles(config: Config) -> None:
    config.ProfilesSpawner.profiles = [("Here", "here", LocalProcessSpawner, {"start_timeout": 15})]


def plain(config: Config) -> None:
    """Configure nothing."""


#: Class, how it is configured, and a word of its own form.
SPAWNERS = [
    (LocalProcessSpawner, plain, ""),
    (SimpleLocalProcessSpawner, plain, ""),
    (SystemdSpawner, plain, ""),
    (SlurmSpawner, plain, ""),
    (DockerSpawner, docker, "two"),
    (SystemUserSpawner, docker, "two"),
    (SwarmSpawner, docker, "two"),
    (KubeSpawner, kube, "Small"),
    (WrapSpawner, plain, ""),
    (ProfilesSpawner, profiles, "Here"),
]


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[FakePool]:
    found = FakePool()
    await found.start()
    found.answer("POST", "leases", lease_doc("lease_1", state=LeaseState.ATTACHING, attach=ticket()))
    found.answer("DELETE", "leases/lease_1", lease_doc("lease_1", state=LeaseState.ENDED))
    yield found
    await found.stop()


@pytest.fixture(autouse=True)
def some_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Kubernetes' client find the configuration of a cluster that is not there."""
    place = tmp_path / "kubeconfig"
    place.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], current-context: c,"
        " contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}"
    )
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(place))


def made(kind: type[Any], configured: Callable[[Config], None], pool: FakePool, **options: Any) -> Any:
    """Make a spawner of a class as a Hub with our line does."""
    config = Config()
    configured(config)
    jupyter_gpupool.hub.configure(config, url=pool.url, api_token="x" * 32, server_host="here", **options)
    mock = {"_mock": True} if kind is KubeSpawner else {}
    return kind(config=config, user=SomeUser(pool.token), log=logging.getLogger("hub"), **mock)


@pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning")  # wrapspawner does
@pytest.mark.parametrize(("kind", "configured", "word"), SPAWNERS, ids=[it[0].__name__ for it in SPAWNERS])
async def test_a_server_has_its_share_under_it(
    kind: type[Any], configured: Callable[[Config], None], word: str, pool: FakePool
) -> None:
    spawner = made(kind, configured, pool, offers=["0.25"])
    await spawner.run_auth_state_hook(None)
    page = await spawner.get_options_form()
    assert "0.25 of a GPU" in page
    assert word in page, "its own form is there, too"
    sent = {"gpupool_share": ["0.25"], "gpupool_wait_minutes": ["0"], "profile": ["here"]}
    options = spawner.run_options_from_form(sent)
    assert {key: options[key] for key in QUARTER} == QUARTER

    spawner.clear_state()
    spawner.api_token = pool.token
    spawner.user_options = options
    await spawner._run_apply_user_options(options)
    await spawner.run_pre_spawn_hook()
    starts = getattr(spawner, "child_spawner", None) or spawner
    assert starts.environment[names.ENV_SERVER_LEASE](starts) == "lease_1"
    assert starts.environment[names.ENV_HUB_URL] == pool.url
    shown = [event["message"] async for event in _first(spawner.progress())]
    assert shown == ["Granted: 0.25 of a GPU on ."]

    spawner.clear_state()  # as of a server that has ended by itself
    await spawner.run_post_stop_hook()
    assert [method for method, _, _ in pool.asked].count("DELETE") == 1


async def _first(events: Any) -> AsyncIterator[Any]:
    """Yield the first event alone: the others are about what is not there."""
    async for event in events:
        yield event
        await events.aclose()
        return


async def test_where_nothing_is_offered_a_spawners_form_is_its_own(pool: FakePool) -> None:
    for kind, configured, word in SPAWNERS:
        spawner = made(kind, configured, pool)
        page = await spawner.get_options_form() or ""
        assert word in page, kind
        assert "gpupool" not in page, kind
        assert spawner.environment[names.ENV_AUTOSTART] == "0", kind
