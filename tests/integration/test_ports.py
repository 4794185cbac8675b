"""What listens while everything runs is what the documented table of ports says, and nothing else."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from jupyter_gpupool.protocol.join import AGENT_PORT, API_PORT, CONTROL_PORT
from tests.integration.test_kernels_elsewhere import lease_of, pool, server, started
from tests.integration.test_several_hosts import Pool
from tests.support.hosts import Host, inside
from tests.support.notebook import notebook
from tests.support.pool_process import running_pool
from tests.support.ports_table import documented, heard, places, role
from tests.support.server_process import ServerProcess
from tests.support.sockets import Listening, listening

__all__ = ["pool", "server", "started"]

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hosts")]
FIXED = (API_PORT, CONTROL_PORT, AGENT_PORT)
SCALE = """
from distributed import Client
from jupyter_gpupool import GPUPoolCluster
cluster = GPUPoolCluster(share=0.25, n_workers=2)
client = Client(cluster)
client.wait_for_workers(2, timeout=60)
"""


def by_process(sockets: Iterable[Listening]) -> dict[int, list[Listening]]:
    """Sort sockets by who has them open."""
    sorted_: dict[int, list[Listening]] = defaultdict(list)
    for it in sockets:
        sorted_[it.pid].append(it)
    return sorted_


def listening_on(host: Host) -> dict[int, list[Listening]]:
    """Return what listens on a host, by process."""
    with inside(host):
        return by_process(listening())


def test_the_table_has_the_ports_that_the_programs_take() -> None:
    assert {row.port for row in documented() if row.port} == set(FIXED)


def test_what_listens_on_each_host_is_what_the_table_says(
    pool: Pool, server: ServerProcess, started: Any
) -> None:
    kernel_id = started()
    server.run(kernel_id, textwrap.dedent(SCALE))
    kernel = lease_of(server, kernel_id)["holder"]["pid"]
    seen = []
    for host in (pool.host, pool.first, pool.second):
        for pid, sockets in listening_on(host).items():
            who = role(sockets[0].command)
            assert who, f"this is not in the table: {sockets}"
            assert heard(sockets, FIXED) == places(who, int(pid == kernel)), sockets
            assert {it.address for it in sockets if not it.on_loopback} == {host.address}
            assert {it.protocol for it in sockets} == {"tcp"}
            seen.append(who)
    assert sorted(seen) == ["agent", "agent", "kernel", "service", "worker", "worker"]
    (own,) = listening_on(pool.user).values()
    assert [(it.address, it.port) for it in own] == [("127.0.0.1", server.port)]
    server.run(kernel_id, "client.close(); cluster.close()")


def test_on_one_machine_all_of_it_is_on_loopback(pool_environment: dict[str, str]) -> None:
    with running_pool(pool_environment, embedded=True) as alone, notebook(pool_environment) as book:
        book.ok("%gpupool scale 2 --share 0.2")
        leases = alone.get("/api/v1/leases").body
        mine = {alone.pid, alone.agent_pid, book.pid, *(it["holder"]["pid"] for it in leases)}
        found = {pid: sockets for pid, sockets in by_process(listening()).items() if pid in mine}
        assert found.keys() == mine
        for pid, sockets in found.items():
            who = role(sockets[0].command)
            assert heard(sockets, ()) == places(who, int(pid == book.pid), alone=True), sockets
            assert {it.protocol for it in sockets} == {"tcp"}
