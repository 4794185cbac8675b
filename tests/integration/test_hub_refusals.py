"""Every route, asked by everybody who must not: from the contract, so that a new route is asked, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
import yaml

from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from jupyter_gpupool.service.api import PUBLIC
from tests.support.pool_process import Answer, PoolProcess, wait_for, world
from tests.support.stand_in_hub import ACCESS, ADMIN, StandInHub, stand_in_hub

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hub-refusals")]

CONTRACT: dict[str, Any] = yaml.safe_load(
    files("jupyter_gpupool.service").joinpath("openapi.yaml").read_text()
)
METHODS = ("get", "post", "put", "patch", "delete")
ROUTES = [
    (method.upper(), path)
    for path, item in CONTRACT["paths"].items()
    for method in item
    if method in METHODS and path not in PUBLIC
]
WITH_LEASE = [(method, path) for method, path in ROUTES if "{lease_id}" in path]
WITH_NODE = [(method, path) for method, path in ROUTES if "{name}" in path]
ANN, BOB, BOSS = "token-of-ann", "token-of-bob", "token-of-the-boss"
STREAMS = 3
SECRET = "anns-private-notebook"


@dataclass
class World:
    """A pool of a Hub, with a lease of ann's in it."""

    pool: PoolProcess
    hub: StandInHub
    lease: str = ""
    node: str = ""
    kernel: str = field(default="")

    def stream_is_free(self, token: str) -> bool:
        url, headers = f"{self.pool.url}/api/v1/events", {"Authorization": f"Bearer {token}"}
        stream = self.pool.http.request("GET", url, headers=headers, preload_content=False)
        stream.close()
        return bool(stream.status == 200)

    def ask(self, method: str, path: str, token: str, **headers: str) -> Answer:
        where = path.replace("{lease_id}", self.lease).replace("{process_id}", "p1")
        where = where.replace("{name}", self.node)
        body = None if method in ("GET", "DELETE") else {}
        if path.endswith("/leases/quiesce") or (method, path) == ("DELETE", "/api/v1/leases"):
            where += "?kernel_id=k1"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.pool.ask(method, where, body, token=token, headers=named)


@pytest.fixture(scope="module")
def world_of_a_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home: Path = tmp_path_factory.mktemp("refusals")
    with stand_in_hub() as hub:
        for token, name in ((ANN, "ann"), (BOB, "bob")):
            hub.add(token, name)
        hub.add(BOSS, "boss", ADMIN)
        environment = world(home) | {
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_API_TOKEN": "token-of-the-service",
            "JUPYTERHUB_SERVICE_PREFIX": "/services/gpupool/",
        }
        arguments = (
            *("--hub", "--PoolService.attach_seconds=3600", "--PoolService.requests_per_second=20"),
            f"--PoolService.owner_streams={STREAMS}",
        )
        pool = PoolProcess(environment, emulate="2xA100-80GB", arguments=arguments)
        try:
            made = World(pool.start(), hub)
            assert pool.get("/api/v1/pool", token=ANN).status == 200  # as a server's extension does
            made.kernel = mint_kernel_token(ANN, KernelClaim(owner="ann", kernel_id="k1", generation=1))
            body = {"compute_milli": 250, "holder": {"label": SECRET}}
            answer = pool.ask("POST", "/api/v1/leases", body, token=made.kernel)
            assert answer.status == 201, answer
            made.lease = answer.body["id"]
            made.node = pool.get("/api/v1/nodes", token=ANN).body[0]["id"]
            yield made
        finally:
            pool.cleanup()


@pytest.fixture(autouse=True)
def nothing_of_anns_changes(world_of_a_hub: World) -> Iterator[None]:
    yield
    doc = world_of_a_hub.pool.get(f"/api/v1/leases/{world_of_a_hub.lease}", token=ANN)
    assert doc.body["state"] == "attaching", doc
    assert doc.body["compute_milli"] == 250
    assert "Traceback" not in world_of_a_hub.pool.log()


def told_nothing(answer: Answer) -> bool:
    return SECRET not in str(answer.body) and "'ann'" not in str(answer.body)


@pytest.mark.parametrize("token", ["", "expired-or-revoked", "gpk.WyJhbm4iLCAiazEiLCA5XQ.bm90aGluZw"])
def test_who_is_nobody_is_refused_everywhere(world_of_a_hub: World, token: str) -> None:
    for method, path in ROUTES:
        answer = world_of_a_hub.ask(method, path, token)
        assert (answer.status, told_nothing(answer)) == (401, True), (method, path, answer)


def test_a_cookie_is_no_identity_for_the_api_wherever_the_request_comes_from(world_of_a_hub: World) -> None:
    for method, path in ROUTES:
        for prefix in ("", "/services/gpupool"):
            answer = world_of_a_hub.ask(
                method, prefix + path, "", Cookie=f"gpupool-session={ANN}", Origin="https://evil.example"
            )
            assert (answer.status, told_nothing(answer)) == (401, True), (method, path, answer)


def test_a_token_without_access_or_without_scopes_is_refused_everywhere(world_of_a_hub: World) -> None:
    hub = world_of_a_hub.hub
    hub.add("no-access", "ann", ("custom:gpupool:read", "custom:gpupool:lease"))
    hub.add("no-scope", "prometheus", (ACCESS,), kind="service")
    for method, path in ROUTES:
        for token in ("no-access", "no-scope"):
            answer = world_of_a_hub.ask(method, path, token)
            assert (answer.status, told_nothing(answer)) == (403, True), (method, path, answer)


def test_a_service_that_may_report_reads_the_metrics_without_names_and_nothing_else(
    world_of_a_hub: World,
) -> None:
    world_of_a_hub.hub.add("reports", "prometheus", (ACCESS, "custom:gpupool:report"), kind="service")
    for method, path in ROUTES:
        answer = world_of_a_hub.ask(method, path, "reports")
        allowed = (method, path) == ("GET", "/metrics")
        expected = (200 if allowed else 403, True)
        assert (answer.status, told_nothing(answer)) == expected, (method, path, answer)
    text = world_of_a_hub.ask("GET", "/metrics", "reports").body
    assert 'owner="other_' in text
    assert 'owner="ann"' not in text
    assert world_of_a_hub.ask("GET", "/metrics", "reads-not").status == 401


def test_a_token_that_may_read_changes_nothing(world_of_a_hub: World) -> None:
    world_of_a_hub.hub.add("reads", "ann", (ACCESS, "custom:gpupool:read"))
    for method, path in ROUTES:
        if method != "GET":
            answer = world_of_a_hub.ask(method, path, "reads")
            assert answer.status == 403, (method, path, answer)


def test_a_lease_of_somebody_else_is_not_there(world_of_a_hub: World) -> None:
    bobs = mint_kernel_token(BOB, KernelClaim(owner="bob", kernel_id="k1", generation=1))
    assert world_of_a_hub.pool.get("/api/v1/pool", token=BOB).status == 200
    for method, path in WITH_LEASE:
        for token in (BOB, bobs):
            answer = world_of_a_hub.ask(method, path, token)
            # what has a wrong body, or needs an administrator, is refused before it is looked for
            assert answer.status in (400, 403, 404), (method, path, answer)
            assert told_nothing(answer)


def test_a_node_is_nobodys_but_the_administrators(world_of_a_hub: World) -> None:
    for method, path in WITH_NODE:
        for token in (ANN, BOB):
            assert world_of_a_hub.ask(method, path, token).status == 403, (method, path)
    nodes = world_of_a_hub.pool.get("/api/v1/nodes", token=BOB).body
    assert [it["state"] for it in nodes] == ["ready"]


def test_what_another_user_reads_says_nothing_of_whose_leases_there_are(world_of_a_hub: World) -> None:
    for method, path in ROUTES:
        if "{" not in path and path != "/api/v1/events":
            answer = world_of_a_hub.ask(method, path, BOB)
            assert told_nothing(answer), (method, path, answer)
            assert world_of_a_hub.lease not in str(answer.body)
    mine = world_of_a_hub.pool.get("/api/v1/snapshots/key", token=BOB).body
    assert mine != world_of_a_hub.pool.get("/api/v1/snapshots/key", token=ANN).body


def test_another_kernel_of_the_same_owner_touches_nothing(world_of_a_hub: World) -> None:
    other = mint_kernel_token(ANN, KernelClaim(owner="ann", kernel_id="k2", generation=1))
    for method, path in WITH_LEASE:
        assert world_of_a_hub.ask(method, path, other).status in (400, 403, 404), (method, path)
    assert world_of_a_hub.ask("DELETE", "/api/v1/leases", other).status == 403


def test_who_was_revoked_is_refused_at_once(world_of_a_hub: World) -> None:
    hub, pool = world_of_a_hub.hub, world_of_a_hub.pool
    hub.add("cat", "cat")
    assert pool.ask("POST", "/api/v1/leases", {"compute_milli": 5000}, token="cat").status == 400
    del hub.identities["cat"]
    assert pool.ask("POST", "/api/v1/leases", {"compute_milli": 100}, token="cat").status == 401


def test_a_flood_of_one_owner_is_refused_and_costs_nobody_else_anything(world_of_a_hub: World) -> None:
    pool = world_of_a_hub.pool
    world_of_a_hub.hub.add("flood", "mallory")

    def refused() -> Answer | None:
        answer = pool.get("/api/v1/nodes", token="flood")
        return answer if answer.status == 429 else None

    answer = wait_for(refused, "the flood to be refused", 60)
    assert answer.body["code"] == "too_many_requests"
    assert answer.headers["Retry-After"] == "1"
    assert pool.get("/api/v1/pool", token=BOB).status == 200


def test_one_owner_has_so_many_event_streams_and_no_more(world_of_a_hub: World) -> None:
    pool = world_of_a_hub.pool
    world_of_a_hub.hub.add("tabs", "dave")
    headers = {"Authorization": "Bearer tabs"}
    with urllib3.PoolManager(maxsize=4, retries=False) as http, ExitStack() as stack:
        for _ in range(STREAMS):
            stream = http.request("GET", f"{pool.url}/api/v1/events", headers=headers, preload_content=False)
            stack.callback(stream.close)
            assert stream.status == 200
        assert pool.get("/api/v1/events", token="tabs").status == 429
        assert pool.get("/api/v1/nodes", token="tabs").status == 200
    wait_for(lambda: world_of_a_hub.stream_is_free("tabs"), "the places of closed streams to be free")


def test_a_huge_body_is_refused(world_of_a_hub: World) -> None:
    answer = world_of_a_hub.pool.ask("POST", "/api/v1/leases", b"x" * 500_000, token=BOB)
    assert answer.status == 413


def test_an_administrator_sees_names_and_ends_a_lease_with_a_message_on_record(world_of_a_hub: World) -> None:
    pool = world_of_a_hub.pool
    hub = world_of_a_hub.hub
    hub.add("dora", "dora")
    lease = pool.ask("POST", "/api/v1/leases", {"compute_milli": 100}, token="dora").body["id"]
    seen = pool.get("/api/v1/leases", token=BOSS).body
    assert {it["owner"] for it in seen} >= {"ann", "dora"}
    path = f"/api/v1/leases/{lease}/end"
    assert pool.ask("POST", path, {"message": "no"}, token="dora").status == 403
    answer = pool.ask("POST", path, {"message": "The room is closed."}, token=BOSS)
    assert answer.status in (200, 202), answer
    ended = pool.get(f"/api/v1/leases/{lease}", token="dora").body
    assert (ended["end_reason"], ended["end_detail"]) == ("admin_ended", "The room is closed.")
    newest = pool.get("/api/v1/audit", token=BOSS).body[0]
    assert (newest["who"], newest["subject"], newest["owner"]) == ("boss", lease, "dora")
    assert pool.get("/api/v1/audit", token="dora").status == 403


def test_the_page_sends_a_browser_to_the_hub_and_takes_no_code_that_it_did_not_ask_for(
    world_of_a_hub: World,
) -> None:
    pool = world_of_a_hub.pool
    answer = pool.http.request("GET", pool.url + "/services/gpupool/", redirect=False)
    where = urlsplit(answer.headers["Location"])
    assert (answer.status, where.path) == (302, "/hub/api/oauth2/authorize")
    state = parse_qs(where.query)["state"][0]
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie, "the proxy was asked by HTTP"
    https = {"X-Forwarded-Proto": "https,http"}
    answer = pool.http.request("GET", pool.url + "/services/gpupool/", redirect=False, headers=https)
    assert answer.headers["Set-Cookie"].endswith("; Secure")
    for headers in ({}, {"Cookie": "gpupool-login=another"}):
        path = f"/services/gpupool/oauth_callback?code=c&state={state}"
        assert pool.ask("GET", path, token="", headers=headers).status == 403
    assert pool.ask("POST", "/services/gpupool/end", b"lease=x&proof=y", token="").status == 401
