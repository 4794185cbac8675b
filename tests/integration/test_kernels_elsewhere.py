"""Kernels on the nodes of their leases: a pool, two nodes, and a user's server, each a host of its own."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.protocol import names
from tests.integration.test_several_hosts import TOKEN, Pool
from tests.support.hosts import inside, network
from tests.support.node_kernels import ROOT, add_kernelspec, connection_of, speaking_to, start_session
from tests.support.notebook import Talk
from tests.support.pool_process import wait_for
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hosts")]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with network(tmp_path_factory.mktemp("elsewhere"), 4) as made:
        pool = Pool(made)
        pool.serve()
        accounts, strict = "--PoolAgent.accounts={'ann': 'root'}", "--PoolAgent.require_encryption=True"
        pool.join(pool.first, "n1", pool.token(), accounts)
        pool.join(pool.second, "n2", pool.token(), accounts, strict)
        wait_for(lambda: pool.connected() == {"n1", "n2"}, "both nodes to join")
        wait_for(lambda: sum(it["offered"] for it in pool.state()["devices"]) == 2, "both devices")
        with inside(pool.user):
            yield pool


@pytest.fixture(scope="module")
def server(pool: Pool) -> Iterator[ServerProcess]:
    trust = pool.user.home / "trust.pem"
    (found,) = pool.host.runtime.glob(f"{names.TLS_DIR}/ca.pem")
    trust.write_bytes(found.read_bytes())
    reach = {names.ENV_URL: pool.url, names.ENV_TOKEN: TOKEN, names.ENV_CA_FILE: str(trust)}
    server = ServerProcess(pool.user.home / "server", {**pool.user.environment, **reach})
    add_kernelspec(server, "most", gpupool={"share": 0.75})
    shared = {"PYTHONPATH": str(ROOT), names.ENV_STORE: str(pool.user.home / "store")}
    add_kernelspec(server, "moving", gpupool={"share": 0.5}, env=shared)
    try:
        server.start()
        server.wait_connected()
        yield server
    finally:
        server.cleanup()


@pytest.fixture
def started(server: ServerProcess) -> Iterator[Any]:
    sessions: list[str] = []

    def start(path: str = "", name: str = "most") -> str:
        answer = start_session(server, name, path=path or f"{uuid.uuid4().hex}.ipynb")
        assert answer.status == 201, (answer, server.log()[-3000:])
        sessions.append(answer.body["id"])
        return str(answer.body["kernel"]["id"])

    yield start
    for session in sessions:
        server.ask("DELETE", f"api/sessions/{session}")


def lease_of(server: ServerProcess, kernel_id: str) -> Any:
    """Wait until a kernel holds its lease; return it."""

    def found() -> Any:
        leases = server.ask("GET", "jupyter_gpupool/api/v1/pool").body["leases"]
        mine = (it for it in leases if it["holder"]["kernel_id"] == kernel_id and it["state"] == "active")
        return next(mine, None)

    return wait_for(found, f"kernel {kernel_id} to hold its lease")


def test_kernels_run_on_the_nodes_that_have_room_and_keep_their_ports(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    kernels = [started(), started()]
    places = [connection_of(server, it) for it in kernels]
    assert {it["ip"] for it in places} == {pool.first.address, pool.second.address}
    assert all(it["curve_publickey"] for it in places)
    for kernel_id, place in zip(kernels, places, strict=True):
        lease = lease_of(server, kernel_id)
        show = f"os.getpid(), os.environ.get('{names.ENV_URL}')"
        assert server.run(kernel_id, "import os", show) == (lease["holder"]["pid"], pool.url)
        assert server.ask("POST", f"api/kernels/{kernel_id}/restart").status == 200
        assert lease_of(server, kernel_id)["id"] == lease["id"]
        assert dict(connection_of(server, kernel_id)) == dict(place)
    os.kill(lease_of(server, kernels[0])["holder"]["pid"], signal.SIGKILL)
    wait_for(lambda: server.run(kernels[0], "", "'os' in globals()") is False, "the kernel to be back")
    for kernel_id in kernels:
        assert server.ask("DELETE", f"api/kernels/{kernel_id}").status == 204
    wait_for(lambda: not pool.state()["leases"], "the leases to end")


def test_a_kernel_whose_node_is_cut_off_starts_on_another_and_the_first_is_ended_when_that_is_back(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    kernel_id = started()
    lease, ip = lease_of(server, kernel_id), connection_of(server, kernel_id)["ip"]
    node = next(it for it in (pool.first, pool.second) if it.address == ip)
    pid = lease["holder"]["pid"]
    pool.network.cut(node)
    try:
        wait_for(
            lambda: connection_of(server, kernel_id).get("ip", ip) != ip, "the kernel to be elsewhere", 60.0
        )
        assert lease_of(server, kernel_id)["id"] != lease["id"]
        assert server.run(kernel_id, "", "6 * 7") == 42
        assert Path(f"/proc/{pid}").exists()
    finally:
        pool.network.mend(node)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the first process to be ended", 60.0)


#: Has a part of the kernel's device taken, so that its lease cannot grow there.
TAKE_ROOM = """
import uuid
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseRequest
process = this_process()
(lease,) = process.held.values()
body = LeaseRequest(compute_milli=400, device=lease.doc.shares[0].device_id, wait_seconds=0.0)
body.holder = HolderRequest(worker="rest")
process.client.request(body, key=uuid.uuid4().hex)
del process, lease, body
x = 41
"""


def test_a_kernel_moves_to_another_host(pool: Pool, server: ServerProcess, started: Any) -> None:
    kernel_id = started(name="moving")
    before, ip = lease_of(server, kernel_id), connection_of(server, kernel_id)["ip"]
    server.run(kernel_id, TAKE_ROOM)
    with speaking_to(server, kernel_id) as client:
        client.wait_for_ready(timeout=60)
        cell = Talk(client).run("%gpupool request 0.75 --move")
    assert cell.ename == "KernelMoves", cell.text
    wait_for(lambda: connection_of(server, kernel_id).get("ip", ip) != ip, "the kernel to be elsewhere", 60.0)
    assert server.run(kernel_id, "x += 1", "x") == 42
    leases = server.ask("GET", "jupyter_gpupool/api/v1/pool").body["leases"]
    (after,) = [it for it in leases if it["id"] == before["id"]]
    assert (after["compute_milli"], after["state"]) == (750, "active")
    assert after["node_id"] != before["node_id"]
    assert {pool.first.address, pool.second.address} == {ip, connection_of(server, kernel_id)["ip"]}


def test_a_session_cluster_of_a_kernel_has_workers_on_other_nodes(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    kernel_id = started()
    own = connection_of(server, kernel_id)["ip"]
    code = """
    from distributed import Client
    from jupyter_gpupool import GPUPoolCluster
    cluster = GPUPoolCluster(share=0.25, n_workers=2)
    client = Client(cluster)
    client.wait_for_workers(2, timeout=60)
    """
    hosts = "sorted({it.split('//')[1].rpartition(':')[0] for it in client.has_what()})"
    places = server.run(kernel_id, textwrap.dedent(code), hosts)
    assert set(places) - {own}  # its own node has room for one of them
    assert set(places) <= {pool.first.address, pool.second.address}
    assert server.run(kernel_id, "total = client.submit(sum, [1, 2, 3]).result()", "total") == 6
    server.run(kernel_id, "client.close(); cluster.close()")
    wait_for(lambda: len(pool.state()["leases"]) == 1, "the workers' leases to end")


def write_notebook(server: ServerProcess, **metadata: Any) -> Path:
    """Put a notebook where a server finds it."""
    path = server.folder / f"{uuid.uuid4().hex}.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_the_share_that_a_notebook_says_is_what_its_kernel_on_a_node_runs_with(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    path = write_notebook(server)
    said = pool.user.run("notebook", "set-share", str(path), "0.4")
    assert said.returncode == 0, said.stderr
    kernel_id = started(path.name)
    assert connection_of(server, kernel_id)["ip"] in {pool.first.address, pool.second.address}
    lease = lease_of(server, kernel_id)
    assert (lease["compute_milli"], lease["id"]) == (400, lease_that_runs(server, kernel_id))
    assert first_words(server, kernel_id) == ""
    assert server.ask("POST", f"api/kernels/{kernel_id}/restart").status == 200
    assert lease_of(server, kernel_id)["id"] == lease["id"]


def test_what_is_wrong_with_a_notebooks_share_is_said_with_the_first_cell(
    server: ServerProcess, started: Any
) -> None:
    kernel_id = started(write_notebook(server, gpupool={"share": 7}).name)
    assert lease_of(server, kernel_id)["compute_milli"] == 750
    words = first_words(server, kernel_id)
    assert "A share of “7” is more than one device." in words
    assert "This kernel runs with 0.75 of a device, as its kernelspec says." in words
    assert "Traceback" not in words
    assert first_words(server, kernel_id) == ""


def lease_that_runs(server: ServerProcess, kernel_id: str) -> str:
    """Return the lease that a kernel itself says it has."""
    return str(server.run(kernel_id, "import os", f"os.environ['{names.ENV_LEASE}']"))


def first_words(server: ServerProcess, kernel_id: str) -> str:
    """Run a cell, and return what the kernel says with it."""
    said: list[str] = []
    with speaking_to(server, kernel_id) as client:
        client.wait_for_ready(timeout=30)
        client.execute_interactive(
            "1", timeout=30, output_hook=lambda it: said.append(it["content"].get("text", ""))
        )
    return "".join(said)


def test_a_kernel_without_encryption_is_warned_of_and_refused_where_a_node_says_so(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    nodes = {it["id"]: it["hostname"] for it in pool.state()["nodes"]}
    for device in pool.state()["devices"]:
        wanted = {"share": 0.25, "device": device["id"]}
        add_kernelspec(server, f"open-{nodes[device['node_id']]}", encrypted=False, gpupool=wanted)
    kernel_id = started(name="open-n1")
    place = connection_of(server, kernel_id)
    assert (place["ip"], place.get("curve_publickey")) == (pool.first.address, None)
    assert "runs on node n1, and the network up to there can read" in first_words(server, kernel_id)
    assert 'its kernelspec does not have "supported_encryption": ["curve"]' in server.log()
    refused = start_session(server, "open-n2")
    assert refused.status == 500
    assert "Node n2 starts no kernels that the network can listen to." in refused.body["message"]
    wait_for(lambda: len(pool.state()["leases"]) == 1, "the lease of the refused kernel to end")


def test_no_secret_of_a_kernel_is_in_a_log_or_an_argument(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    kernel_id = started()
    place, pid = connection_of(server, kernel_id), lease_of(server, kernel_id)["holder"]["pid"]
    said = pool.host.log("serve.log") + pool.first.log("agent.log") + pool.second.log("agent.log")
    said += server.log() + Path(f"/proc/{pid}/cmdline").read_text()
    for secret in (place["key"], place["curve_secretkey"], TOKEN):
        assert secret not in said
