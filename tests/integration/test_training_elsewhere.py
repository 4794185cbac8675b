"""A training on workers of two nodes, one of which is cut off on the way: it goes on with another one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names
from tests.integration.test_several_hosts import TOKEN, Pool
from tests.support.hosts import ROOT, inside, network
from tests.support.pool_process import wait_for
from tests.support.resumed_training import progress

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beside,
    pytest.mark.xdist_group("hosts"),
    pytest.mark.timeout(300),
]
#: The goal: so long after the loss of a node a training is past the epoch that it was in, seconds.
GOAL_SECONDS = 120.0
EPOCHS = 60


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with network(tmp_path_factory.mktemp("training"), 4) as made:
        pool = Pool(made)
        pool.serve("--PoolService.agent_grace_seconds=15")  # as without it: what is measured is the default
        nodes = {"n1": pool.first, "n2": pool.second, "n3": pool.user}
        for name, node in nodes.items():
            pool.join(node, name, pool.token(), "--PoolAgent.accounts={'ann': 'root'}")
        wait_for(lambda: pool.connected() == nodes.keys(), "the nodes to join")
        wait_for(lambda: sum(it["offered"] for it in pool.state()["devices"]) == len(nodes), "their devices")
        yield pool


@contextmanager
def training(pool: Pool, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Train from the user's host."""
    trust = pool.host.home / "trust.pem"
    (found,) = pool.host.runtime.glob(f"{names.TLS_DIR}/ca.pem")
    trust.write_bytes(found.read_bytes())
    reach = {names.ENV_URL: pool.url, names.ENV_TOKEN: TOKEN, names.ENV_CA_FILE: str(trust)}
    words = ("-m", "tests.support.resumed_training", str(folder), pool.user.address, str(EPOCHS))
    with inside(pool.user), (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            env={**pool.user.environment, **reach, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_training_goes_on_when_one_of_its_nodes_is_cut_off(
    pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with training(pool, tmp_path) as process:
        wait_for(lambda: len(progress(tmp_path)) > 7, f"some epochs; {tmp_path / 'log'} says more", 60.0)
        known = {it["id"]: it["hostname"] for it in pool.state()["nodes"]}
        training_on = {known[it["node_id"]] for it in pool.state()["leases"]}
        assert len(training_on) == 2
        lost = pool.first if "n1" in training_on else pool.second
        pool.network.cut(lost)
        cut_at = time.time()
        try:
            epoch = wait_for(lambda: stopped_at(tmp_path), "the ranks to wait for the one that is cut off")

            def went_past() -> float | None:
                assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
                return later(tmp_path, epoch)

            went_on = wait_for(went_past, "the training to go on", GOAL_SECONDS)
        finally:
            pool.network.mend(lost)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    assert "begin anew" in said
    assert {it for it, _ in progress(tmp_path)} == set(range(EPOCHS))
    seconds = went_on - cut_at
    with capsys.disabled():
        print(f"\npast the epoch in which a node was cut off after {seconds:.1f} s")
    assert seconds < GOAL_SECONDS
    wait_for(lambda: pool.state()["leases"] == [], "the leases to be given back")


def stopped_at(folder: Path) -> int | None:
    """Return the newest epoch, once nothing has ended for three seconds."""
    epoch, when = progress(folder)[-1]
    return epoch if time.time() - when > 3.0 else None


def later(folder: Path, epoch: int) -> float | None:
    """Return when an epoch after this one ended first; None while none has."""
    return next((when for it, when in progress(folder) if it > epoch), None)
