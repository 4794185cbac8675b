"""Several devices at once, and why one waits for them: in real processes, against a real pool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of one world on disk that the tests of this file share."""
    root: Path = tmp_path_factory.mktemp("world")
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(root / "run"),
        names.ENV_DATA_DIR: str(root / "data"),
        names.ENV_LOCK_DIR: str(root / "lock"),
        "IPYTHONDIR": str(root / "ipython"),
    }


@pytest.fixture(scope="module")
def pool(world: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool(world, embedded=True, emulate="4xA100-80GB") as running:
        yield running


def command(world: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", *arguments],
        env=world,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return " ".join(done.stdout.split())


#: Asks for two whole devices when it is told to, and says what it got.
WAITER = "import jupyter_gpupool as g; input(); print(g.request(2), flush=True)"


@pytest.fixture
def waiter(pool: PoolProcess, world: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process that asks for two devices, and says what it got."""
    started = subprocess.Popen(
        [sys.executable, "-c", WAITER], env=world, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield started
    started.kill()
    started.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.beside
def test_devices_are_granted_together_and_a_waiting_request_says_who_has_them(
    pool: PoolProcess, world: dict[str, str], waiter: subprocess.Popen[str]
) -> None:
    assert waiter.stdin is not None
    assert waiter.stdout is not None
    with notebook(world) as book:
        granted = book.ok("lease = %gpupool request 0.5 x3 --for 1h --priority normal\nlease")
        assert "0.5 each of cuda0, cuda1, cuda2" in granted.result
        assert book.ok("%gpupool").text.count("cuda2") > 1
        (doc,) = pool.get("/api/v1/leases").body
        assert (doc["count"], len(doc["shares"])) == (3, 3)

        waiter.stdin.write("go\n")
        waiter.stdin.flush()
        wait_for(lambda: pool.get("/api/v1/queue").body or None, "the request that waits")
        why = book.ok("import jupyter_gpupool as g\nq = g.pool().queue[0].lease_id\ng.why(q)").result
        assert "cause=<Cause.CAPACITY" in why
        assert "known=True" in why
        shown = book.ok("get_ipython().run_line_magic('gpupool', f'why {q[-8:]}')").result
        for text in (" ".join(shown.split()), command(world, "why")):
            assert "Waiting for 2 whole CUDA devices on one node: next in line" in text
            assert "min at the latest: by then" in text
            assert "In its way" in text
        book.ok("lease.release()")
        assert "1 each of cuda" in waiter.stdout.readline()
    assert "None of your requests waits." in command(world, "why")


@pytest.mark.slow
@pytest.mark.beside
def test_cores_and_a_model_are_asked_for_beside_a_share_and_counted(
    tmp_path: Path, world: dict[str, str]
) -> None:
    here = world | {names.ENV_RUNTIME_DIR: str(tmp_path / "run"), names.ENV_DATA_DIR: str(tmp_path / "data")}
    here |= {names.ENV_LOCK_DIR: str(tmp_path / "lock")}
    beside = ("--PoolService.emulate_beside=True",)
    with (
        running_pool(here, embedded=True, emulate="A100-80GB", arguments=beside) as pool,
        notebook(here) as book,
    ):
        granted = book.ok("lease = %gpupool request 0.25 --cpus 1 --host-memory 64MiB --model A100\nlease")
        assert "0.25 of" in granted.result
        (doc,) = pool.get("/api/v1/leases").body
        assert (doc["host_cpu_milli"], doc["host_memory_bytes"], doc["model"]) == (1000, 64 * 2**20, "A100")
        (cpu,) = (it for it in pool.get("/api/v1/devices").body if it["kind"] == "cpu")
        assert cpu["free_compute_milli"] == 1000 - -(-1000 // cpu["compute_units"])
        book.ok("lease.release()")
        refused = book.run("%gpupool request 0.25 --cpus 4096")
        assert "never fits: a node with such a device has at most" in refused.text
        assert "whose model is “H100”" in book.run("%gpupool request 0.25 --model H100").text
