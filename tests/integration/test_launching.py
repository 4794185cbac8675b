"""Processes that are started on the node of a lease: a real service, its agent, and what that starts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support.launches import launch, start_holder, wait_process
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world

pytestmark = pytest.mark.beside


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    arguments = ("--PoolService.tokens={'ben': 'token-of-ben-for-this-test'}",)
    environment = world(tmp_path_factory.mktemp("launching"))
    with running_pool(environment, emulate="4xA100-80GB", arguments=arguments) as running:
        yield running


def gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def test_a_process_is_started_attaches_by_its_ticket_and_ends_with_its_lease(pool: PoolProcess) -> None:
    lease, process = start_holder(pool)
    assert lease["holder"]["pid"] == process["pid"]
    assert os.getsid(process["pid"]) == process["pid"]
    wait_for(lambda: has_said(pool, "attached"), "the holder to say that it is attached")
    pool.release(lease["id"])
    pool.wait_state(lease["id"], "ended")
    assert gone(process["pid"])
    ended = wait_process(pool, process, "ended")
    assert ended["signal"] == signal.SIGTERM
    assert ended["words"] == "attached"


def test_a_program_that_is_not_there_is_named_with_the_node(pool: PoolProcess) -> None:
    lease = pool.request()
    answer = launch(pool, lease["id"], "/opt/nowhere/bin/python", "-m", "ipykernel_launcher")
    ended = wait_process(pool, answer.body, "ended", "failed")
    assert "/opt/nowhere/bin/python was not found on node" in ended["words"]
    assert ended["status"] == 127
    pool.release(lease["id"])


def test_what_is_secret_is_in_no_argument_no_variable_and_no_log(pool: PoolProcess) -> None:
    secret = "a-secret-of-this-test"
    lease = pool.request()
    answer = launch(
        pool,
        lease["id"],
        "/bin/sh",
        "-c",
        "read it; echo said $(echo $it | wc -c); sleep 600",
        stdin=f"{secret}\n",
    )
    process = wait_process(pool, answer.body, "running")
    pid = process["pid"]
    read = lambda what: Path(f"/proc/{pid}/{what}").read_bytes()  # noqa: E731
    words = f"said {len(secret) + 1}"
    wait_for(lambda: has_said(pool, words), "the shell to have read it")
    assert secret.encode() not in read("cmdline") + read("environ")
    pool.release(lease["id"])
    ended = wait_process(pool, process, "ended")
    assert ended["words"] == words
    logs = pool.log() + (pool.runtime / "logs" / "agent.log").read_text()
    assert secret not in logs


def test_asking_again_starts_nothing_more(pool: PoolProcess) -> None:
    lease = pool.request()
    fields = {"id": "the-same-process"}
    first = launch(pool, lease["id"], "/bin/sleep", "600", **fields)
    running = wait_process(pool, first.body, "running")
    again = launch(pool, lease["id"], "/bin/sleep", "600", **fields)
    assert again.status == 201
    assert again.body["pid"] == running["pid"]
    pool.release(lease["id"])


def test_a_process_can_be_signalled_and_ended(pool: PoolProcess) -> None:
    lease = pool.request()
    code = "trap 'echo caught' INT; echo trapping; while :; do sleep 0.05; done"
    process = wait_process(pool, launch(pool, lease["id"], "/bin/sh", "-c", code).body, "running")
    path = f"/api/v1/leases/{lease['id']}/processes/{process['id']}"
    wait_for(lambda: has_said(pool, "trapping"), "the shell to be ready")

    def interrupted() -> bool:
        assert pool.ask("DELETE", f"{path}?signal=2").status == 202
        return has_said(pool, "caught")

    wait_for(interrupted, "the interrupt to be caught")
    assert not gone(process["pid"])
    assert pool.ask("DELETE", path).status == 202
    wait_process(pool, process, "ended")
    assert pool.ask("DELETE", path).status == 202
    pool.release(lease["id"])


def has_said(pool: PoolProcess, word: str) -> bool:
    """Tell whether a process that lives has written a word."""
    return any(word in it.read_text() for it in (pool.runtime / "outputs").glob("*.out"))


def test_nobody_else_starts_sees_or_ends_processes_of_a_lease(pool: PoolProcess) -> None:
    lease = pool.request()
    process = wait_process(pool, launch(pool, lease["id"], "/bin/sleep", "600").body, "running")
    path = f"/api/v1/leases/{lease['id']}/processes/{process['id']}"
    kernel = KernelClaim(owner=pool.file.owner if pool.file else "", kernel_id="another", generation=1)
    for token in ("token-of-ben-for-this-test", mint_kernel_token(pool.token, kernel)):
        assert launch(pool, lease["id"], "/bin/true", token=token).status == 404
        assert pool.get(path, token=token).status == 404
        assert pool.ask("DELETE", path, token=token).status == 404
    assert not gone(process["pid"])
    pool.release(lease["id"])


def test_an_owner_who_is_not_the_agents_user_is_refused_and_told_why(pool: PoolProcess) -> None:
    token = "token-of-ben-for-this-test"
    lease = pool.ask("POST", "/api/v1/leases", {"compute_milli": 100}, token=token).body
    answer = launch(pool, lease["id"], "/bin/true", token=token)
    path = f"/api/v1/leases/{lease['id']}/processes/{answer.body['id']}"
    failed = wait_for(
        lambda: (it := pool.get(path, token=token).body)["state"] == "failed" and it, "the refusal"
    )
    assert "starts no processes for ben" in failed["words"]
    pool.ask("DELETE", f"/api/v1/leases/{lease['id']}", token=token)


def test_a_lease_that_is_held_takes_no_further_process(pool: PoolProcess) -> None:
    lease, _ = start_holder(pool)
    answer = launch(pool, lease["id"], "/bin/true")
    assert answer.status == 409
    assert "it is active" in answer.body["message"]
    pool.release(lease["id"])


@pytest.mark.slow
def test_a_restart_of_agent_and_service_ends_nothing(pool: PoolProcess) -> None:
    lease, process = start_holder(pool)
    pool.kill_agent()
    pool.wait_joined()
    assert not gone(process["pid"])
    pool.kill()
    pool.restart()
    assert not gone(process["pid"])
    assert wait_process(pool, process, "running")["pid"] == process["pid"]
    pool.release(lease["id"])
    pool.wait_state(lease["id"], "ended")
    assert gone(process["pid"])
    assert not list((pool.runtime / "processes").iterdir())


@pytest.mark.slow
def test_a_process_whose_lease_ended_while_its_agent_was_away_is_ended_when_it_is_back(
    pool: PoolProcess,
) -> None:
    lease = pool.request()
    process = wait_process(pool, launch(pool, lease["id"], "/bin/sleep", "600").body, "running")
    pool.kill_agent()
    pool.release(lease["id"])
    wait_for(lambda: gone(process["pid"]), "the process to be ended")
