"""``%gpupool scale`` in a real kernel, and what is left of it when the kernel is gone."""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import Cell, Notebook, notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"

pytestmark = [pytest.mark.slow, pytest.mark.beside]


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    """Run a pool on this machine's CPU."""
    with running_pool(pool_environment) as running:
        yield running


def leases(pool: PoolProcess) -> list[Any]:
    """Return the live leases."""
    return pool.get("/api/v1/leases").body


def workers_of(book: Notebook) -> list[psutil.Process]:
    """Return the processes of the workers of a kernel."""
    children = psutil.Process(book.pid).children()
    return [it for it in children if "jupyter_gpupool.sessions.worker" in it.cmdline()]


def test_a_cell_scales_up_and_down_and_has_a_client(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook(pool_environment) as book:
        assert "distributed" not in book.ok("import sys; sorted(sys.modules)").result
        assert "`%gpupool scale 2` asks for two" in book.run("%gpupool scale 0").text
        shown = book.ok("%gpupool scale 2 --share 0.2").result
        assert "2 of 2 workers with a share of 0.2 run." in shown
        assert book.ok("client.gather(client.map(lambda x: x * x, range(4)))").result == "[0, 1, 4, 9]"
        assert "GPUPoolCluster" in book.ok("cluster").displays[-1]["text/html"]
        assert book.ok("%gpupool request 0.3").status == "ok"
        assert "2 of 2 workers" in book.ok("%gpupool scale 1:2").result
        assert "all of its workers are alike" in book.run("%gpupool scale 2 --share 0.3").text
        assert "is no number of workers" in book.run("%gpupool scale many").text
        assert "Traceback" not in book.run("%gpupool scale 1000").text
        assert "finish what they run" in book.ok("%gpupool scale 0").result
        wait_for(lambda: len(leases(pool)) == 1, "the workers' leases to be given back")
        assert leases(pool)[0]["holder"]["pid"] == book.pid
        book.ok("client = 'mine'")
        assert "Your variable `client` was left alone" in book.ok("%gpupool scale 1 --share 0.3").stderr
        assert book.ok("client").result == "'mine'"
        assert "1 of 1 worker with a share of 0.3 runs" in book.ok("%gpupool scale 1").result


def test_the_example_of_the_documentation_runs(pool: PoolProcess, pool_environment: dict[str, str]) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with notebook(pool_environment) as book:
        assert book.ok(example).stdout.endswith("pi is about 3.14, as 2 workers have found\n")


def test_workers_escape_the_limits_of_the_kernels_own_lease(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    look = (
        "def look():\n import os, resource\n"
        " return os.environ['JUPYTER_GPUPOOL_LEASE'], resource.getrlimit(resource.RLIMIT_DATA)[0]\n"
    )
    with notebook(pool_environment) as book:
        book.ok("%gpupool request 0.25 --memory 1GiB")
        book.ok("%gpupool scale 1 --share 0.25 --memory 2GiB")
        held = {doc["holder"]["pid"]: doc for doc in leases(pool)}
        lease, limit = ast.literal_eval(book.ok(f"{look}client.submit(look).result()").result)
        worker = next(doc for pid, doc in held.items() if pid != book.pid)
        assert lease == worker["id"]
        assert limit == 2 * 2**30
        assert ast.literal_eval(book.ok("look()").result)[1] == 2**30


def test_a_killed_kernel_leaves_neither_workers_nor_leases(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook(pool_environment) as book:
        book.ok("%gpupool scale 2 --share 0.2")
        book.ok("import time; task = client.submit(time.sleep, 600)")
        workers = workers_of(book)
        assert len(workers) == 2
        assert len(leases(pool)) == 2
        os.kill(book.pid, signal.SIGKILL)
        wait_for(lambda: not any(it.is_running() for it in workers), "the workers to be gone")
        wait_for(lambda: not leases(pool), "the leases to be over")


def test_a_kernel_that_ends_in_order_gives_back_at_once(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook(pool_environment) as book:
        book.ok("%gpupool scale 2 --share 0.2")
        workers = workers_of(book)
        book.manager.shutdown_kernel()
        wait_for(lambda: not any(it.is_running() for it in workers), "the workers to be gone")
        wait_for(lambda: not leases(pool), "the leases to be over")


def test_the_stop_button_stops_a_wait_and_no_worker(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook(pool_environment) as book:
        book.ok("%gpupool scale 1 --share 0.2")
        (worker,) = workers_of(book)
        sent = book.send(
            "import time\nfuture = client.submit(time.sleep, 600)\nprint('waits')\nfuture.result()"
        )
        pressed: list[str] = []

        def press(cell: Cell) -> None:
            if cell.stdout and not pressed:
                pressed.append(cell.stdout)
                book.interrupt()

        assert "KeyboardInterrupt" in book.finish(sent, on_output=press).traceback
        assert worker.is_running()
        assert book.ok("future.cancel(); len(client.nthreads())").result == "1"


def test_a_restarted_kernel_has_its_cluster_and_client_again(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook(pool_environment) as book:
        book.ok("%gpupool scale 2 --share 0.2 --kind cpu")
        before = {it.pid for it in workers_of(book)}
        book.restart()
        first = book.ok("sorted(client.gather(client.map(lambda x: x * x, range(4))))")
        assert first.result == "[0, 1, 4, 9]"
        assert "2 workers with a share of 0.2 are asked for again" in first.stderr
        wait_for(lambda: book.ok("len(cluster.workers) == len(client.nthreads())").result == "True", "both")
        assert "asked for again" not in book.ok("1").stderr
        book.pid = int(book.ok("import os; os.getpid()").result)
        after = {it.pid for it in workers_of(book)}
        assert len(after) == 2
        assert not after & before
        assert sorted(doc["compute_milli"] for doc in leases(pool)) == [200, 200]
        book.ok("%gpupool scale 1:3 --share 0.1 --kind cpu")  # nobody used the one that came by itself
        assert book.ok("cluster.wish.compute_milli").result == "100"
        os.kill(book.pid, signal.SIGKILL)
        book.restart()
        assert "1 to 3 workers with a share of 0.1 are asked for again" in book.ok("1").stderr
        book.ok("%gpupool scale 0")
        book.restart()
        assert book.ok("import sys; 'client' in globals() or 'distributed' in sys.modules").result == "False"


def test_a_cluster_that_was_closed_does_not_come_back_and_one_that_cannot_is_said(
    pool: PoolProcess, pool_environment: dict[str, str]
) -> None:
    with notebook({**pool_environment, names.ENV_AUTOSTART: "0"}) as book:
        book.ok("%gpupool scale 1 --share 0.2")
        book.ok("cluster.close()")
        book.restart()
        assert book.ok("'client' in globals()").result == "False"
        book.ok("%gpupool scale 1 --share 0.2")
        pool.stop()
        book.restart()
        cell = book.ok("40 + 2")
        assert cell.result == "42"
        assert "This kernel has restarted without its workers:" in cell.stderr
        assert "Traceback" not in cell.text
        pool.restart()
        book.restart()
        assert book.ok("client.submit(sum, [1, 2]).result()").result == "3"
