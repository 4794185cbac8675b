"""Leases over HTTP from a real service with emulated devices: who may do what, and what is answered."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from jupyter_gpupool.protocol.names import API_PREFIX
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world

BOB = "bobs-token-that-is-long-enough"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    """One service for this module, with a second owner: bob."""
    home = tmp_path_factory.mktemp("shared")
    config = home / "config.py"
    config.write_text(
        f"c.PoolService.tokens = {{'bob': '{BOB}'}}\nc.PoolService.waiter_grace_seconds = 1.0\n"
    )
    with running_pool(world(home), emulate="4xA100-80GB", arguments=("--config", str(config))) as pool:
        yield pool


@pytest.fixture
def pool(shared: PoolProcess) -> Iterator[PoolProcess]:
    """Use the same, with nothing left behind in it by a test."""
    yield shared
    for token in (shared.token, BOB):
        for lease in shared.get(f"{API_PREFIX}/leases", token=token).body:
            if lease["mine"]:
                shared.ask("DELETE", f"{API_PREFIX}/leases/{lease['id']}", token=token)
    wait_for(lambda: shared.get(f"{API_PREFIX}/leases").body == [], "all leases to be gone")


def kernel_token(pool: PoolProcess, kernel_id: str, generation: int = 1) -> str:
    owner = pool.get(f"{API_PREFIX}/pool").body["me"]
    claim = KernelClaim(owner=owner, kernel_id=kernel_id, generation=generation)
    return mint_kernel_token(pool.token, claim)


def code(answer: Any) -> tuple[int, str]:
    return answer.status, answer.body["code"]


def test_a_lease_is_granted_with_a_ticket_and_released(pool: PoolProcess) -> None:
    doc = pool.request(250)
    assert doc["state"] == "attaching"
    assert doc["attach"]["ticket"]
    assert doc["memory_bytes"] == doc["shares"][0]["memory_bytes"]
    ended = pool.release(doc["id"])
    assert (ended["state"], ended["end_reason"]) == ("ended", "released")
    assert pool.release(doc["id"])["state"] == "ended"
    assert pool.lease(doc["id"])["reason"] == "Released."


def test_where_nobody_can_be_harmed_a_lease_is_safe_to_signal_at_once(pool: PoolProcess) -> None:
    token = kernel_token(pool, "k-1")
    doc = pool.ask("POST", f"{API_PREFIX}/leases", {"compute_milli": 250}, token=token).body
    safe = {"leases": 1, "quiesced": 1}
    assert pool.ask("POST", f"{API_PREFIX}/leases/{doc['id']}/quiesce").body == safe
    assert pool.ask("POST", f"{API_PREFIX}/leases/quiesce?kernel_id=k-1", token=token).body == safe
    none = {"leases": 0, "quiesced": 0}
    assert pool.ask("POST", f"{API_PREFIX}/leases/quiesce?kernel_id=k-1", token=BOB).body == none
    others = pool.ask("POST", f"{API_PREFIX}/leases/{doc['id']}/quiesce", token=BOB)
    assert code(others) == (404, "unknown_lease")
    foreign = pool.ask("POST", f"{API_PREFIX}/leases/quiesce?kernel_id=k-2", token=token)
    assert code(foreign) == (403, "forbidden")
    assert pool.get(f"{API_PREFIX}/leases/quiesce").status == 405


class TestIdentity:
    """Every route, with every kind of token."""

    ROUTES = (
        *((name, "GET") for name in ("pool", "devices", "nodes", "queue", "leases", "usage", "events")),
        ("leases", "POST"),
        ("leases?kernel_id=k", "DELETE"),
        ("leases/quiesce?kernel_id=k", "POST"),
        (f"leases/{'x' * 10}/quiesce", "POST"),
        *((f"leases/{'x' * 10}", method) for method in ("GET", "PATCH", "DELETE")),
    )

    @pytest.mark.parametrize(("route", "method"), ROUTES)
    @pytest.mark.parametrize("token", ["", "wrong", "gpk.e30.x", "gpk.bm90anNvbg.x"])
    def test_without_a_good_token_nothing_is_told(
        self, pool: PoolProcess, route: str, method: str, token: str
    ) -> None:
        body = {"compute_milli": 1} if method in ("POST", "PATCH") else None
        answer = pool.ask(method, f"{API_PREFIX}/{route}", body, token=token)
        assert code(answer) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"] == "Bearer"

    def test_health_needs_no_token(self, pool: PoolProcess) -> None:
        answer = pool.get("/health", token="")
        assert answer.status == 200
        assert answer.body == {"status": "ok", "version": answer.body["version"], "api": 1}

    def test_the_other_spelling_of_a_token_is_taken(self, pool: PoolProcess) -> None:
        answer = pool.get(f"{API_PREFIX}/pool", token="", headers={"Authorization": f"token {pool.token}"})
        assert answer.status == 200

    def test_metrics_are_for_owners(self, pool: PoolProcess) -> None:
        assert pool.get("/metrics", token="").status == 401
        assert pool.get("/metrics", token=kernel_token(pool, "k-metrics")).status == 403
        text = pool.get("/metrics").body
        assert 'jupyter_gpupool_devices{offered="true"} 4.0' in text
        assert "jupyter_gpupool_journal_writable 1.0" in text

    def test_metrics_show_who_holds_what_to_whoever_runs_the_service_only(self, pool: PoolProcess) -> None:
        lease = pool.ask("POST", f"{API_PREFIX}/leases", {"compute_milli": 250}, token=BOB).body
        assert f'jupyter_gpupool_lease_compute_ratio{{lease="{lease["id"]}",' in pool.get("/metrics").body
        assert 'owner="bob"' in pool.get("/metrics").body
        mine = pool.request(250)
        text = pool.get("/metrics", token=BOB).body
        assert f'lease="{lease["id"]}"' in text
        assert mine["id"] not in text
        assert f'owner="{mine["owner"]}"' not in text

    def test_another_owners_lease_does_not_exist(self, pool: PoolProcess) -> None:
        lease = pool.request(250)
        path = f"{API_PREFIX}/leases/{lease['id']}"
        assert code(pool.get(path, token=BOB)) == (404, "unknown_lease")
        assert code(pool.ask("PATCH", path, {"compute_milli": 1}, token=BOB)) == (404, "unknown_lease")
        assert code(pool.ask("DELETE", path, token=BOB)) == (404, "unknown_lease")
        assert pool.lease(lease["id"])["state"] == "attaching"

    def test_another_owners_lease_is_listed_without_a_name(self, pool: PoolProcess) -> None:
        lease = pool.request(250, holder={"key": "k", "label": "secret.ipynb"})
        seen = pool.get(f"{API_PREFIX}/pool", token=BOB).body
        (other,) = seen["leases"]
        assert (other["mine"], other["owner"], other["attach"]) == (False, "", None)
        assert other["id"].startswith("other_")
        assert other["compute_milli"] == 250
        assert [device["leases"] for device in seen["devices"] if device["leases"]] == [[other["id"]]]
        text = json.dumps(seen)
        assert lease["id"] not in text
        assert "secret" not in text
        assert lease["attach"]["ticket"] not in text
        again = pool.get(f"{API_PREFIX}/leases", token=BOB).body
        assert again[0]["id"] == other["id"]

    def test_usage_is_the_owners_own(self, pool: PoolProcess) -> None:
        (before,) = pool.get(f"{API_PREFIX}/usage", token=BOB).body
        pool.request(250)
        (bobs,) = pool.get(f"{API_PREFIX}/usage", token=BOB).body
        assert (bobs["owner"], bobs["leases"]) == ("bob", before["leases"])
        (mine,) = pool.get(f"{API_PREFIX}/usage").body
        assert mine["live_leases"] == 1

    def test_a_kernel_reaches_its_own_leases_only(self, pool: PoolProcess) -> None:
        mine = kernel_token(pool, "kernel-1")
        others = pool.request(100)
        own = pool.ask("POST", f"{API_PREFIX}/leases", {"compute_milli": 100}, token=mine).body
        assert own["holder"] == {
            "key": "kernel-1",
            "kernel_id": "kernel-1",
            "label": "",
            "pid": None,
            "restartable": True,
        }
        path = f"{API_PREFIX}/leases/{others['id']}"
        assert pool.get(path, token=mine).status == 404
        assert pool.ask("DELETE", path, token=mine).status == 404
        assert pool.get(f"{API_PREFIX}/leases/{own['id']}", token=mine).status == 200
        listed = pool.get(f"{API_PREFIX}/leases", token=mine).body
        assert sorted(lease["mine"] for lease in listed) == [False, True]
        foreign = f"{API_PREFIX}/leases?kernel_id=kernel-2"
        assert code(pool.ask("DELETE", foreign, token=mine)) == (403, "forbidden")

    def test_identity_is_never_taken_from_a_body(self, pool: PoolProcess) -> None:
        body = {
            "compute_milli": 100,
            "owner": "ann",
            "kernel_id": "k9",
            "holder": {"key": "k", "kernel_id": "k9", "restartable": True},
        }
        doc = pool.ask("POST", f"{API_PREFIX}/leases", body, token=BOB).body
        assert (doc["owner"], doc["holder"]["kernel_id"], doc["holder"]["restartable"]) == ("bob", "", False)

    def test_the_token_of_an_earlier_run_of_a_kernel_is_refused(self, pool: PoolProcess) -> None:
        older, newer = kernel_token(pool, "kernel-g", 1), kernel_token(pool, "kernel-g", 2)
        assert pool.get(f"{API_PREFIX}/pool", token=older).status == 200
        assert pool.get(f"{API_PREFIX}/pool", token=newer).status == 200
        assert code(pool.get(f"{API_PREFIX}/pool", token=older)) == (401, "unauthenticated")

    def test_a_token_signed_by_somebody_else_is_refused(self, pool: PoolProcess) -> None:
        claim = KernelClaim(owner="bob", kernel_id="k", generation=1)
        assert pool.get(f"{API_PREFIX}/pool", token=mint_kernel_token(pool.token, claim)).status == 401

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
    def test_other_host_names_are_refused(self, pool: PoolProcess, host: str) -> None:
        answer = pool.get(f"{API_PREFIX}/pool", headers={"Host": host})
        assert code(answer) == (403, "forbidden")


class TestAnswers:
    """Statuses and errors."""

    def test_nothing_there_is_an_error_document(self, pool: PoolProcess) -> None:
        assert code(pool.get("/nope")) == (404, "not_found")
        answer = pool.ask("PUT", f"{API_PREFIX}/leases")
        assert code(answer) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == "GET, POST, DELETE"
        assert answer.headers["X-Request-Id"] == answer.body["request_id"]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b"", (400, "bad_message")),
            (b"{", (400, "bad_message")),
            (b'{"compute_milli": "1"}', (400, "bad_message")),
            (b"[" * 5000, (400, "bad_message")),
            (b'{"compute_milli": 0}', (400, "invalid_value")),
            (b'{"compute_milli": 1001}', (400, "invalid_value")),
            (b'{"compute_milli": 99999999999999999999999}', (400, "invalid_value")),
            (b'{"compute_milli": 1, "wait_seconds": -1}', (400, "invalid_value")),
            (b'{"compute_milli": 1, "hold_seconds": 0}', (400, "invalid_value")),
            (b'{"compute_milli": 1, "device": "a\\nb"}', (400, "invalid_value")),
            (b'{"compute_milli": 1, "memory_bytes": 1152921504606846976}', (400, "invalid_value")),
            (b'{"compute_milli": 1, "memory_bytes": 1152921504606846975}', (422, "never_fits")),
            (b'{"compute_milli": 1, "kind": "cpu"}', (422, "no_such_device")),
            (b'{"compute_milli": 1, "device": "cuda9"}', (422, "no_such_device")),
            (b" " * 70_000, (413, "too_large")),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, pool: PoolProcess, body: bytes, expected: tuple[int, str]
    ) -> None:
        assert code(pool.ask("POST", f"{API_PREFIX}/leases", body)) == expected

    def test_a_holder_has_one_lease_of_a_kind(self, pool: PoolProcess) -> None:
        pool.request(100, holder={"key": "k"})
        body = {"compute_milli": 100, "holder": {"key": "k"}}
        answer = pool.ask("POST", f"{API_PREFIX}/leases", body)
        assert code(answer) == (409, "already_holds")
        assert "Resize" in answer.body["hint"]

    def test_who_does_not_want_to_wait_is_told_at_once(self, pool: PoolProcess) -> None:
        for _ in range(4):
            pool.request(1000)
        body = {"compute_milli": 1, "wait_seconds": 0}
        assert code(pool.ask("POST", f"{API_PREFIX}/leases", body)) == (409, "does_not_fit_now")

    def test_a_lease_that_is_attaching_cannot_be_resized(self, pool: PoolProcess) -> None:
        lease = pool.request(100)
        answer = pool.ask("PATCH", f"{API_PREFIX}/leases/{lease['id']}", {"compute_milli": 200})
        assert code(answer) == (409, "illegal_transition")

    @pytest.mark.parametrize("query", ["?reason=boredom", "?kernel_id=&reason=released", ""])
    def test_an_end_needs_a_kernel_and_a_reason(self, pool: PoolProcess, query: str) -> None:
        assert code(pool.ask("DELETE", f"{API_PREFIX}/leases{query}"))[0] == 400

    def test_workers_of_a_kernel_hold_leases_of_their_own_and_end_with_it(self, pool: PoolProcess) -> None:
        token = kernel_token(pool, "kernel-scale")
        own = pool.ask("POST", f"{API_PREFIX}/leases", {"compute_milli": 100}, token=token).body
        bodies = [{"compute_milli": 100, "holder": {"key": "another", "worker": f"w{it}"}} for it in (0, 1)]
        workers = [pool.ask("POST", f"{API_PREFIX}/leases", body, token=token).body for body in bodies]
        assert [doc["holder"]["key"] for doc in workers] == ["kernel-scale/w0", "kernel-scale/w1"]
        assert [doc["holder"]["restartable"] for doc in (own, *workers)] == [True, False, False]
        twice = pool.ask("POST", f"{API_PREFIX}/leases", bodies[0], token=token)
        assert code(twice) == (409, "already_holds")
        answer = pool.ask("DELETE", f"{API_PREFIX}/leases?kernel_id=kernel-scale&reason=kernel_shutdown")
        assert {doc["id"] for doc in answer.body} == {doc["id"] for doc in (own, *workers)}

    def test_all_leases_of_a_kernel_end_together(self, pool: PoolProcess) -> None:
        token = kernel_token(pool, "kernel-end")
        lease = pool.ask("POST", f"{API_PREFIX}/leases", {"compute_milli": 100}, token=token).body
        pool.request(100)
        answer = pool.ask("DELETE", f"{API_PREFIX}/leases?kernel_id=kernel-end&reason=kernel_shutdown")
        assert [doc["id"] for doc in answer.body] == [lease["id"]]
        assert answer.body[0]["end_reason"] == "kernel_shutdown"
        assert pool.ask("DELETE", f"{API_PREFIX}/leases?kernel_id=kernel-end").body == []


class TestIdempotency:
    """A create that is sent twice is done once."""

    PATH = f"{API_PREFIX}/leases"

    def test_the_same_key_is_the_same_lease(self, pool: PoolProcess) -> None:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        first = pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers)
        again = pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers)
        assert (first.status, again.status) == (201, 201)
        assert first.body["id"] == again.body["id"]
        assert first.headers["Location"] == again.headers["Location"] == f"{self.PATH}/{first.body['id']}"
        pool.release(first.body["id"])
        ended = pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers)
        assert (ended.status, ended.body["state"]) == (201, "ended")

    def test_the_same_key_for_another_body_is_refused(self, pool: PoolProcess) -> None:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers)
        answer = pool.ask("POST", self.PATH, {"compute_milli": 200}, headers=headers)
        assert code(answer) == (409, "idempotency_conflict")

    def test_a_key_belongs_to_its_owner(self, pool: PoolProcess) -> None:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        mine = pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers).body
        bobs = pool.ask("POST", self.PATH, {"compute_milli": 100}, headers=headers, token=BOB).body
        assert mine["id"] != bobs["id"]

    def test_a_refused_request_may_use_its_key_again(self, pool: PoolProcess) -> None:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"compute_milli": 1000, "wait_seconds": 0, "device": "cuda0"}
        blocker = pool.request(1000, device="cuda0")
        assert pool.ask("POST", self.PATH, body, headers=headers).status == 409
        pool.release(blocker["id"])
        assert pool.ask("POST", self.PATH, body, headers=headers).status == 201

    def test_many_at_once_make_one_lease(self, pool: PoolProcess) -> None:
        headers = {
            "Idempotency-Key": str(uuid.uuid4()),
            "Authorization": f"Bearer {pool.token}",
        }
        http = urllib3.PoolManager(maxsize=8)
        ids: list[str] = []

        def send() -> None:
            answer = http.request("POST", pool.url + self.PATH, body=b'{"compute_milli":7}', headers=headers)
            ids.append(answer.json()["id"])

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        http.clear()
        assert len(ids) == 8
        assert len(set(ids)) == 1

    @pytest.mark.parametrize("key", ["", "x" * 201, "a b"])
    def test_a_key_that_is_none_is_refused(self, pool: PoolProcess, key: str) -> None:
        answer = pool.ask("POST", self.PATH, {"compute_milli": 1}, headers={"Idempotency-Key": key})
        assert code(answer) == (400, "invalid_value")


class TestWaiting:
    """The queue, as clients see it."""

    def full(self, pool: PoolProcess) -> list[Any]:
        return [pool.request(1000) for _ in range(4)]

    def test_a_queued_request_says_why_it_waits_and_is_granted_by_a_release(self, pool: PoolProcess) -> None:
        held = self.full(pool)
        waiting = pool.request(500)
        assert (waiting["state"], waiting["position"]) == ("queued", 1)
        assert "Waiting for 0.5" in waiting["reason"]
        answers: list[Any] = []
        path = f"{API_PREFIX}/leases/{waiting['id']}?since={waiting['tag']}&wait_seconds=20"
        thread = threading.Thread(target=lambda: answers.append(self.poll(pool, path)))
        thread.start()
        pool.release(held[0]["id"])
        thread.join(20)
        assert answers[0]["state"] == "attaching"
        assert answers[0]["attach"]["ticket"]

    def poll(self, pool: PoolProcess, path: str) -> Any:
        http = urllib3.PoolManager()
        try:
            headers = {"Authorization": f"Bearer {pool.token}"}
            return http.request("GET", pool.url + path, headers=headers, timeout=30).json()
        finally:
            http.clear()

    def test_a_long_poll_without_news_ends_in_time(self, pool: PoolProcess) -> None:
        lease = pool.request(100)
        began = time.monotonic()
        path = f"{API_PREFIX}/leases/{lease['id']}?since={lease['tag']}&wait_seconds=0.5"
        assert pool.get(path).body["tag"] == lease["tag"]
        assert 0.4 < time.monotonic() - began < 10

    def test_an_old_tag_is_answered_at_once(self, pool: PoolProcess) -> None:
        lease = pool.request(100)
        answer = pool.get(f"{API_PREFIX}/leases/{lease['id']}?since=old&wait_seconds=30", timeout=10)
        assert answer.body["tag"] == lease["tag"]

    @pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "61", "soon"])
    def test_a_wait_that_is_none_is_refused(self, pool: PoolProcess, seconds: str) -> None:
        lease = pool.request(100)
        answer = pool.get(f"{API_PREFIX}/leases/{lease['id']}?since=x&wait_seconds={seconds}")
        assert code(answer) == (400, "invalid_value")

    def test_a_request_that_nobody_listens_for_leaves_the_queue(self, pool: PoolProcess) -> None:
        self.full(pool)
        waiting = pool.request(500)
        wait_for(lambda: pool.get(f"{API_PREFIX}/queue").body == [], "the queue to be empty")
        ended = pool.lease(waiting["id"])
        assert (ended["state"], ended["end_reason"]) == ("ended", "abandoned")

    def test_a_client_that_hangs_up_while_it_waits_leaves_no_ghost(self, pool: PoolProcess) -> None:
        self.full(pool)
        waiting = pool.request(500)
        path = f"{API_PREFIX}/leases/{waiting['id']}?since={waiting['tag']}&wait_seconds=50"
        assert pool.get(path, timeout=1.5).status == 0  # this client gave up
        wait_for(lambda: pool.get(f"{API_PREFIX}/queue").body == [], "the queue to be empty", 10)

    def test_a_request_is_kept_while_somebody_listens(self, pool: PoolProcess) -> None:
        self.full(pool)
        waiting = pool.request(500)
        path = f"{API_PREFIX}/leases/{waiting['id']}?since={waiting['tag']}&wait_seconds=3"
        assert pool.get(path).body["state"] == "queued"

    def test_a_wait_ends_when_its_owner_said(self, pool: PoolProcess) -> None:
        self.full(pool)
        waiting = pool.request(500, wait_seconds=0.6)
        path = f"{API_PREFIX}/leases/{waiting['id']}?since={waiting['tag']}&wait_seconds=20"
        assert pool.get(path).body["end_reason"] == "wait_expired"

    def test_cancelling_a_request_says_so(self, pool: PoolProcess) -> None:
        self.full(pool)
        waiting = pool.request(500)
        answer = pool.ask("DELETE", f"{API_PREFIX}/leases/{waiting['id']}")
        assert (answer.status, answer.body["end_reason"]) == (200, "cancelled")


class TestEvents:
    """The pool as a stream."""

    def events(self, pool: PoolProcess, token: str) -> Iterator[dict[str, Any]]:
        http = urllib3.PoolManager()
        headers = {"Authorization": f"Bearer {token}"}
        answer = http.request(
            "GET", f"{pool.url}{API_PREFIX}/events", headers=headers, preload_content=False, timeout=20
        )
        assert answer.headers["Content-Type"] == "text/event-stream"
        try:
            event: dict[str, Any] = {}
            for line in (raw.decode() for chunk in answer.stream(65536) for raw in chunk.splitlines()):
                name, _, value = line.partition(": ")
                event[name] = value
                if name == "data":
                    event["data"] = json.loads(value)
                    yield event
                    event = {}
        finally:
            answer.close()
            http.clear()

    def test_the_first_event_comes_at_once_and_each_change_brings_another(self, pool: PoolProcess) -> None:
        stream = self.events(pool, pool.token)
        first = next(stream)
        assert first["event"] == "pool"
        assert first["id"] == str(first["data"]["revision"])
        lease = pool.request(250)
        for event in stream:
            found = [it for it in event["data"]["leases"] if it["id"] == lease["id"]]
            if found:
                assert int(event["id"]) > int(first["id"])
                break
        stream.close()

    @pytest.mark.slow
    def test_readings_come_without_a_change(self, pool: PoolProcess) -> None:
        stream = self.events(pool, pool.token)
        revision = next(stream)["id"]
        assert any(next(stream)["id"] == revision for _ in range(3))
        stream.close()

    def test_a_stream_shows_others_leases_without_names(self, pool: PoolProcess) -> None:
        lease = pool.request(250)
        stream = self.events(pool, BOB)
        first = next(stream)
        stream.close()
        assert lease["id"] not in json.dumps(first)


def test_nothing_of_the_service_listens_beyond_loopback(pool: PoolProcess) -> None:
    listening = [address for pid in (pool.pid, pool.agent_pid) for address in _listening(pid)]
    assert len(listening) >= 2
    assert all(address in ("127.0.0.1", "::1") for address in listening)


def _listening(pid: int | None) -> list[str]:
    import psutil

    return [
        connection.laddr.ip
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]


def test_files_of_the_service_are_private(pool: PoolProcess) -> None:
    for name in ("pool.json", "token", "port", "service.lock"):
        assert (Path(pool.runtime) / name).stat().st_mode & 0o777 == 0o600
    assert pool.runtime.stat().st_mode & 0o777 == 0o700
