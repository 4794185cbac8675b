"""A pool on one host, nodes on two others, and a cable that is cut: the commands as people type them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.join import AGENT_PORT, API_PORT, CONTROL_PORT
from tests.support.hosts import Host, Network, network
from tests.support.pool_process import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hosts")]
TOKEN = "token-of-ann-for-this-test"


class Pool:
    """The hosts of these tests, by what they are."""

    def __init__(self, made: Network) -> None:
        self.network = made
        self.host, self.first, self.second, self.user = made.hosts
        self.url = f"https://{self.host.address}:{API_PORT}"

    def serve(self, *options: str) -> None:
        """Start the service and wait until it answers; without options it soon gives a node up."""
        service = self.host.start(
            *("serve", "--listen", self.host.address, "--PoolService.start_agent=False"),
            *(options or ("--PoolService.agent_grace_seconds=2", "--PoolService.worker_ttl_seconds=4")),
            f"--PoolService.tokens={{'ann': '{TOKEN}'}}",
            log="serve.log",
        )
        wait_for(lambda: self._answers(service), "the service to answer")

    def _answers(self, service: subprocess.Popen[bytes]) -> Any:
        assert service.poll() is None, self.host.log("serve.log")
        return self.state()

    def state(self) -> Any:
        """Return the pool as its host sees it; None while there is none."""
        done = self.host.run("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def token(self, *options: str) -> str:
        """Make a join token."""
        done = self.host.run("token", "create", "--join", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def join(self, node: Host, name: str, token: str, *options: str) -> None:
        """Start the agent of a node with a token."""
        file = node.home / "join-token"
        file.write_text(token)
        arguments = ("agent", self.url, "--node", name, "--emulate", "1xA100-80GB")
        node.start(*arguments, "--join-token-file", str(file), *options, log="agent.log")

    def connected(self) -> set[str]:
        """Return the names of the nodes that are connected."""
        found = self.state()
        return {node["hostname"] for node in (found or {"nodes": []})["nodes"] if node["connected"]}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with network(tmp_path_factory.mktemp("hosts"), 4) as made:
        pool = Pool(made)
        pool.serve()
        for node, name in ((pool.first, "n1"), (pool.second, "n2")):
            pool.join(node, name, pool.token())
        wait_for(lambda: pool.connected() == {"n1", "n2"}, "both nodes to join")
        yield pool


def test_the_devices_of_both_nodes_are_in_one_pool(pool: Pool) -> None:
    devices = wait_for(
        lambda: [it for it in pool.state()["devices"] if it["offered"]][1:] and pool.state()["devices"],
        "both devices to be offered",
    )
    assert len({it["id"] for it in devices}) == len({it["node_id"] for it in devices}) == 2


def test_only_the_documented_ports_are_open_to_others(pool: Pool) -> None:
    address = pool.host.address
    assert pool.host.listening() == {(address, API_PORT), (address, CONTROL_PORT)}
    for node in (pool.first, pool.second):
        assert node.listening() == {(node.address, AGENT_PORT)}


def test_a_user_elsewhere_is_served_by_https_and_learns_nothing_of_the_control_plane(pool: Pool) -> None:
    trust = pool.host.home / "trust.pem"
    (found,) = pool.host.runtime.glob(f"{names.TLS_DIR}/ca.pem")
    trust.write_bytes(found.read_bytes())
    environment = {names.ENV_URL: pool.url, names.ENV_TOKEN: TOKEN, names.ENV_CA_FILE: str(trust)}
    done = pool.user.run("status", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    assert {it["hostname"] for it in json.loads(done.stdout)["nodes"]} == {"n1", "n2"}
    assert str(CONTROL_PORT) not in done.stdout
    assert "tls://" not in done.stdout
    untrusting = pool.user.run("status", environment={**environment, names.ENV_CA_FILE: ""})
    assert untrusting.returncode == 1
    assert names.ENV_CA_FILE in untrusting.stderr


def test_a_machine_without_a_good_token_gets_one_sentence(pool: Pool) -> None:
    token = pool.token("--for", "1h")
    ids = token.split(".")
    pool.host.run("token", "revoke", ids[1])
    other = ".".join([*ids[:3], "0" * 64])
    for text, said in (
        ("", "has not joined the pool"),
        ("nonsense", "This is no join token."),
        (token, "was revoked"),
        (other, "is not the pool that this token is for"),
    ):
        done = pool.user.run("agent", pool.url, "--node", "n3", "--join-token-file", "-", stdin=f"{text}\n")
        assert done.returncode == 1
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert ids[2] not in done.stderr


def test_a_token_that_was_used_lets_nobody_else_in(pool: Pool) -> None:
    used = (pool.first.home / "join-token").read_text()
    done = pool.user.run("agent", pool.url, "--node", "n3", "--join-token-file", "-", stdin=used)
    assert done.returncode == 1
    assert "was used already" in done.stderr
    assert "used" in pool.host.run("token", "list").stdout
    assert "join_refused" in pool.host.run("certs", "audit").stdout


def test_no_secret_is_in_a_log(pool: Pool) -> None:
    logs = pool.host.log("serve.log") + pool.first.log("agent.log") + pool.second.log("agent.log")
    assert TOKEN not in logs
    for node in (pool.first, pool.second):
        assert (node.home / "join-token").read_text().split(".")[2] not in logs


def test_a_node_whose_cable_is_cut_is_away_and_comes_back(pool: Pool) -> None:
    pool.network.cut(pool.first)
    try:
        wait_for(lambda: pool.connected() == {"n2"}, "the pool to notice")
    finally:
        pool.network.mend(pool.first)
    wait_for(lambda: pool.connected() == {"n1", "n2"}, "the node to come back", 60.0)
    assert "Traceback" not in pool.host.log("serve.log")


def test_plain_http_is_not_served_to_others(pool: Pool) -> None:
    done = pool.user.run("serve", "--ip", pool.user.address)
    assert done.returncode == 1
    assert "plain HTTP never leaves the machine" in done.stderr
    assert f"--listen {pool.user.address}" in done.stderr
