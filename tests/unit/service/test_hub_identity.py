"""Who asks, as JupyterHub says: asked in time, remembered for a moment, and never for asking for more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from jupyter_gpupool.service.auth import Authenticator, Forbidden, Principal, Scope, Unauthenticated
from jupyter_gpupool.service.errors import HubUnavailable
from jupyter_gpupool.service.hub.api import HubAPI
from jupyter_gpupool.service.hub.auth import READ_SECONDS, SILENCE_SECONDS, HubAuthenticator
from jupyter_gpupool.service.hub.settings import HubSettings, NoHub, read_hub
from tests.support.stand_in_hub import ACCESS, ADMIN, USER, StandInHub, stand_in_hub

pytestmark = pytest.mark.asyncio


@pytest.fixture
def hub() -> Iterator[StandInHub]:
    with stand_in_hub() as running:
        yield running


class Bench:
    """An authenticator, with a clock that is moved by hand."""

    def __init__(self, hub: StandInHub) -> None:
        self.seconds = 0.0
        self.api = HubAPI(HubSettings(api_url=hub.url, token="of-the-service"))
        local = Authenticator({"root": "of-the-machine-itself"}, administrators={"root"})
        self.auth = HubAuthenticator(self.api, "gpupool", local, monotonic=lambda: self.seconds)

    async def who(self, token: str, *, fresh: bool = False) -> Principal:
        return await self.auth.identify(f"Bearer {token}", fresh=fresh)


@pytest_asyncio.fixture
async def bench(hub: StandInHub) -> AsyncIterator[Bench]:
    made = Bench(hub)
    yield made
    made.api.close()


async def test_a_user_is_the_owner_and_may_what_the_token_may(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann")
    who = await bench.who("t1")
    assert (who.owner, who.scopes, who.administrator) == ("ann", {Scope.READ, Scope.LEASE}, False)
    hub.add("t2", "boss", ADMIN)
    assert (await bench.who("t2")).administrator


async def test_a_token_that_is_not_for_the_pool_is_refused(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann", ("custom:gpupool:lease", "access:services!service=other"))
    with pytest.raises(Forbidden, match="not for the pool"):
        await bench.who("t1")


async def test_a_token_without_our_scopes_may_nothing(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann", (ACCESS, "custom:gpupool:lease!user=bob"))
    assert (await bench.who("t1")).scopes == frozenset()


async def test_a_service_is_never_a_user_of_the_same_name(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann", ADMIN, kind="service")
    assert (await bench.who("t1")).owner == "service:ann"
    hub.add("t2", "service:ann")
    with pytest.raises(Forbidden):
        await bench.who("t2")


async def test_what_the_hub_said_is_good_for_a_moment_of_reading_only(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann")
    for _ in range(3):
        await bench.who("t1")
    assert hub.asked["t1"] == 1
    await bench.who("t1", fresh=True)
    assert hub.asked["t1"] == 2
    bench.seconds += READ_SECONDS + 1
    await bench.who("t1")
    assert hub.asked["t1"] == 3


async def test_who_was_revoked_asks_for_nothing_more(hub: StandInHub, bench: Bench) -> None:
    hub.add("t1", "ann")
    await bench.who("t1")
    del hub.identities["t1"]
    with pytest.raises(Unauthenticated):
        await bench.who("t1", fresh=True)
    with pytest.raises(Unauthenticated):
        await bench.who("t1")


async def test_while_the_hub_is_silent_one_can_read_and_not_ask_for_more(
    hub: StandInHub, bench: Bench
) -> None:
    hub.add("t1", "ann")
    await bench.who("t1")
    hub.broken = True
    bench.seconds += READ_SECONDS + 1
    assert (await bench.who("t1")).owner == "ann"
    with pytest.raises(HubUnavailable, match="does not say who you are"):
        await bench.who("t1", fresh=True)
    with pytest.raises(HubUnavailable):
        await bench.who("somebody-new")
    bench.seconds += SILENCE_SECONDS
    with pytest.raises(HubUnavailable):
        await bench.who("t1")


async def test_a_kernels_token_is_good_while_its_servers_is(hub: StandInHub, bench: Bench) -> None:
    hub.add("server", "ann")
    token = mint_kernel_token("server", KernelClaim(owner="ann", kernel_id="k1", generation=2))
    with pytest.raises(Unauthenticated, match="not spoken to the pool yet"):
        await bench.who(token)
    server = (await bench.who("server")).server
    assert server
    assert await bench.who(token) == Principal(
        owner="ann", kernel_id="k1", scopes=frozenset({Scope.READ, Scope.LEASE}), server=server
    )
    older = mint_kernel_token("server", KernelClaim(owner="ann", kernel_id="k1", generation=1))
    with pytest.raises(Unauthenticated, match="earlier run"):
        await bench.who(older)
    del hub.identities["server"]
    with pytest.raises(Unauthenticated):
        await bench.who(token, fresh=True)


async def test_a_kernels_token_is_never_good_for_more_than_a_kernels_leases(
    hub: StandInHub, bench: Bench
) -> None:
    hub.add("server", "boss", ADMIN)
    await bench.who("server")
    token = mint_kernel_token("server", KernelClaim(owner="boss", kernel_id="k1", generation=1))
    who = await bench.who(token)
    assert (who.scopes, who.administrator) == ({Scope.READ, Scope.LEASE}, False)


async def test_nobody_makes_a_kernels_token_for_somebody_else(hub: StandInHub, bench: Bench) -> None:
    hub.add("server-of-ann", "ann")
    hub.add("server-of-bob", "bob")
    await bench.who("server-of-ann")
    await bench.who("server-of-bob")
    forged = mint_kernel_token("server-of-bob", KernelClaim(owner="ann", kernel_id="k1", generation=1))
    with pytest.raises(Unauthenticated):
        await bench.who(forged)


async def test_the_machines_own_administrator_needs_no_hub(hub: StandInHub, bench: Bench) -> None:
    hub.broken = True
    assert (await bench.who("of-the-machine-itself", fresh=True)).administrator


@pytest.mark.parametrize("token", ["", "gpk.", "gpk.a.b", "ü" * 8, "x" * 5000, "a\r\nX: y"])
async def test_nonsense_is_refused(hub: StandInHub, bench: Bench, token: str) -> None:
    with pytest.raises(Unauthenticated):
        await bench.who(token)


async def test_the_hubs_token_is_taken_out_of_the_environment() -> None:
    environment = {
        "JUPYTERHUB_API_URL": "http://hub/hub/api/",
        "JUPYTERHUB_API_TOKEN": "secret",
        "JUPYTERHUB_SERVICE_PREFIX": "/h/services/pool/",
        "JUPYTERHUB_SERVICE_NAME": "pool",
        "JUPYTERHUB_BASE_URL": "/h/",
    }
    hub = read_hub(environment)
    assert (hub.api_url, hub.prefix, hub.client_id) == (
        "http://hub/hub/api",
        "/h/services/pool/",
        "service-pool",
    )
    assert "JUPYTERHUB_API_TOKEN" not in environment
    assert "secret" not in repr(hub)
    with pytest.raises(NoHub, match="JUPYTERHUB_API_TOKEN"):
        read_hub(environment)


async def test_user_scopes_are_those_that_a_user_gets() -> None:
    from jupyter_gpupool.hub.configuring import SCOPES

    assert set(USER[1:]) <= set(SCOPES)
