"""Journals that earlier versions wrote, kept as they were: all migrations run, and nothing of them is lost.

The files of `tests/data` were written by the code of their time, playing: ann holds half a GPU for 3600 s,
then a quarter; bob three quarters for 7198 s; cyd waits for that, and is granted; bob waits for a whole one.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.cluster.journal_schema import SCHEMA_VERSION
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import paths
from tests.support.pool_process import PoolProcess, running_pool, wait_for

DATA = Path(__file__).resolve().parents[1] / "data"
FILES = sorted(DATA.glob("journal-schema-*.sqlite3"))
WALL_MS = 1_750_000_000_000


def version_of(path: Path) -> int:
    database = sqlite3.connect(path)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return int(version)


def put(file: Path, place: Path) -> Path:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(file, place)
    return place


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_an_old_journal_is_brought_up_to_date_with_its_leases_and_usage(file: Path, tmp_path: Path) -> None:
    path = put(file, tmp_path / "private" / "journal.sqlite3")
    assert version_of(path) == int(file.stem.rpartition("-")[2]) < SCHEMA_VERSION
    for _ in range(2):  # the second time it is current
        journal = Journal.open(path)
        assert version_of(path) == SCHEMA_VERSION
        live = {it.id: (it.owner, it.state, it.want.compute_milli) for it in journal.live_leases()}
        assert live == {
            "lease_0002": ("ann", LeaseState.ACTIVE, 250),
            "lease_0004": ("cyd", LeaseState.ACTIVE, 500),
            "lease_0005": ("bob", LeaseState.QUEUED, 1000),
        }
        assert {it.owner: it.used_milli_ms for it in journal.usage()} == {
            "ann": 500 * 3_600_000,
            "bob": 750 * 7_198_000,
        }
        sums: Counter[str] = Counter()
        for span in journal.spent.spans(0, 2**60):
            sums[span.owner] += span.used_milli_ms
            assert span.device_id == "GPU-old-1"
            assert WALL_MS <= span.from_ms <= span.until_ms <= WALL_MS + 11_000_000
        assert +sums == {"ann": 500 * 3_600_000 + 250 * 2_000, "bob": 750 * 7_198_000}
        assert journal.pool_time(WALL_MS + 20_000_000) >= 10_800_000
        assert journal.drains() == []
        journal.close()


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_a_service_goes_on_with_an_old_journal(file: Path, pool_environment: dict[str, str]) -> None:
    put(file, paths.data_dir() / "emulated" / "journal.sqlite3")
    arguments = ("--PoolService.agent_grace_seconds=1", "--PoolService.usage_keep_days=36500")
    with running_pool(pool_environment, emulate="2xA100-80GB", arguments=arguments) as pool:
        assert isinstance(pool, PoolProcess)
        wait_for(
            lambda: {it["owner"] for it in pool.get("/api/v1/leases").body}.isdisjoint({"ann", "cyd"}),
            "what was on a node that is gone to end",
        )
        query = "since=2025-06-15T15:06:40&until=2025-06-15T16:06:40&by=owner"
        (ann,) = pool.get(f"/api/v1/usage/report?{query}").body
        assert (ann["owner"], ann["held_device_seconds"], ann["leases"]) == ("ann", 1800.0, 1)
        made = pool.ask("POST", "/api/v1/leases", {"compute_milli": 100})
        assert made.status == 201
        assert "Traceback" not in pool.log()
