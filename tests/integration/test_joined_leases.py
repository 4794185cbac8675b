"""A lease with devices on two nodes, and a process that joins it on each: two real agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jupyter_gpupool.protocol.names import API_PREFIX
from tests.support.pool_process import wait_for
from tests.support.two_nodes import TwoNodes, name_of_first, two_nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux"),
]
BOB = "bobs-token-that-is-long-enough"
ARGUMENTS = (f"--PoolService.tokens={{'bob': '{BOB}'}}", "--PoolService.agent_grace_seconds=60")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path_factory.mktemp("nodes"), *ARGUMENTS) as running:
        yield running


@pytest.fixture
def nodes(shared: TwoNodes) -> Iterator[TwoNodes]:
    """Use the same two, with nothing left behind in them by a test."""
    yield shared
    for lease in shared.pool.get(f"{API_PREFIX}/leases").body:
        shared.pool.release(lease["id"])
    wait_for(lambda: shared.pool.get(f"{API_PREFIX}/leases").body == [], "all leases to be gone")
    wait_for(lambda: not shared.records(), "the agents to have let go of everything")
    shared.wait_joined()


def test_a_process_joins_on_each_node_and_a_release_ends_with_both_detached(nodes: TwoNodes) -> None:
    lease_id = nodes.gang()["id"]
    holder = nodes.run(lease_id, name_of_first())
    pid, under = holder.started()
    assert under == lease_id
    nodes.pool.wait_state(lease_id, "active")
    nodes.wait_joined_by(lease_id, pid, None)
    worker = nodes.run(lease_id[-8:], "n2")
    other, under = worker.started()
    assert under == lease_id
    nodes.wait_joined_by(lease_id, pid, other)
    first, second = nodes.parts(lease_id)
    assert (first["holder"], second["holder"], second["hostname"]) == (True, False, "n2")
    assert [len(it["shares"]) for it in (first, second)] == [1, 1]
    assert second["isolation"]
    again = nodes.run(lease_id, "n2")
    assert again.process.wait(30) == 1
    assert again.process.stderr is not None
    assert f"Process {other} has what lease" in again.process.stderr.read()
    assert len(nodes.records()) == 2
    assert nodes.pool.release(lease_id)["state"] in ("ending", "ended")
    nodes.pool.wait_state(lease_id, "ended")
    wait_for(lambda: not nodes.records(), "both agents to have let go")


def test_the_exit_status_is_the_commands_and_another_may_join_after_it(nodes: TwoNodes) -> None:
    lease_id = nodes.gang()["id"]
    holder = nodes.run(lease_id, name_of_first())
    pid, _ = holder.started()
    nodes.wait_joined_by(lease_id, pid, None)
    for status in (7, 0):
        worker = nodes.run(lease_id, "n2")
        other, _ = worker.started()
        nodes.wait_joined_by(lease_id, pid, other)
        assert worker.end(status) == status
        nodes.wait_joined_by(lease_id, pid, None)
    assert nodes.pool.lease(lease_id)["state"] == "active"


def test_another_owner_a_wrong_node_and_a_lease_that_is_over_are_refused(nodes: TwoNodes) -> None:
    lease_id = nodes.gang()["id"]
    path = f"{API_PREFIX}/leases/{lease_id}/join"
    answer = nodes.pool.ask("POST", path, {"node_id": "n2"}, token=BOB)
    assert (answer.status, answer.body["code"]) == (404, "unknown_lease")
    answer = nodes.pool.ask("POST", path, {"node_id": "n2"})
    assert (answer.status, answer.body["code"]) == (409, "illegal_transition")
    assert "waits for its holder" in answer.body["message"]
    answer = nodes.pool.ask("POST", path, {"node_id": "n3"})
    assert (answer.status, answer.body["code"]) == (409, "not_its_node")
    assert "n2" in answer.body["hint"]
    nodes.pool.release(lease_id)
    answer = nodes.pool.ask("POST", path, {"node_id": "n2"})
    assert (answer.status, answer.body["code"]) == (409, "illegal_transition")


def test_processes_on_both_nodes_outlive_an_agent_and_the_service(nodes: TwoNodes) -> None:
    lease_id = nodes.gang()["id"]
    holder, worker = nodes.run(lease_id, name_of_first()), None
    pid, _ = holder.started()
    nodes.wait_joined_by(lease_id, pid, None)
    worker = nodes.run(lease_id, "n2")
    other, _ = worker.started()
    nodes.wait_joined_by(lease_id, pid, other)
    nodes.kill_second()
    nodes.pool.kill()
    nodes.pool.restart()
    nodes.start_second()
    nodes.wait_joined_by(lease_id, pid, other)
    assert nodes.pool.lease(lease_id)["state"] == "active"
    assert worker.end(3) == 3
    nodes.wait_joined_by(lease_id, pid, None)


def test_what_joined_is_detached_when_the_lease_ended_while_its_agent_was_gone(nodes: TwoNodes) -> None:
    lease_id = nodes.gang()["id"]
    holder = nodes.run(lease_id, name_of_first())
    pid, _ = holder.started()
    nodes.wait_joined_by(lease_id, pid, None)
    worker = nodes.run(lease_id, "n2")
    other, _ = worker.started()
    nodes.wait_joined_by(lease_id, pid, other)
    nodes.kill_second()
    nodes.pool.kill()
    os.kill(pid, signal.SIGKILL)
    holder.process.wait(30)
    nodes.pool.restart()
    wait_for(
        lambda: nodes.pool.lease(lease_id)["state"] in ("ending", "ended") or None, "the lease to be over"
    )
    nodes.start_second()
    nodes.pool.wait_state(lease_id, "ended")
    wait_for(lambda: not nodes.records(), "the second agent to have let go")
    assert worker.end() == 0


def test_what_cannot_be_run_is_one_sentence(nodes: TwoNodes) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_gpupool", "run", *arguments],
            env=nodes.pool.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stderr.strip()

    status, said = run("--lease", "nothing", "--", sys.executable)
    assert (status, len(said.splitlines())) == (1, 1)
    assert "is no lease of yours" in said
    assert run("--lease", "nothing")[0] == 2
    status, said = run("--lease", "nothing", "--", "no-such-program-here", "--help")
    assert (status, "There is no program no-such-program-here" in said) == (127, True)


def test_what_would_have_to_move_is_told_to_who_runs_the_service_only(nodes: TwoNodes) -> None:
    path = f"{API_PREFIX}/proposals"
    assert nodes.pool.get(path).body == []
    refused = nodes.pool.get(path, token=BOB)
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", "proposals"],
        env=nodes.pool.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "No request waits that would fit if a few leases moved." in done.stdout
