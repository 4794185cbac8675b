"""Real kernels, a real pool: who does nothing gives way to who waits, and who does something does not."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ARGUMENTS = (
    "--PoolService.reclaim_idle_minutes=0.05",
    "--PoolService.notice_seconds=6",
    "--PoolService.least_run_minutes=0",
)
BUSY = "import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass"


@pytest.fixture
def world(tmp_path) -> dict[str, str]:
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(tmp_path / "run"),
        names.ENV_DATA_DIR: str(tmp_path / "data"),
        names.ENV_LOCK_DIR: str(tmp_path / "lock"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }


def held_lease(pool: PoolProcess) -> dict:
    return next(it for it in pool.get("/api/v1/leases").body if it["state"] == "active")


def test_an_idle_kernel_gives_way_to_one_that_waits_and_a_busy_one_does_not(world) -> None:
    with (
        running_pool(world, embedded=True, arguments=ARGUMENTS) as pool,
        notebook(world) as first,
        notebook(world) as second,
    ):
        first.ok("%gpupool request 0.75")
        mine = held_lease(pool)["id"]

        # while a cell runs, nothing is taken, however long somebody waits
        running = first.send(BUSY.format(seconds=14))
        refused = second.run("%gpupool request 0.5 --wait 9s")
        assert refused.status == "error", refused.text
        assert pool.lease(mine)["state"] == "active"
        assert pool.lease(mine)["idle_seconds"] == 0.0
        first.finish(running)

        # it is told, and keeps its lease by doing something
        waiting = second.send("%gpupool request 0.5 --wait 3m")
        notice = wait_for(lambda: pool.lease(mine)["notices"] or None, "a notice", 60)
        assert notice[0].startswith("This lease is taken back in ")
        assert notice[0].endswith("Run a cell to keep it.")
        shown = first.ok("6 * 7")
        wait_for(lambda: pool.lease(mine)["reclaim_seconds"] is None, "the notice to be withdrawn", 5)
        assert "This lease is taken back in" in shown.text

        # it does nothing more: it is taken, and who waits gets it
        second.finish(waiting, seconds=120)
        gone = wait_for(lambda: ended(pool, mine), "the end of the idle lease")
        assert gone["end_reason"] == "reclaimed"
        assert held_lease(pool)["id"] != mine
        wait_for(lambda: "taken back" in first.ok("1").text, "the notebook to say so")


def ended(pool: PoolProcess, lease_id: str) -> dict | None:
    doc = pool.lease(lease_id)
    return doc if doc["state"] == "ended" else None


def test_a_pinned_lease_is_kept(world) -> None:
    with running_pool(world, embedded=True, arguments=ARGUMENTS) as pool, notebook(world) as book:
        book.ok("%gpupool request 0.75")
        assert "Pinned 0.75" in book.ok("%gpupool pin").text
        mine = held_lease(pool)
        assert mine["pinned"]
        assert "it may be taken back" in book.ok("%gpupool unpin").text
        book.ok("import jupyter_gpupool as gpupool; lease = gpupool.current()")
        assert book.ok("lease.pin().pinned, lease.unpin().pinned").result == "(True, False)"
