"""A pool of a Hub whose groups are those of the quotas: limits follow them, over a restart, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool_process import PoolProcess, wait_for, world
from tests.support.stand_in_hub import StandInHub, stand_in_hub

pytestmark = [pytest.mark.slow, pytest.mark.beside]

QUOTAS = """
version: 1
groups:
  - name: students
    limits: {compute: 0.5}
"""


@pytest.fixture
def hub() -> Iterator[StandInHub]:
    with stand_in_hub() as running:
        for name in ("ann", "bob"):
            running.add(f"token-of-{name}", name)
        yield running


@pytest.fixture
def pool(hub: StandInHub, tmp_path: Path) -> Iterator[PoolProcess]:
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text(QUOTAS)
    environment = world(tmp_path) | {
        "JUPYTERHUB_API_URL": hub.url,
        "JUPYTERHUB_API_TOKEN": "token-of-the-service",
        "JUPYTERHUB_SERVICE_PREFIX": "/services/gpupool/",
    }
    arguments = ("--hub", "--PoolService.attach_seconds=3600", f"--PoolService.quotas_file={quotas}")
    running = PoolProcess(environment, emulate="2xA100-80GB", arguments=arguments)
    try:
        yield running.start()
    finally:
        running.cleanup()


def ask(pool: PoolProcess, name: str, compute_milli: int) -> Any:
    body = {"compute_milli": compute_milli, "kind": "cuda", "wait_seconds": 0, "holder": {"key": "k"}}
    return pool.ask("POST", "/api/v1/leases", body, token=f"token-of-{name}")


def test_groups_of_the_hub_are_those_of_the_quotas(pool: PoolProcess, hub: StandInHub) -> None:
    for name in ("ann", "bob"):
        hub.identities[f"token-of-{name}"]["groups"] = ["chess", "students"]
    wait_for(lambda: len(pool.get("/api/v1/devices", token="token-of-ann").body) >= 2, "the devices")
    assert ask(pool, "ann", 400).status == 201
    refused = ask(pool, "bob", 300)
    assert refused.status in (403, 409), refused
    assert "students" in refused.body["message"]
    usage = pool.get("/api/v1/usage", token="token-of-bob").body
    (quota,) = [it for doc in usage if doc["mine"] for it in doc["quotas"] if it["group"] == "students"]
    assert quota["left"] == pytest.approx(0.1)

    pool.kill()
    pool.start()  # ann, who holds most of what the students have, has not asked yet
    wait_for(lambda: len(pool.get("/api/v1/devices", token="token-of-bob").body) >= 2, "the devices")
    assert "students" in ask(pool, "bob", 300).body["message"]

    hub.identities["token-of-bob"]["groups"] = []
    assert ask(pool, "bob", 300).status == 201
