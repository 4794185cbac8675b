"""A training whose number of workers follows its progress ends where the one with a fixed number does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from dask.distributed import Client

from jupyter_gpupool import GPUPoolCluster
from jupyter_gpupool.sessions.training import Rank, train
from tests.support.pool_process import running_pool
from tests.support.resumed_training import past, progress, run

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "digits_by_progress.py"


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.timeout(400)
def test_the_number_of_workers_does_not_change_what_is_learnt(pool_environment: dict[str, str]) -> None:
    command = [sys.executable, str(EXAMPLE), "5", "1"]
    with running_pool(pool_environment) as pool:
        done = subprocess.run(
            command, env=pool_environment, capture_output=True, text=True, timeout=360, check=False
        )
        assert done.returncode == 0, done.stderr
        assert pool.get("/api/v1/leases").body == []
    found = re.fullmatch(r"by progress ([\d.]+), with 1 all the time ([\d.]+)\n", done.stdout)
    assert found is not None, done.stdout
    elastic, fixed = map(float, found.groups())
    assert elastic == pytest.approx(fixed, abs=0.002)
    assert fixed < 1.5


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.timeout(300)
def test_a_training_whose_worker_is_killed_goes_on_from_what_was_saved(
    pool_environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: tmp_path / name for name in ("disturbed", "calm")}
    for place in places.values():
        place.mkdir()
    with running_pool(pool_environment) as pool:
        with GPUPoolCluster(share=0.2, kind="cpu") as cluster, Client(cluster) as client:
            losses = {
                name: run(
                    *(cluster, client, str(place)),
                    epochs=12,
                    save_every=4,
                    kill_at=6 if name == "disturbed" else -1,
                )
                for name, place in places.items()
            }
            assert any("begin anew" in it for it in cluster.troubles)
        assert pool.get("/api/v1/leases").body == []
    killed = float((places["disturbed"] / "killed").read_text())
    assert [epoch for epoch, _ in progress(places["disturbed"])] == [*range(6), *range(4, 12)]
    assert losses["disturbed"] == pytest.approx(losses["calm"], abs=1e-6)
    seconds = (past(places["disturbed"], 6, killed) or 0) - killed
    with capsys.disabled():
        print(f"\npast the epoch in which a worker was killed after {seconds:.1f} s")
    assert 0 < seconds < 120


def broken(rank: Rank) -> None:
    """Fail as a person's own code does."""
    raise KeyError(f"rank {rank.rank} of {rank.world_size}")


@pytest.mark.slow
@pytest.mark.beside
def test_what_is_wrong_with_the_work_is_raised_and_not_tried_anew(pool_environment: dict[str, str]) -> None:
    with (
        running_pool(pool_environment),
        GPUPoolCluster(share=0.2, kind="cpu") as cluster,
        Client(cluster) as client,
    ):
        with pytest.raises(KeyError, match=r"rank \d of 2"):
            train(cluster, client, broken, epochs=1, policy=lambda *_: 2)
        assert list(cluster.troubles) == []
        assert len(cluster.observed) == 2
