"""Whatever is killed, nobody's work is lost: real kernels, a real service and agent, real SIGKILLs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names
from tests.support.limits import cpu_group, in_force, lives, soft_data_limit
from tests.support.notebook import Notebook, notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

#: ``refresh`` returns when the pool has heard of the agent, and written down, that the lease is held.
REQUEST = "import jupyter_gpupool as gpupool; lease = gpupool.request(0.25).refresh(); lease.id"


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    """Run an embedded pool that never ends by itself during a test."""
    with running_pool(embedded=True) as running:
        yield running


def held(book: Notebook) -> str:
    """Have a notebook request a quarter, and return the lease's id."""
    return book.ok(REQUEST).result.strip("'")


def wait_in_force(pid: int, limits: tuple[int, str, frozenset[int]]) -> None:
    """Wait until exactly these limits are in force; the data limit follows what children use meanwhile."""
    try:
        wait_for(lambda: in_force(pid) == limits, "the limits to be in force", 10)
    except AssertionError:
        assert in_force(pid) == limits


def free_milli(pool: PoolProcess) -> int:
    """Return what is left of the one device, thousandths, once its agent has joined."""
    devices = wait_for(lambda: pool.get("/api/v1/devices").body or None, "the devices to be known")
    return int(devices[0]["free_compute_milli"])


def test_a_kernel_that_is_killed_while_it_holds_a_lease_leaves_nothing(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        lease_id = held(book)
        group = cpu_group(book.pid)
        os.kill(book.pid, signal.SIGKILL)

        doc = pool.wait_state(lease_id, "ended")

        assert doc["end_reason"] == "holder_exited"
        assert free_milli(pool) == 1000
        if "jupyter_gpupool" in group:
            assert not Path(f"/sys/fs/cgroup/cpu{group}").exists()


@pytest.mark.slow
@pytest.mark.beside
def test_a_kernel_that_is_killed_while_it_waits_leaves_no_ghost_in_the_queue(pool: PoolProcess) -> None:
    with notebook(pool.environment) as first, notebook(pool.environment) as second:
        first.ok("import jupyter_gpupool as gpupool; lease = gpupool.request(0.75, memory='4GiB')")
        second.send("import jupyter_gpupool as gpupool; gpupool.request(0.5)")
        wait_for(lambda: pool.get("/api/v1/queue").body or None, "the second request to wait")
        os.kill(second.pid, signal.SIGKILL)

        wait_for(lambda: pool.get("/api/v1/queue").body == [], "the queue to be empty", 20)

        assert free_milli(pool) == 250


def test_a_killed_service_stops_no_kernel_and_the_next_caller_brings_it_back(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        lease_id = held(book)
        limits = in_force(book.pid)
        book.ok("total = 0")
        computing = book.send("for i in range(3_000_000): total += i")
        pool.kill()
        assert in_force(book.pid) == limits

        assert book.finish(computing).status == "ok"
        shown = book.ok("%gpupool").text

        assert "0.25" in shown
        doc = pool.wait_state(lease_id, "active")
        assert doc["holder"]["pid"] == book.pid
        wait_in_force(book.pid, limits)
        pool.wait_joined()
        assert [it["id"] for it in pool.get("/api/v1/leases").body] == [lease_id]
        assert pool.lease(lease_id)["state"] == "active", pool.lease(lease_id)
        assert free_milli(pool) == 750


@pytest.mark.slow
@pytest.mark.beside
def test_a_service_that_a_limited_kernel_started_is_not_limited_itself(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        held(book)
        assert soft_data_limit(book.pid) > 0
        pool.kill()
        pool.kill_agent()
        book.ok("%gpupool")
        file = pool.file
        assert file is not None
        assert file.pid != pool.pid
        agent = wait_for(lambda: pool.agent_pid, "a new agent")

        for pid in (file.pid, agent):
            wait_for(lambda pid=pid: soft_data_limit(pid) == soft_data_limit(os.getpid()), "no data limit")
            wait_for(lambda pid=pid: cpu_group(pid) == cpu_group(os.getpid()), "the group of other processes")
            assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)


@pytest.mark.slow
@pytest.mark.beside
def test_usage_is_exact_by_pool_time_when_the_service_was_killed_meanwhile(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        began = time.monotonic()
        lease_id = held(book)
        granted = time.monotonic()
        pool.kill()
        book.ok("%gpupool")
        pool.wait_state(lease_id, "active")
        releasing = time.monotonic()
        book.ok("lease.release()")
        ended = time.monotonic()
        pool.wait_state(lease_id, "ended")

        used = pool.get("/api/v1/usage").body[0]["device_seconds"]

        assert 0.25 * (releasing - granted) - 0.02 <= used <= 0.25 * (ended - began) + 0.02


def test_a_killed_agent_is_replaced_and_its_successor_adopts_the_holder(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        before = in_force(book.pid)
        lease_id = held(book)
        limits = in_force(book.pid)
        assert limits != before
        killed = pool.agent_pid
        pool.kill_agent()
        assert in_force(book.pid) == limits

        wait_for(lambda: pool.agent_pid not in (None, killed), "another agent")
        wait_for(lambda: pool.get("/api/v1/nodes").body[0]["connected"], "it to join")

        assert pool.wait_state(lease_id, "active")["holder"]["pid"] == book.pid
        wait_in_force(book.pid, limits)
        book.ok("lease.resize(0.5)")
        book.ok("lease.release()")
        assert in_force(book.pid) == before


def test_service_and_agent_killed_at_once_lose_nothing(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        before = in_force(book.pid)
        lease_id = held(book)
        pool.kill()
        pool.kill_agent()

        book.ok("lease.refresh()")

        assert pool.wait_state(lease_id, "active")["holder"]["pid"] == book.pid
        book.ok("lease.release()")
        pool.wait_state(lease_id, "ended")
        assert in_force(book.pid) == before


def test_a_holder_that_ends_while_the_service_is_dead_is_not_believed_alive(pool: PoolProcess) -> None:
    with notebook(pool.environment) as book:
        lease_id = held(book)
        pool.kill()
        os.kill(book.pid, signal.SIGKILL)
        wait_for(lambda: not lives(book.pid), "the kernel to be gone")

        pool.restart()

        assert pool.wait_state(lease_id, "ended")["end_reason"] == "holder_exited"
        assert free_milli(pool) == 1000


def test_a_request_that_waits_goes_on_waiting_when_the_service_is_killed(pool: PoolProcess) -> None:
    with notebook(pool.environment) as first, notebook(pool.environment) as second:
        first.ok("import jupyter_gpupool as gpupool; lease = gpupool.request(0.75, memory='4GiB')")
        waiting = second.send("import jupyter_gpupool as gpupool; lease = gpupool.request(0.5); lease.share")
        wait_for(lambda: pool.get("/api/v1/queue").body or None, "the second request to wait")
        pool.kill()
        # the waiting client itself brings the service back
        wait_for(lambda: (file := pool.file) is not None and file.pid != pool.pid, "another service")
        first.ok("lease.release()")

        cell = second.finish(waiting)

        assert cell.result == "0.5", cell.text
        assert len(pool.get("/api/v1/leases").body) == 1


def test_revisions_never_go_back_when_the_service_is_started_again(pool: PoolProcess) -> None:
    before = pool.get("/api/v1/pool").body["revision"]
    pool.kill()
    pool.restart()

    assert pool.get("/api/v1/pool").body["revision"] > before


@pytest.mark.slow
@pytest.mark.beside
def test_a_runtime_directory_with_a_very_long_path_works(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    long = tmp_path / ("r" * 100) / ("d" * 99)
    environment = {**pool_environment, names.ENV_RUNTIME_DIR: str(long)}
    with running_pool(environment, embedded=True) as pool, notebook(environment) as book:
        lease_id = held(book)

        assert pool.lease(lease_id)["state"] == "active"
