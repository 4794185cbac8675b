"""Session clusters on a real pool: real worker processes, each on a lease of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client

import jupyter_gpupool as gpupool
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel import process
from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.sessions.cluster import MOST_FAILURES, GPUPoolCluster
from jupyter_gpupool.sessions.errors import TooManyWorkers
from jupyter_gpupool.sessions.launcher import LocalProcess
from jupyter_gpupool.sessions.leased import LeasedWorker, Stage
from jupyter_gpupool.sessions.order import WorkerOrder
from tests.support.pool_process import PATIENCE_SECONDS, PoolProcess, running_pool, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside]

GPUS = "2xA100-80GB"
QUOTAS = """
version: 1
each:
  limits: {compute: 0.5}
"""


@pytest.fixture
def pool(pool_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolProcess]:
    """Run a pool with two emulated GPUs, of which this process knows nothing yet."""
    monkeypatch.setattr(process, "_current", None)
    with running_pool(pool_environment, emulate=GPUS) as running:
        yield running


@contextmanager
def cluster_of(
    share: float = 0.25, n_workers: int = 0, **options: Any
) -> Iterator[tuple[GPUPoolCluster, Client]]:
    """Make a cluster whose workers have settled, and a client of it."""
    with GPUPoolCluster(share, n_workers, **options) as cluster, Client(cluster) as client:
        cluster.settle(PATIENCE_SECONDS)
        yield cluster, client


def active(pool: PoolProcess) -> list[Any]:
    """Return the leases in force."""
    return [doc for doc in pool.get("/api/v1/leases").body if doc["state"] == "active"]


def pids(cluster: GPUPoolCluster) -> list[int]:
    """Return the processes of the workers that are wanted."""
    return [it.process.pid for it in cluster.workers.values() if it.process is not None]


def stages(cluster: GPUPoolCluster) -> list[Stage]:
    """Return how far the workers have come."""
    return sorted((it.stage for it in cluster.workers.values()), key=lambda it: it.value)


def gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def task_that_waits(started: Path, flag: Path) -> Callable[[int], int]:
    """Make a task that says each time that it is started, and ends when the flag is there."""
    begun, end, seconds = str(started), str(flag), 4 * PATIENCE_SECONDS

    def task(number: int) -> int:
        import pathlib
        import time

        with pathlib.Path(begun).open("a") as file:
            file.write(f"{number}\n")
        until = time.monotonic() + seconds
        while not pathlib.Path(end).exists() and time.monotonic() < until:
            time.sleep(0.02)
        return number * number

    return task


def lines(path: Path) -> list[str]:
    """Return what the tasks have written."""
    return path.read_text().splitlines() if path.exists() else []


def test_each_worker_holds_a_lease_and_keeps_to_itself(pool: PoolProcess) -> None:
    with cluster_of(n_workers=2) as (cluster, client):
        assert client.submit(sum, [1, 2]).result(PATIENCE_SECONDS) == 3
        wait_for(lambda: len(active(pool)) == 2, "both leases to be in force")
        assert sorted(doc["holder"]["pid"] for doc in active(pool)) == sorted(pids(cluster))
        info = cluster.scheduler_info["workers"].values()
        assert [(it["resources"], it["nthreads"]) for it in info] == [({"GPU": 0.25}, 1)] * 2
        for worker in map(psutil.Process, pids(cluster)):
            told = "\0".join([*worker.cmdline(), *worker.environ().values()])
            assert "PRIVATE KEY" not in told
            assert cluster.security.tls_worker_key.splitlines()[2] not in told
        listening = [
            it.laddr.ip
            for pid in (os.getpid(), *pids(cluster))
            for it in psutil.Process(pid).net_connections("tcp")
            if it.status == psutil.CONN_LISTEN
        ]
        assert len(listening) >= 6
        assert set(listening) == {"127.0.0.1"}
        assert "2 of 2 workers with a share of 0.25 run." in cluster._repr_html_()
        cluster.scale(0)
        wait_for(lambda: not pool.get("/api/v1/leases").body, "the leases to be given back")
        assert not cluster.workers


def test_running_tasks_survive_that_their_workers_are_given_back(pool: PoolProcess, tmp_path: Path) -> None:
    started, flag = tmp_path / "started", tmp_path / "flag"
    with cluster_of(n_workers=3) as (cluster, client):
        kept = client.scatter(list(range(30)))
        tasks = client.map(task_that_waits(started, flag), range(3), pure=False)
        wait_for(lambda: len(lines(started)) == 3, "a task on each worker")
        cluster.scale(1)
        wait_for(lambda: len(cluster.workers) == 1 and len(cluster.leaving) == 2, "two workers to be leaving")
        more = client.submit(lambda: "after", pure=False)
        assert not [it for it in tasks if it.done()]
        flag.touch()
        assert client.gather(tasks) == [0, 1, 4]
        assert more.result(PATIENCE_SECONDS) == "after"
        assert sorted(lines(started)) == ["0", "1", "2"]
        wait_for(lambda: not cluster.leaving, "two workers to have left")
        assert client.gather(kept) == list(range(30))
        wait_for(lambda: len(pool.get("/api/v1/leases").body) == 1, "two leases to be given back")


def test_a_killed_worker_is_dropped_and_replaced_on_another_lease(pool: PoolProcess) -> None:
    with cluster_of(n_workers=2) as (cluster, client):
        before, leases = set(cluster.workers), {it.lease_id for it in cluster.workers.values()}
        victim = next(iter(cluster.workers.values()))
        os.kill(pids(cluster)[0], signal.SIGKILL)
        wait_for(lambda: victim.name not in cluster.workers, "the victim to be dropped")
        wait_for(lambda: stages(cluster) == [Stage.RUNNING] * 2, "another worker to run")
        assert len(set(cluster.workers) & before) == 1
        assert len({it.lease_id for it in cluster.workers.values()} & leases) == 1
        assert pool.lease(victim.lease_id)["state"] == "ended"
        assert client.submit(sum, [1, 2]).result(PATIENCE_SECONDS) == 3
        assert list(cluster.troubles) == [
            f"Worker {victim.name} ended by itself, or was killed; another is asked for."
        ]


def test_who_finds_no_room_waits_is_shown_and_holds_up_nobody(pool: PoolProcess) -> None:
    with cluster_of(0.75, 3) as (cluster, client):
        assert stages(cluster) == [Stage.RUNNING, Stage.RUNNING, Stage.WAITING]
        waiting = next(it for it in cluster.workers.values() if it.stage is Stage.WAITING)
        assert waiting.reason
        assert "1 waits for a lease" in cluster._repr_html_()
        assert client.submit(sum, [1, 2]).result(PATIENCE_SECONDS) == 3
        os.kill(pids(cluster)[0], signal.SIGKILL)
        wait_for(lambda: waiting.stage is Stage.RUNNING, "the one that waited to have the room")
        cluster.scale(1)
        wait_for(lambda: len(pool.get("/api/v1/leases").body) == 1, "requests and leases to be given back")
        assert not pool.get("/api/v1/queue").body


def test_a_quota_is_looked_at_with_each_worker(
    pool_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_current", None)
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text(QUOTAS)
    arguments = (f"--PoolService.quotas_file={quotas}",)
    with (
        running_pool(pool_environment, emulate=GPUS, arguments=arguments) as pool,
        cluster_of() as (cluster, _),
    ):
        cluster.scale(4)
        cluster.settle(PATIENCE_SECONDS)
        assert stages(cluster).count(Stage.RUNNING) == 2
        assert len(active(pool)) == 2
        cluster.scale(2)
        wait_for(lambda: stages(cluster) == [Stage.RUNNING] * 2, "the others to be given up")
        cluster.scale(0)
        wait_for(lambda: not pool.get("/api/v1/leases").body, "the leases to be given back")
        with pytest.raises(GPUPoolError, match=r"quota|limit"):
            gpupool.scale(2, share=0.75)
        process.this_process().cluster.close()


def test_a_restart_of_the_pool_is_no_news_to_tasks_and_workers(pool: PoolProcess, tmp_path: Path) -> None:
    started, flag = tmp_path / "started", tmp_path / "flag"
    with cluster_of(n_workers=2) as (cluster, client):
        leases, processes = {it.lease_id for it in cluster.workers.values()}, pids(cluster)
        tasks = client.map(task_that_waits(started, flag), range(2), pure=False)
        wait_for(lambda: len(lines(started)) == 2, "the tasks to run")
        pool.kill()
        pool.restart()
        flag.touch()
        assert client.gather(tasks) == [0, 1]
        assert len(lines(started)) == 2
        assert pids(cluster) == processes
        assert {doc["id"] for doc in active(pool)} == leases
        os.kill(processes[0], signal.SIGKILL)
        wait_for(
            lambda: pids(cluster) != processes and stages(cluster) == [Stage.RUNNING] * 2, "another worker"
        )


def test_a_cluster_that_follows_its_load_keeps_to_its_bounds(pool: PoolProcess, tmp_path: Path) -> None:
    started, flag = tmp_path / "started", tmp_path / "flag"
    with cluster_of() as (cluster, client):
        adaptive = cluster.adapt(
            minimum=0, maximum=2, interval="100ms", wait_count=2, calm_seconds=1, target_duration="1ms"
        )
        tasks = client.map(task_that_waits(started, flag), range(12), pure=False)
        wait_for(lambda: stages(cluster) == [Stage.RUNNING] * 2, "two workers")
        wait_for(lambda: len(lines(started)) == 2, "two tasks to run")
        assert len(pool.get("/api/v1/leases").body) == 2
        flag.touch()
        assert client.gather(tasks) == [it * it for it in range(12)]
        del tasks
        wait_for(lambda: not pool.get("/api/v1/leases").body, "all leases to be given back")
        assert max(it.get("n", 0) for _, it in adaptive.log) == 2
        assert adaptive.maximum == 2
        with pytest.raises(TooManyWorkers):
            cluster.adapt(maximum=500)


def test_a_lease_that_the_pool_ends_takes_its_worker_along(pool: PoolProcess) -> None:
    with cluster_of(n_workers=2) as (cluster, _):
        victim: LeasedWorker = next(iter(cluster.workers.values()))
        pid = pids(cluster)[0]
        pool.release(victim.lease_id)
        wait_for(lambda: gone(pid), "the worker to end")
        wait_for(lambda: victim.name not in cluster.workers, "it to be dropped")
        assert len(cluster.workers) == 1, "what somebody has ended on purpose is not asked for again"
        assert "ended: released" in " ".join(cluster.troubles)


class BrokenLauncher:
    """Starts processes that say why they do not work, as a broken installation does."""

    def __init__(self) -> None:
        self.started = 0

    def check(self, attach: AttachDoc) -> None:
        """Start them anywhere."""

    async def launch(self, order: WorkerOrder, environment: Mapping[str, str]) -> LocalProcess:
        """Start one."""
        import tempfile

        self.started += 1
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = (sys.executable, "-c", "print('There is no such library.'); raise SystemExit(3)")
        return LocalProcess(await asyncio.create_subprocess_exec(*command, stdout=output), output)


def test_workers_that_cannot_start_are_given_up_with_their_last_words(pool: PoolProcess) -> None:
    launcher = BrokenLauncher()
    with cluster_of(n_workers=1, launcher=launcher) as (cluster, _):
        wait_for(lambda: not cluster.workers, "the worker to be given up")
        assert launcher.started == MOST_FAILURES
        assert cluster.troubles[-1].endswith("ended before it joined (status 3): There is no such library.")
        wait_for(lambda: not pool.get("/api/v1/leases").body, "the leases to be given back")


def test_a_cluster_works_in_a_loop_of_its_owner(pool: PoolProcess) -> None:
    async def use() -> int:
        async with (
            GPUPoolCluster(0.25, 1, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            return int(await client.submit(sum, [1, 2]))

    assert asyncio.run(asyncio.wait_for(use(), PATIENCE_SECONDS)) == 3
    wait_for(lambda: not pool.get("/api/v1/leases").body, "the lease to be given back")
