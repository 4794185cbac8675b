"""A user can name a request and find it in the log; the log is documents, and has no secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import PoolRefused
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support.pool_process import PoolProcess, running_pool, world

SECRET = "a-secret-that-must-not-be-written-anywhere"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    arguments = ("--log-lines=json", "--log-level=DEBUG", "--PoolService.attach_seconds=3600")
    home = tmp_path_factory.mktemp("ids")
    with running_pool(world(home), emulate="2xA100-80GB", arguments=arguments) as running:
        yield running


def lines(pool: PoolProcess, **fields: object) -> list[dict[str, Any]]:
    said = pool.log()
    # what reads the settings says what it found before it has read how to say it
    found = [json.loads(line) for line in said[said.index('{"time"') :].splitlines()]
    return [it for it in found if all(it.get(name) == value for name, value in fields.items())]


def test_every_line_of_the_log_is_a_document(pool: PoolProcess) -> None:
    pool.get("/api/v1/pool")
    for line in lines(pool):
        assert {"time", "level", "logger", "message"} <= line.keys()
        assert line["time"].endswith("Z")


def test_a_request_keeps_the_id_that_its_sender_gave_it_in_answer_error_and_log(pool: PoolProcess) -> None:
    answer = pool.get("/api/v1/leases/lease_nothing", headers={"X-Request-ID": "Cell-7.notebook_a"})
    assert answer.status == 404
    assert answer.headers["X-Request-ID"] == answer.body["request_id"] == "Cell-7.notebook_a"
    (line,) = lines(pool, request_id="Cell-7.notebook_a")
    assert (line["logger"], line["level"], line["status"]) == ("jupyter_gpupool.access", "info", 404)
    assert (line["method"], line["path"]) == ("GET", "/api/v1/leases/lease_nothing")
    assert line["owner"]
    assert line["milliseconds"] > 0


@pytest.mark.parametrize("told", ["", "a b", "x" * 81, "-x", "a;b", "a\tb", "é", "{}"])
def test_an_id_that_could_not_stand_in_a_log_is_replaced(pool: PoolProcess, told: str) -> None:
    answer = pool.get("/api/v1/nodes", headers={"X-Request-ID": told})
    made = answer.headers["X-Request-ID"]
    assert (answer.status, made != told) == (200, True)
    assert len(lines(pool, request_id=made)) == 1


def test_ids_that_are_made_are_different_and_who_is_refused_has_one_too(
    pool: PoolProcess,
) -> None:
    answers = [pool.get("/api/v1/nodes", token="nobody") for _ in range(20)]
    ids = {it.headers["X-Request-ID"] for it in answers}
    assert ids == {it.body["request_id"] for it in answers}
    assert len(ids) == 20
    assert lines(pool, request_id=ids.pop())[0]["owner"] == ""


def test_python_tells_the_id_of_a_request_that_was_refused(pool: PoolProcess) -> None:
    client = PoolClient(Connection(url=pool.url, token=pool.token))
    with pytest.raises(PoolRefused) as refused:
        client.drain("gone")
    client.close()
    assert lines(pool, request_id=refused.value.request_id)[0]["path"] == "/api/v1/nodes/gone/drain"


def test_a_path_cannot_write_lines_of_its_own(pool: PoolProcess) -> None:
    before = len(lines(pool))
    pool.get("/api/v1/leases/x%0A%1B[31mERROR%0Ay")
    assert len(lines(pool)) == before + 1


def test_nothing_that_is_secret_is_in_the_log(pool: PoolProcess) -> None:
    kernel = mint_kernel_token(pool.token, KernelClaim(owner="nobody", kernel_id="k", generation=1))
    headers = {"Cookie": f"session={SECRET}", "X-Request-ID": f"{SECRET} {SECRET}", "Idempotency-Key": SECRET}
    body = {"compute_milli": 100, "holder": {"label": SECRET}}
    made = pool.ask("POST", f"/api/v1/leases?token={SECRET}", body, headers=headers)
    assert made.status == 201
    ticket = made.body["attach"]["ticket"]
    for token in (SECRET, kernel, pool.token[:-1]):
        assert pool.get(f"/api/v1/pool?token={SECRET}", token=token).status == 401
    assert pool.ask("POST", "/api/v1/leases", SECRET.encode()).status == 400
    assert pool.get("/api/v1/snapshots/key").status == 200
    log = pool.log()
    for secret in (SECRET, pool.token, pool.token[:-1], kernel, ticket):
        assert secret not in log
