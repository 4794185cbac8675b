"""A Jupyter server whose kernels run on the nodes of their leases: here the one node is this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from jupyter_gpupool.protocol import names
from tests.support.node_kernels import add_kernelspec, connection_of, speaking_to, start_session
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.beside]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    environment = world(tmp_path_factory.mktemp("node-kernels"))
    with running_pool(environment, emulate="1xA100-80GB") as running:
        yield running


@pytest.fixture(scope="module")
def server(pool: PoolProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path_factory.mktemp("server"), pool.environment)
    add_kernelspec(server, "quarter")
    add_kernelspec(server, "too-much", gpupool={"share": 0.5, "memory": "500GiB"})
    add_kernelspec(server, "hasty", gpupool={"share": 1.0, "wait": "1s"})
    add_kernelspec(
        server,
        "elsewhere",
        argv=["/opt/nowhere/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    )
    try:
        server.start()
        server.wait_connected()
        yield server
    finally:
        server.cleanup()


@pytest.fixture
def kernel_id(server: ServerProcess) -> Iterator[str]:
    answer = start_session(server, "quarter")
    assert answer.status == 201, (answer, server.log()[-3000:])
    kernel_id = str(answer.body["kernel"]["id"])
    yield kernel_id
    server.ask("DELETE", f"api/sessions/{answer.body['id']}")


def lease_of(pool: PoolProcess, kernel_id: str, state: str = "active") -> Any:
    """Wait until a kernel's lease is in a state; return it."""

    def found() -> Any:
        leases = pool.get("/api/v1/leases").body
        return next(
            (it for it in leases if it["holder"]["kernel_id"] == kernel_id and it["state"] == state), None
        )

    return wait_for(found, f"the lease of kernel {kernel_id} to be {state}")


def test_a_kernel_runs_with_its_share_and_its_end_ends_the_lease(
    pool: PoolProcess, server: ServerProcess
) -> None:
    answer = start_session(server, "quarter")
    assert answer.status == 201, (answer, server.log()[-3000:])
    kernel_id = answer.body["kernel"]["id"]
    lease = lease_of(pool, kernel_id)
    assert lease["compute_milli"] == 250
    assert server.run(kernel_id, "import os", "os.getpid()") == lease["holder"]["pid"]
    assert server.run(kernel_id, "", f"os.environ.get('{names.ENV_LEASE}')") == lease["id"]
    assert server.ask("DELETE", f"api/sessions/{answer.body['id']}").status == 204
    assert pool.wait_state(lease["id"], "ended")["end_reason"] == "kernel_shutdown"
    wait_for(lambda: not Path(f"/proc/{lease['holder']['pid']}").exists(), "the kernel to be gone")


def test_the_connection_is_encrypted_and_its_ports_are_the_nodes_choice(
    server: ServerProcess, kernel_id: str
) -> None:
    found = connection_of(server, kernel_id)
    assert found["curve_publickey"]
    assert len({found[f"{it}_port"] for it in ("shell", "iopub", "stdin", "control", "hb")} - {0}) == 5


def test_a_restart_keeps_ports_and_lease(pool: PoolProcess, server: ServerProcess, kernel_id: str) -> None:
    lease, before = lease_of(pool, kernel_id), dict(connection_of(server, kernel_id))
    assert server.ask("POST", f"api/kernels/{kernel_id}/restart").status == 200
    again = lease_of(pool, kernel_id)
    assert dict(connection_of(server, kernel_id)) == before
    assert again["id"] == lease["id"]
    assert again["holder"]["pid"] != lease["holder"]["pid"]
    assert server.run(kernel_id, "import os", "os.getpid()") == again["holder"]["pid"]


def test_a_killed_kernel_is_started_again_with_its_lease(
    pool: PoolProcess, server: ServerProcess, kernel_id: str
) -> None:
    lease = lease_of(pool, kernel_id)
    server.run(kernel_id, "x = 1")
    os.kill(lease["holder"]["pid"], signal.SIGKILL)
    wait_for(lambda: lease_of(pool, kernel_id)["holder"]["pid"] != lease["holder"]["pid"], "another process")
    assert lease_of(pool, kernel_id)["id"] == lease["id"]
    assert server.run(kernel_id, "import os", "'x' in globals()") is False


def test_the_stop_button_interrupts_the_kernel_on_its_node(server: ServerProcess, kernel_id: str) -> None:
    with speaking_to(server, kernel_id) as client:
        client.execute("import time; time.sleep(600)")
        wait_for(lambda: state_of(server, kernel_id) == "busy", "the cell to run")

        def interrupted() -> Any:
            server.ask("POST", f"api/kernels/{kernel_id}/interrupt")
            try:
                return client.get_shell_msg(timeout=1)
            except Empty:
                return None

        reply = wait_for(interrupted, "the cell to be interrupted")
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert server.run(kernel_id, "", "1 + 1") == 2


def state_of(server: ServerProcess, kernel_id: str) -> str:
    """Return what the server says that a kernel does."""
    return str(server.ask("GET", f"api/kernels/{kernel_id}").body["execution_state"])


def test_what_keeps_a_kernel_from_starting_is_said_in_the_answer(
    pool: PoolProcess, server: ServerProcess
) -> None:
    for name, said in (
        ("elsewhere", "/opt/nowhere/bin/python was not found on node"),
        ("too-much", "500"),
    ):
        answer = start_session(server, name)
        assert answer.status == 500
        assert said in answer.body["message"], answer.body
        assert "Traceback" not in answer.body["message"]
    wait_for(lambda: not pool.get("/api/v1/leases").body, "no lease to be left")


def test_a_wait_that_was_too_long_is_said_and_shown_in_the_log(
    pool: PoolProcess, server: ServerProcess
) -> None:
    lease = pool.request(500)
    answer = start_session(server, "hasty")
    assert answer.status == 500
    assert "it was not free in time" in answer.body["message"]
    assert "waits for 1 of a device" in server.log()
    pool.release(lease["id"])


def test_a_wait_can_be_cancelled_in_the_pool(pool: PoolProcess, server: ServerProcess) -> None:
    first = pool.request(900)
    answers: list[Any] = []
    start = threading.Thread(target=lambda: answers.append(start_session(server, "quarter")))
    start.start()
    waiting = wait_for(
        lambda: next((it for it in pool.get("/api/v1/leases").body if it["state"] == "queued"), None),
        "the request",
    )
    pool.release(waiting["id"])
    start.join(60)
    assert "its request was cancelled" in answers[0].body["message"]
    pool.release(first["id"])


def test_a_kernel_outlives_its_agent_and_the_service(
    pool: PoolProcess, server: ServerProcess, kernel_id: str
) -> None:
    lease = lease_of(pool, kernel_id)
    server.run(kernel_id, "x = 41")
    pool.kill_agent()
    pool.wait_joined()
    pool.kill()
    pool.restart()
    assert server.run(kernel_id, "x += 1", "x") == 42
    assert lease_of(pool, kernel_id)["holder"]["pid"] == lease["holder"]["pid"]
    assert server.ask("POST", f"api/kernels/{kernel_id}/restart").status == 200
    assert lease_of(pool, kernel_id)["id"] == lease["id"]
