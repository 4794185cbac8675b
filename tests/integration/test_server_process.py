"""A Jupyter server on its own: it starts the embedded pool, shares it, and ends without ceremony."""

from __future__ import annotations

import json
import os
import signal
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.websocket import websocket_connect

from jupyter_gpupool.client.embedded import start_ticks
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.tokens import read_claim, verify_kernel_token
from tests.support.pool_process import PoolProcess, wait_for
from tests.support.server_process import API, TOKEN, ServerProcess

REQUEST = """
import jupyter_gpupool as gpupool, os
lease = gpupool.request(0.05, kind="cpu")
"""
HELD = "(os.getpid(), lease.id)"


@pytest.fixture
def embedded(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    """Know the embedded pool that whoever comes first starts, and end it."""
    pool = PoolProcess(pool_environment, embedded=True)
    yield pool
    if pool.file is not None:
        pool.wait_joined()  # its agent must be there, or it would come, and stay a while, after the end
    pool.cleanup()


@pytest.fixture
def make_server(
    tmp_path: Path, pool_environment: dict[str, str], embedded: PoolProcess
) -> Iterator[Callable[..., ServerProcess]]:
    """Make servers of one user on one machine; all are ended."""
    servers: list[ServerProcess] = []

    def make(*arguments: str, **environment: str) -> ServerProcess:
        folder = tmp_path / f"server-{len(servers)}"
        servers.append(ServerProcess(folder, {**pool_environment, **environment}, arguments))
        return servers[-1]

    yield make
    for server in servers:
        server.cleanup()


def test_the_server_answers_while_the_pool_is_still_starting_and_then_shows_it(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    assert embedded.file is None, "the pool was faster than the server: nothing was tested"
    kernel_id = server.start_kernel()  # at once, with a token of its own, though nobody is there to ask
    shown = server.ask("GET", f"{API}/pool")
    assert shown.status == 200 or (shown.status, shown.body["message"]) == (503, "The pool is starting.")
    snapshot = server.wait_connected()
    assert snapshot["embedded"] is True
    token = server.run(kernel_id, "import os", f"os.environ['{names.ENV_TOKEN}']")
    claim = read_claim(token)
    assert claim is not None
    assert claim.kernel_id == kernel_id
    assert claim.owner == snapshot["me"]
    assert verify_kernel_token(embedded.token, token)
    pid, lease_id = server.run(kernel_id, REQUEST, HELD)
    doc = embedded.wait_state(lease_id, "active")
    assert (doc["holder"]["pid"], doc["holder"]["kernel_id"]) == (pid, kernel_id)
    assert doc["holder"]["restartable"] is True


@pytest.mark.slow
@pytest.mark.beside
def test_the_server_imports_neither_dask_nor_torch(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    server.wait_connected()
    kernel_id = server.start_kernel()
    _, lease_id = server.run(kernel_id, REQUEST, HELD)
    assert server.ask("GET", f"{API}/leases/{lease_id}").status == 200
    assert server.ask("DELETE", f"api/kernels/{kernel_id}").status == 204
    assert server.stop() == 0, server.log()
    modules = server.modules()
    assert "jupyter_gpupool.server.provisioner" in modules
    heavy = {"dask", "distributed", "torch", "numpy", "pandas"}
    assert heavy & modules == set()
    ours = {name.split(".")[1] for name in modules if name.startswith("jupyter_gpupool.")}
    assert ours <= {"_version", "client", "core", "protocol", "server"}


@pytest.mark.slow
@pytest.mark.beside
def test_a_server_that_is_stopped_while_the_pool_starts_does_not_linger(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    start = time.monotonic()
    assert server.stop() == 0, server.log()
    assert time.monotonic() - start < 10
    assert "Traceback" not in server.log()
    wait_for(lambda: embedded.file, "the pool that was being started, so that it can be ended")


@pytest.mark.slow
@pytest.mark.beside
def test_the_end_of_the_server_ends_its_kernels_leases_at_once(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    server.wait_connected()
    _, lease_id = server.run(server.start_kernel(), REQUEST, HELD)
    assert server.stop() == 0, server.log()
    assert embedded.wait_state(lease_id, "ended", 5)["end_reason"] == "kernel_shutdown"
    assert "Traceback" not in server.log()


@pytest.mark.slow
@pytest.mark.beside
def test_when_the_server_is_killed_its_kernels_end_and_so_do_their_leases(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    server.wait_connected()
    pid, lease_id = server.run(server.start_kernel(), REQUEST, HELD)
    server.kill()
    wait_for(lambda: start_ticks(pid) is None, "the kernel to end")
    doc = embedded.wait_state(lease_id, "ended")
    assert doc["end_reason"] in ("restart_expired", "holder_exited")


@pytest.mark.slow
@pytest.mark.beside
def test_two_servers_of_one_user_share_one_pool(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    first, second = make_server().start(), make_server().start()
    first.wait_connected()
    second.wait_connected()
    _, lease_id = first.run(first.start_kernel(), REQUEST, HELD)
    seen = second.ask("GET", f"{API}/leases/{lease_id}")
    assert seen.status == 200
    assert seen.body["mine"] is True
    assert second.ask("DELETE", f"{API}/leases/{lease_id}").status in (200, 202)
    embedded.wait_state(lease_id, "ended")


@pytest.mark.slow
@pytest.mark.beside
async def test_a_kernel_of_another_environment_starts_as_ever_and_the_tab_is_told_how_to_install(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    venv.create(other, with_pip=False)
    [place] = other.glob("lib/python*/site-packages")
    # It finds ipykernel where this interpreter does, but what is installed there is not installed in it.
    (place / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    server = make_server()
    spec = server.folder / "data" / "kernels" / "other"
    spec.mkdir(parents=True)
    python = other / "bin" / "python"
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Other", "language": "python"})
    )
    server.start()
    kernel_id = server.start_kernel("other")
    prefix, loaded = server.run(
        kernel_id, "import sys", "(sys.prefix, sorted(get_ipython().extension_manager.loaded))"
    )
    assert prefix == str(other)
    assert "jupyter_gpupool" not in loaded
    assert "Traceback" not in server.log()
    tab = await websocket_connect(f"ws://127.0.0.1:{server.port}/{API}/stream?token={TOKEN}")
    message: dict[str, Any] = {}
    while message.get("type") != "kernels":
        message = json.loads(await tab.read_message() or "{}")
    tab.close()
    command = f"{python} -m pip install jupyter_gpupool"
    expected = {"kernel_id": kernel_id, "installed": False, "language": "python", "install_command": command}
    assert message["kernels"] == [expected]


@pytest.mark.slow
@pytest.mark.beside
async def test_a_killed_pool_is_started_again_and_the_tab_is_told(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server().start()
    server.wait_connected()
    pid, lease_id = server.run(server.start_kernel(), REQUEST, HELD)
    embedded.wait_state(lease_id, "active")
    tab = await websocket_connect(f"ws://127.0.0.1:{server.port}/{API}/stream?token={TOKEN}")
    killed = embedded.file
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    states: list[str] = []
    while states[-2:] != ["reconnecting", "connected"]:
        message: dict[str, Any] = json.loads(await tab.read_message() or "{}")
        if message["type"] == "status":
            states.append(message["state"])
    tab.close()
    revived = embedded.file
    assert revived is not None
    assert revived.pid != killed.pid
    doc = embedded.wait_state(lease_id, "active")
    assert doc["holder"]["pid"] == pid


def test_where_no_pool_may_be_started_the_server_says_so_and_kernels_start_as_ever(
    make_server: Callable[..., ServerProcess], embedded: PoolProcess
) -> None:
    server = make_server("--GPUPoolExtension.autostart=False").start()

    def unavailable() -> Any:
        answer = server.ask("GET", f"{API}/pool")
        return answer.body if "No pool was found" in answer.body["message"] else None

    assert "jupyter gpupool serve" in wait_for(unavailable, "the server to say that there is no pool")["hint"]
    kernel_id = server.start_kernel()
    assert server.run(kernel_id, "import os", f"os.environ['{names.ENV_AUTOSTART}']") == "0"
    assert server.run(kernel_id, "%gpupool --help", "1 + 1") == 2
    assert embedded.file is None
