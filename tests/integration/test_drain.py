"""Draining a node of a real pool: by command, by the API, on the Hub's page; across a restart; on record."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.client.errors import PoolRefused
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.protocol.documents import LeaseRequest, NodeState
from tests.support.pool_page import Browser, pool_of_a_hub
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world
from tests.support.stand_in_hub import ADMIN, StandInHub


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[PoolProcess]:
    arguments = ("--PoolService.attach_seconds=3600",)
    with running_pool(world(tmp_path), emulate="2xA100-80GB", arguments=arguments) as running:
        yield running


def command(pool: PoolProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", *arguments],
        env=pool.environment,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def ask(pool: PoolProcess, key: str) -> Any:
    return pool.client.request(LeaseRequest(compute_milli=250), key=key)


def test_by_command_a_node_takes_nothing_until_it_is_undrained_and_that_survives_a_restart(
    pool: PoolProcess,
) -> None:
    client = pool.client
    (node,) = client.nodes()
    held = ask(pool, "one")
    done = command(pool, "drain", node.hostname, "--message=New driver.")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        f"{node.hostname} is being drained: new driver. It takes no new leases; of those that are there, "
        "they may stay."
    )
    pool.kill()
    pool.start()
    client = pool.client
    (seen,) = client.nodes()
    assert (seen.state, seen.drain_message, seen.drain_seconds) == (NodeState.DRAINING, "New driver.", None)
    assert client.lease(held.id).state is LeaseState.ATTACHING
    waits = ask(pool, "two")
    assert waits.state is LeaseState.QUEUED
    assert "its node is being drained: new driver" in waits.reason
    assert {it.offered for it in client.devices()} == {False}
    metrics = pool.http.request(
        "GET", pool.url + "/metrics", headers={"Authorization": f"Bearer {pool.token}"}
    )
    assert b"jupyter_gpupool_nodes_drained 1.0" in metrics.data
    assert f"{node.hostname} is being drained" in command(pool, "status").stdout.replace("\n", " ")

    client.release(held.id)
    assert client.nodes()[0].state is NodeState.DRAINED
    assert command(pool, "undrain", node.id).stdout.strip() == f"{node.hostname} takes leases."
    wait_for(lambda: client.lease(waits.id).state is LeaseState.ATTACHING, "the request to be granted")
    deeds = pool.get("/api/v1/audit").body
    assert [(it["action"], it["detail"]) for it in deeds] == [
        ("undrain", ""),
        ("drain", "leases stay; New driver."),
    ]


def test_with_a_grace_leases_end_with_the_message_also_when_the_service_was_down_meanwhile(
    pool: PoolProcess,
) -> None:
    client = pool.client
    (node,) = client.nodes()
    held = ask(pool, "one")
    doc = client.drain(node.id, message="The room is closed.", grace_seconds=2.0)
    assert doc.state is NodeState.DRAINING
    assert doc.drain_seconds is not None
    assert 0 < doc.drain_seconds <= 2
    pool.kill()
    pool.start()
    client = pool.client
    wait_for(lambda: client.lease(held.id).state is LeaseState.ENDED, "the lease to end")
    ended = client.lease(held.id)
    assert (ended.end_reason, ended.end_detail) == (EndReason.DRAINED, "The room is closed.")
    assert "an administrator drained its node" in ended.reason
    assert command(pool, "drain", node.id, "--now").returncode == 0


def test_a_node_that_is_not_there_and_a_grace_that_is_none_are_refused_with_what_there_is(
    pool: PoolProcess,
) -> None:
    client = pool.client
    (node,) = client.nodes()
    with pytest.raises(PoolRefused, match="There is no node gone") as told:
        client.drain("gone")
    assert node.hostname in str(told.value)
    assert pool.ask("POST", f"/api/v1/nodes/{node.id}/drain", {"grace_seconds": -1}).status == 400
    assert "which node" in command(pool, "drain").stderr.lower()
    assert client.undrain(node.id).state is NodeState.READY  # twice is harmless
    assert pool.get("/api/v1/audit").body == []


@pytest.fixture
def hub_pool(tmp_path: Path) -> Iterator[tuple[PoolProcess, StandInHub]]:
    with pool_of_a_hub(tmp_path) as running:
        yield running


def test_on_the_page_an_administrator_drains_and_undrains_a_node_and_nobody_else_can(
    hub_pool: tuple[PoolProcess, StandInHub],
) -> None:
    pool, hub = hub_pool
    hub.add("boss-token", "boss", ADMIN)
    hub.add("ann-token", "ann")
    boss, ann = Browser(pool, hub, "boss-token"), Browser(pool, hub, "ann-token")
    node = pool.get("/api/v1/nodes", token="boss-token").body[0]["id"]
    assert ">Drain<" in boss.page()
    assert ">Drain<" not in ann.page()

    proof = re.search(r'name="proof" value="([^"]*)"', boss.page())
    assert proof is not None
    fields = {"proof": proof[1], "node": node}
    assert boss.post("drain", {**fields, "proof": "guessed"})[0] == 403
    assert boss.post("drain", fields, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert boss.post("drain", fields, Referer="https://evil.example/")[0] == 403
    assert ann.post("drain", fields)[0] == 403
    status, told = boss.send("drain", grace="soon")
    assert (status, "soon" in told) == (400, True)
    assert pool.get("/api/v1/nodes", token="boss-token").body[0]["state"] == "ready"

    assert boss.send("drain", message="<b>New</b> driver, 新 é.", grace="30m")[0] == 302
    page = boss.page()
    assert "&lt;b&gt;New&lt;/b&gt; driver, 新 é." in page
    assert ">Undrain<" in page
    assert "leases end in 30 min" in page  # the audit log
    assert pool.get("/api/v1/nodes", token="ann-token").body[0]["state"] == "drained"
    assert boss.send("undrain")[0] == 302
    assert ">Drain<" in boss.page()
