"""The proxy of the pool's API for the browser."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from jupyter_server.auth.authorizer import Authorizer
from jupyter_server.utils import JupyterServerAuthWarning
from tornado.httpclient import HTTPClientError

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import ErrorDoc, ResizeRequest, SnapshotDoc, WhyDoc
from jupyter_gpupool.protocol.names import API_PREFIX
from jupyter_gpupool.server.link import LinkState
from tests.support.fake_pool import FakePool, lease_doc, ticket

API = ("jupyter_gpupool", "api", "v1")

#: Every route and method, and what a user must be allowed to do on what.
ROUTES = [
    ("GET", "pool", "read", "jupyter_gpupool:pool"),
    ("GET", "devices", "read", "jupyter_gpupool:pool"),
    ("GET", "nodes", "read", "jupyter_gpupool:pool"),
    ("GET", "queue", "read", "jupyter_gpupool:pool"),
    ("GET", "usage", "read", "jupyter_gpupool:pool"),
    ("GET", "snapshots", "read", "jupyter_gpupool:snapshots"),
    ("GET", "leases", "read", "jupyter_gpupool:leases"),
    ("GET", "leases/lease_1", "read", "jupyter_gpupool:leases"),
    ("PATCH", "leases/lease_1", "write", "jupyter_gpupool:leases"),
    ("DELETE", "leases/lease_1", "write", "jupyter_gpupool:leases"),
    ("GET", "leases/lease_1/why", "read", "jupyter_gpupool:leases"),
    ("POST", "leases/lease_1/pin", "write", "jupyter_gpupool:leases"),
    ("POST", "leases/lease_1/unpin", "write", "jupyter_gpupool:leases"),
    ("GET", "history", "read", "jupyter_gpupool:pool"),
]


class StrictAuthorizer(Authorizer):
    """Allows nothing of ours, and notes what it was asked."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        asked = handler.settings.setdefault("asked_of_authorizer", [])
        asked.append((action, resource))
        return not resource.startswith("jupyter_gpupool")


def body_for(method: str) -> dict[str, Any]:
    return {
        "PATCH": {"body": json.dumps({"compute_milli": 500})},
        "POST": {"body": "", "allow_nonstandard_methods": True},
    }.get(method, {})


async def refused(fetch: Any, *path: str, **kwargs: Any) -> tuple[int, dict[str, Any]]:
    """Fetch something that must be refused; return the status and the envelope."""
    with pytest.raises(HTTPClientError) as caught:
        await fetch(*path, **kwargs)
    assert caught.value.response is not None
    return caught.value.code, json.loads(caught.value.response.body)


@pytest.mark.parametrize(("method", "path", "action", "resource"), ROUTES)
async def test_nothing_is_answered_without_a_token(
    jp_fetch: Any, method: str, path: str, action: str, resource: str
) -> None:
    headers = {"Authorization": "token wrong"}
    status, doc = await refused(
        jp_fetch, *API, *path.split("/"), method=method, headers=headers, **body_for(method)
    )
    assert status == 403
    assert doc["code"] == "forbidden"


class TestWithAStrictAuthorizer:
    """With an authorizer that allows nothing of ours."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.ServerApp.authorizer_class = StrictAuthorizer
        return jp_server_config

    @pytest.mark.parametrize(("method", "path", "action", "resource"), ROUTES)
    async def test_each_method_asks_for_its_own_permission(
        self,
        jp_fetch: Any,
        jp_web_app: Any,
        fake_pool: FakePool,
        method: str,
        path: str,
        action: str,
        resource: str,
    ) -> None:
        status, doc = await refused(jp_fetch, *API, *path.split("/"), method=method, **body_for(method))
        assert (status, doc["code"]) == (403, "forbidden")
        assert jp_web_app.settings["asked_of_authorizer"] == [(action, resource)]
        assert fake_pool.asked == []

    async def test_the_stream_asks_to_read_the_pool(self, open_tab: Any, jp_web_app: Any) -> None:
        with pytest.raises(HTTPClientError) as caught:
            await open_tab()
        assert caught.value.code == 403
        assert jp_web_app.settings["asked_of_authorizer"] == [("read", "jupyter_gpupool:pool")]


async def test_the_server_finds_no_method_of_ours_without_authentication(
    jp_configurable_serverapp: Any, jp_server_config: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", JupyterServerAuthWarning)
        app = jp_configurable_serverapp(config=jp_server_config)
    assert app.web_app.settings["allow_unauthenticated_access"] is False


class TestWithALoginCookie:
    """A page in a browser that is logged in."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.IdentityProvider.cookie_name = "login"
        return jp_server_config

    @pytest.mark.parametrize("method", ["PATCH", "DELETE"])
    async def test_a_foreign_page_cannot_change_a_lease(
        self, jp_fetch: Any, fake_pool: FakePool, connected: Any, method: str
    ) -> None:
        await connected()
        login = (await jp_fetch("api", "me")).headers["Set-Cookie"].partition(";")[0]
        headers = {"Cookie": login, "Authorization": ""}
        status, doc = await refused(
            jp_fetch, *API, "leases", "lease_1", method=method, headers=headers, **body_for(method)
        )
        assert (status, doc["code"]) == (403, "forbidden")
        assert "_xsrf" in doc["message"]
        assert fake_pool.asked == []


async def test_snapshots_are_those_of_one_notebook_by_the_path_that_its_kernel_knows(
    jp_fetch: Any, jp_root_dir: Any, fake_pool: FakePool, connected: Any
) -> None:
    folder = jp_root_dir / "course"
    folder.mkdir()
    docs = [
        SnapshotDoc(id="1", name="mine", created_ms=2, notebook=str(folder / "a.ipynb"), last_words=True),
        SnapshotDoc(id="2", name="other", created_ms=1, notebook=str(jp_root_dir / "a.ipynb")),
    ]
    fake_pool.answer("GET", "snapshots", docs)
    await connected()
    answer = await jp_fetch(*API, "snapshots", params={"path": "course/a.ipynb"})
    assert [doc["name"] for doc in json.loads(answer.body)] == ["mine"]
    answer = await jp_fetch(*API, "snapshots")
    assert [doc["name"] for doc in json.loads(answer.body)] == ["mine", "other"]


@pytest.mark.parametrize("what", ["pool", "devices", "nodes", "queue", "usage"])
async def test_reading_passes_the_pools_answer_through(
    jp_fetch: Any, fake_pool: FakePool, connected: Any, what: str
) -> None:
    fake_pool.answer("GET", what, {"some": what})
    await connected()
    answer = await jp_fetch(*API, what)
    assert json.loads(answer.body) == {"some": what}
    assert answer.headers["Content-Type"] == "application/json"
    assert fake_pool.asked == [("GET", f"{API_PREFIX}/{what}", b"")]


@pytest.mark.parametrize(
    "path", [["health"], ["events"], ["snapshots", "key"], ["leases", "a", "b"], ["pool", "x"]]
)
async def test_what_is_not_on_the_list_does_not_exist(
    jp_fetch: Any, fake_pool: FakePool, connected: Any, path: list[str]
) -> None:
    await connected()
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch(*API, *path)
    assert caught.value.code == 404
    assert fake_pool.asked == []


async def test_a_browser_cannot_make_a_lease(jp_fetch: Any, fake_pool: FakePool, connected: Any) -> None:
    await connected()
    status, doc = await refused(jp_fetch, *API, "leases", method="POST", body="{}")
    assert (status, doc["code"]) == (405, "method_not_allowed")
    assert fake_pool.asked == []


async def test_a_ticket_never_reaches_a_browser(jp_fetch: Any, fake_pool: FakePool, connected: Any) -> None:
    lease = lease_doc(state=LeaseState.ATTACHING, attach=ticket())
    fake_pool.answer("GET", "leases", [lease])
    fake_pool.answer("GET", "leases/lease_1", lease)
    fake_pool.answer("PATCH", "leases/lease_1", lease)
    await connected()
    answers = [
        await jp_fetch(*API, "leases"),
        await jp_fetch(*API, "leases", "lease_1"),
        await jp_fetch(*API, "leases", "lease_1", method="PATCH", body='{"compute_milli": 500}'),
    ]
    for answer in answers:
        assert b"lease_1" in answer.body
        assert b"a-secret-ticket" not in answer.body


async def test_a_resize_is_passed_on(jp_fetch: Any, fake_pool: FakePool, connected: Any) -> None:
    fake_pool.answer("PATCH", "leases/lease_1", lease_doc(compute_milli=500))
    await connected()
    answer = await jp_fetch(
        *API, "leases", "lease_1", method="PATCH", body='{"compute_milli": 500, "unknown": 1}'
    )
    assert json.loads(answer.body)["compute_milli"] == 500
    [(method, path, body)] = fake_pool.asked
    assert (method, path) == ("PATCH", f"{API_PREFIX}/leases/lease_1")
    assert json.loads(body) == {"compute_milli": 500, "memory_bytes": None}
    assert ResizeRequest(compute_milli=500).memory_bytes is None


async def test_a_resize_that_cannot_be_read_never_reaches_the_pool(
    jp_fetch: Any, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    status, doc = await refused(
        jp_fetch, *API, "leases", "lease_1", method="PATCH", body='{"compute_milli": "half"}'
    )
    assert (status, doc["code"]) == (400, "bad_message")
    assert "compute_milli" in doc["message"]
    assert fake_pool.asked == []


async def test_a_release_keeps_the_status_and_the_reason(
    jp_fetch: Any, fake_pool: FakePool, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases/lease_1", lease_doc(state=LeaseState.ENDING), status=202)
    await connected()
    answer = await jp_fetch(*API, "leases", "lease_1", method="DELETE", params={"reason": "cancelled"})
    assert answer.code == 202
    assert fake_pool.asked == [("DELETE", f"{API_PREFIX}/leases/lease_1?reason=cancelled", b"")]


@pytest.mark.parametrize("verb", ["pin", "unpin"])
async def test_a_lease_can_be_pinned_and_unpinned_and_its_ticket_stays_here(
    jp_fetch: Any, fake_pool: FakePool, connected: Any, verb: str
) -> None:
    fake_pool.answer("POST", f"leases/lease_1/{verb}", lease_doc(pinned=verb == "pin"))
    await connected()
    answer = await jp_fetch(*API, "leases", "lease_1", verb, method="POST", body="")
    assert json.loads(answer.body)["pinned"] is (verb == "pin")
    assert fake_pool.asked == [("POST", f"{API_PREFIX}/leases/lease_1/{verb}", b"")]


async def test_why_a_lease_is_as_it_is_can_be_read(
    jp_fetch: Any, fake_pool: FakePool, connected: Any
) -> None:
    doc = WhyDoc(lease_id="lease_1", state=LeaseState.QUEUED, reason="It waits.", sentences=[])
    fake_pool.answer("GET", "leases/lease_1/why", doc)
    await connected()
    answer = await jp_fetch(*API, "leases", "lease_1", "why")
    assert json.loads(answer.body)["reason"] == "It waits."


async def test_the_history_has_what_the_stream_told(
    jp_fetch: Any, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    answer = json.loads((await jp_fetch(*API, "history")).body)
    assert answer["step_seconds"] == 10
    assert answer["leased"] == [0.0]
    assert answer["waiting"] == [0.0]
    assert answer["devices"] == {"CPU-1": [None]}


@pytest.mark.parametrize(
    ("status", "code"), [(404, "unknown_lease"), (409, "does_not_fit_now"), (503, "journal_unavailable")]
)
async def test_the_pools_refusals_are_passed_through(
    jp_fetch: Any, fake_pool: FakePool, connected: Any, status: int, code: str
) -> None:
    doc = ErrorDoc(code=code, message="No.", hint="Because.", retry_after=1.5)
    fake_pool.answer("DELETE", "leases/lease_1", doc, status=status)
    await connected()
    answered = await refused(jp_fetch, *API, "leases", "lease_1", method="DELETE")
    assert answered == (status, {"code": code, "message": "No.", "hint": "Because.", "retry_after": 1.5})


async def test_a_refused_server_token_is_not_mistaken_for_the_browsers_own(
    jp_fetch: Any, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    fake_pool.token = "another-token"
    status, doc = await refused(jp_fetch, *API, "pool")
    assert (status, doc["code"]) == (502, "unauthenticated")


async def test_without_a_pool_the_answer_says_so_and_what_to_do(
    jp_serverapp: Any, jp_fetch: Any, fake_pool: FakePool, parts: Any, connected: Any
) -> None:
    status, doc = await refused(jp_fetch, *API, "pool")
    assert status == 503
    assert doc == {"code": "unreachable", "message": "The pool is starting."}
    await connected()
    await fake_pool.stop()
    status, doc = await refused(jp_fetch, *API, "pool")
    assert status == 503
    assert doc["code"] == "unreachable"
    assert doc["hint"]
    assert parts.link.state in LinkState


async def test_reading_and_streaming_do_not_count_as_activity(
    jp_fetch: Any, open_tab: Any, jp_web_app: Any, fake_pool: FakePool, connected: Any
) -> None:
    fake_pool.answer("GET", "pool", fake_pool.doc)
    await connected()
    before = jp_web_app.last_activity()
    await jp_fetch(*API, "pool")
    tab = await open_tab()
    assert await tab.read_message() is not None
    assert "api_last_activity" not in jp_web_app.settings
    assert jp_web_app.last_activity() == before
