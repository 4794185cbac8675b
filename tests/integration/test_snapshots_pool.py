"""Snapshots with a pool: one key for an owner everywhere, an index, a save before a lease is taken back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.names import API_PREFIX
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside]
BOB = "bobs-token-that-is-long-enough"
KEY, INDEX = f"{API_PREFIX}/snapshots/key", f"{API_PREFIX}/snapshots"
ARGUMENTS = (
    f"--PoolService.tokens={{'bob': '{BOB}'}}",
    "--PoolService.reclaim_idle_minutes=0.05",
    "--PoolService.notice_seconds=8",
    "--PoolService.least_run_minutes=0",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("world")
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(root / "run"),
        names.ENV_DATA_DIR: str(root / "data"),
        names.ENV_LOCK_DIR: str(root / "lock"),
        names.ENV_STORE: str(root / "shared"),
        "IPYTHONDIR": str(root / "ipython"),
        "JPY_SESSION_NAME": str(root / "training.ipynb"),
    }


@pytest.fixture(scope="module")
def pool(world: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool(world, arguments=ARGUMENTS) as running:
        yield running


def kernel_token(pool: PoolProcess, generation: int) -> str:
    owner = pool.get(f"{API_PREFIX}/pool").body["me"]
    return mint_kernel_token(pool.token, KernelClaim(owner=owner, kernel_id="k-1", generation=generation))


def test_a_key_is_given_to_its_owner_and_their_kernels_only(pool: PoolProcess) -> None:
    mine = pool.get(KEY).body["key"]
    newest = kernel_token(pool, 2)
    assert pool.get(KEY, token=newest).body["key"] == mine
    bobs = pool.get(KEY, token=BOB)
    assert bobs.status == 200
    assert bobs.body["key"] != mine
    for token in ("", "wrong", mine, kernel_token(pool, 1), newest[:-2]):
        refused = pool.get(KEY, token=token)
        assert (refused.status, refused.body["code"]) == (401, "unauthenticated")
        assert mine not in str(refused.body)
    assert mine not in pool.log()


def test_an_index_is_shown_to_its_owner_only(pool: PoolProcess) -> None:
    doc: dict[str, Any] = {"id": "snap-1", "name": "bobs", "created_ms": 1}
    told = pool.ask("PUT", INDEX, {"store": "s3://b", "snapshots": [doc]}, token=BOB)
    assert [it["name"] for it in told.body] == ["bobs"]
    assert "bobs" not in str(pool.get(INDEX).body)
    assert pool.ask("PUT", INDEX, {"store": "s3://b", "snapshots": []}, token="").status == 401
    assert pool.ask("PUT", INDEX, {"snapshots": []}, token=BOB).status == 400
    assert [it["name"] for it in pool.get(INDEX, token=BOB).body] == ["bobs"]


def test_another_node_of_the_pool_restores_what_one_has_saved(
    pool: PoolProcess, world: dict[str, str], tmp_path: Path
) -> None:
    """The other node has a data directory, and so a key, of its own; the store is shared."""
    with notebook(world) as first:
        first.ok("answer = 42\n%gpupool checkpoint moved")
        doc = wait_for(lambda: next(iter(pool.get(INDEX).body), None), "the pool to be told", 10)
        assert (doc["name"], doc["notebook"]) == ("moved", world["JPY_SESSION_NAME"])
        assert doc["last_words"]
        assert doc["total_bytes"] > 0
    other = world | {names.ENV_DATA_DIR: str(tmp_path / "data")}
    with notebook(other) as second:
        second.ok("%gpupool restore moved")
        assert second.ok("answer").result == "42"
    stranger = other | {
        names.ENV_DATA_DIR: str(tmp_path / "strangers"),
        names.ENV_RUNTIME_DIR: str(tmp_path / "run"),
        names.ENV_AUTOSTART: "0",
    }
    with notebook(stranger) as third:
        refused = third.run("%gpupool restore moved")
        assert refused.ename == "NotTrusted", refused.text
        assert "not with your key" in third.ok("%gpupool snapshots inspect moved").result
        third.ok("%gpupool restore moved --trust")
        assert third.ok("answer").result == "42"


@pytest.mark.timeout(300)
def test_a_state_is_saved_before_its_lease_is_taken_back(pool: PoolProcess, world: dict[str, str]) -> None:
    with notebook(world) as idle, notebook(world) as waiting:
        idle.ok("%gpupool request 0.75 --memory 1GiB\nresult = [1, 2, 3]")
        sent = waiting.send("%gpupool request 0.5 --memory 1GiB --wait 3m")
        saved = wait_for(
            lambda: next((it for it in pool.get(INDEX).body if it["automatic"]), None), "a save", 60
        )
        waiting.finish(sent, seconds=120)
        said = idle.ok("1").text
        assert "This lease is taken back in" in said
        assert f"The state was saved; `%gpupool restore {saved['name']}` brings it back." in said
        idle.ok(f"result.clear()\n%gpupool restore {saved['name']}")
        assert idle.ok("result").result == "[1, 2, 3]"
        waiting.ok("%gpupool release")
