"""%gpupool in real kernels, against a real pool."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import Notebook, notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

GIVE_BACK = "import jupyter_gpupool as gpupool\n(lease := gpupool.current()) and lease.release()"
LIMIT = "import resource; resource.getrlimit(resource.RLIMIT_DATA)[0]"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> dict[str, str]:
    """Return the environment of one world on disk that the tests of this file share."""
    root = tmp_path_factory.mktemp("world")
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(root / "run"),
        names.ENV_DATA_DIR: str(root / "data"),
        names.ENV_LOCK_DIR: str(root / "lock"),
        "IPYTHONDIR": str(root / "ipython"),
    }


@pytest.fixture(scope="module")
def pool(world):
    with running_pool(world, embedded=True) as pool:
        yield pool


@pytest.fixture(scope="module")
def first_kernel(pool, world):
    with notebook(world) as opened:
        yield opened


@pytest.fixture(scope="module")
def second_kernel(pool, world):
    with notebook(world) as opened:
        yield opened


@pytest.fixture
def book(first_kernel):
    """Lend a kernel with the extension, without a lease before and after."""
    yield first_kernel
    first_kernel.ok(GIVE_BACK)


@pytest.fixture
def second(second_kernel):
    """Lend another one."""
    yield second_kernel
    second_kernel.ok(GIVE_BACK)


def leases(pool: PoolProcess) -> list[dict]:
    return pool.get("/api/v1/leases").body


def queue(pool: PoolProcess) -> list[dict]:
    return pool.get("/api/v1/queue").body


def test_a_share_is_asked_for_used_resized_and_given_back(pool: PoolProcess, book: Notebook):
    before = book.ok(LIMIT).result
    shown = book.ok("%gpupool").text
    assert "cpu" in shown
    assert "`%gpupool request 0.25` asks for one" in shown

    granted = book.ok("lease = %gpupool request 0.25\nlease")
    assert "0.25 of cpu" in granted.result
    assert "RLIMIT_DATA" in granted.result
    assert "compute" in granted.result
    assert 'scope="row"' in granted.displays[-1]["text/html"]
    (doc,) = leases(pool)
    assert doc["state"] == "active"
    assert doc["holder"]["pid"] == book.pid
    assert int(book.ok(LIMIT).result) == doc["memory_bytes"]
    assert "this process" in book.ok("%gpupool").text

    resized = book.ok("%gpupool resize 0.5 --memory 3GiB")
    assert "0.5 of cpu" in resized.result
    assert "3.0 GiB" in resized.result
    assert book.ok(LIMIT).result == str(3 * 2**30)
    assert "0.5 of cpu" in book.ok("%gpupool why").result
    assert "free compute" in book.ok("%gpupool devices").result
    assert "device-hours" in book.ok("%gpupool usage").result

    assert "Released 0.5 of cpu" in book.ok("%gpupool release").result
    assert book.ok(LIMIT).result == before
    assert leases(pool) == []


def test_refusals_are_one_sentence_and_fail_the_cell(book: Notebook):
    for line, said in (
        ("request 1/0", "InvalidValue: “1/0” is not a share."),
        ("request 0.5 --kind cuda", "NoSuchDevice:"),
        ("request 0.5 --device gpu7", "NoSuchDevice:"),
        ("request 0.1 --memory 100TiB", "NeverFits:"),
        ("release", "NothingHeld: This process has no lease."),
        ("resize 0.5", "NothingHeld:"),
    ):
        cell = book.run(f"%gpupool {line}")
        assert cell.status == "error", line
        assert cell.traceback.startswith(said), cell.traceback
        assert "\n" not in cell.traceback
    cell = book.run("%gpupool relase")
    assert cell.status == "error"
    assert "Did you mean `%gpupool release`?" in cell.text


def test_a_second_lease_of_one_kind_is_refused_and_resize_is_named(book: Notebook):
    book.ok("%gpupool request 0.25")
    cell = book.run("%gpupool request 0.25")
    assert cell.ename == "AlreadyHolds"
    assert "Resize it" in cell.evalue


def test_without_waiting_it_is_now_or_not_at_all(pool, book, second):
    book.ok("%gpupool request 0.75 --memory 1GiB")
    cell = second.run("%gpupool request 0.5 --memory 1GiB --no-wait")
    assert cell.ename == "DoesNotFitNow"
    cell = second.run("%gpupool request 0.5 --memory 1GiB --wait 1s")
    assert cell.ename == "RequestEnded"
    assert "within the time it was to wait" in cell.evalue
    assert queue(pool) == []


def test_help_and_completion_work_in_a_kernel(book: Notebook):
    assert "--no-wait" in book.ok("%gpupool request --help").text
    assert book.complete("%gpupool re") == ["request", "resize", "release", "restore", "rerun"]
    assert book.complete("%gpupool request 0.5 --ki") == ["--kind"]
    assert "release" in book.complete("x = %gpupool re")
    assert book.complete("%%gpupool 0.5 --no") == ["--no-wait"]
    assert book.complete("%gpupool request 0.5 --device ") == ["cpu"]


def test_a_second_notebook_waits_with_a_live_line_and_is_served_at_once(pool, book, second):
    book.ok("%gpupool request 0.75 --memory 1GiB")
    sent = second.send("%gpupool request 0.5 --memory 1GiB")
    released = []

    def release_after_two_updates(cell) -> None:
        if cell.updates >= 2 and not released:
            markup = cell.displays[0]["text/html"]
            assert 'role="status"' in markup
            assert "position 1" in cell.displays[0]["text/plain"]
            released.append(book.ok("%gpupool release"))

    cell = second.finish(sent, on_output=release_after_two_updates)
    assert released
    assert cell.status == "ok", cell.text
    assert cell.displays[0]["text/plain"].startswith("Granted after")
    assert "0.5 of cpu" in cell.result


def test_a_second_notebook_is_served_when_the_first_kernel_is_gone(pool, world, second):
    with notebook(world) as book:
        book.ok("%gpupool request 0.75 --memory 1GiB")
        sent = second.send("%gpupool request 0.5 --memory 1GiB")
        wait_for(lambda: queue(pool) or None, "the request to wait")
        book.close()
        cell = second.finish(sent)
        assert cell.status == "ok", cell.text


def test_the_stop_button_cancels_a_wait_and_leaves_no_ghost(pool, book, second):
    book.ok("%gpupool request 0.75 --memory 1GiB")
    sent = second.send("%gpupool request 0.5 --memory 1GiB")
    wait_for(lambda: queue(pool) or None, "the request to wait")
    second.interrupt()
    cell = second.finish(sent)
    assert cell.status == "error"
    assert cell.ename == "KeyboardInterrupt"
    assert cell.traceback == "KeyboardInterrupt: The request was cancelled; nothing is held or waits."
    assert queue(pool) == []
    assert second.ok("1 + 1").result == "2"
    # and it may ask again
    assert "0.25 of cpu" in second.ok("%gpupool request 0.25 --memory 1GiB").result


@pytest.mark.slow
@pytest.mark.beside
def test_a_pool_service_that_dies_while_a_notebook_waits_is_started_again(pool_environment):
    with (
        running_pool(pool_environment, embedded=True) as pool,
        notebook(pool_environment) as book,
        notebook(pool_environment) as second,
    ):
        book.ok("%gpupool request 0.75 --memory 1GiB")
        sent = second.send("%gpupool request 0.5 --memory 1GiB")
        wait_for(lambda: queue(pool) or None, "the request to wait")
        pool.kill()
        wait_for(lambda: (pool.file is not None and pool.file.pid != pool.pid) or None, "another service")
        wait_for(lambda: queue(pool) or None, "the request to wait in it")
        book.ok("%gpupool release")
        cell = second.finish(sent)
        assert cell.status == "ok", cell.text


def test_a_lease_that_ended_by_itself_is_noticed_and_another_may_be_asked_for(pool, book):
    before = book.ok(LIMIT).result
    book.ok("import os, jupyter_gpupool as gpupool")
    book.ok("%gpupool request 0.25 --memory 2GiB --for 1s")
    wait_for(lambda: leases(pool) == [] or None, "the lease to end by itself")
    assert (
        book.ok("gpupool.current() is None, 'JUPYTER_GPUPOOL_LEASE' in os.environ").result == "(True, False)"
    )
    assert book.ok(LIMIT).result == before
    book.ok("%gpupool request 0.25 --memory 2GiB --for 1s")
    wait_for(lambda: leases(pool) == [] or None, "the lease to end by itself")
    assert "active" in book.ok("%gpupool request 0.25 --memory 2GiB").result
    assert "Released" in book.ok("%gpupool release").result


def test_a_cell_has_a_lease_of_its_own(pool: PoolProcess, book: Notebook):
    book.ok("import jupyter_gpupool as gpupool")
    cell = book.ok("%%gpupool 0.5 --memory 2GiB\nheld = gpupool.current()\n" + LIMIT)
    assert "This cell has 0.5 of cpu" in cell.stdout
    assert cell.result == str(2 * 2**30)
    assert leases(pool) == []
    assert book.ok("gpupool.current() is None, held.state.value").result == "(True, 'ended')"


def test_a_cell_that_fails_gives_its_lease_back_and_stops_the_notebook(pool: PoolProcess, book: Notebook):
    cell = book.run("%%gpupool 0.5\nx = 1\nx / 0\n")
    assert cell.status == "error"
    assert cell.ename == "ZeroDivisionError"
    assert "----> 3 x / 0" in cell.traceback
    assert leases(pool) == []
    assert book.ok("x").result == "1"


def test_a_cell_that_wants_too_much_does_not_run(pool: PoolProcess, book: Notebook):
    cell = book.run("%%gpupool 2\nran = True\n")
    assert cell.ename == "NeverFits"
    assert book.run("ran").ename == "NameError"


def test_a_cell_past_its_memory_is_told_so_and_lease_and_kernel_live_on(pool: PoolProcess, book: Notebook):
    book.ok("import numpy, torch")
    book.ok("%gpupool request 0.25 --memory 2GiB")
    (doc,) = leases(pool)
    for code, kind in (
        ("numpy.ones(2**29)", "MemoryError"),
        ("torch.ones(2**30)", "RuntimeError"),
        ("import jupyter_gpupool\nb = bytearray(2**32)", "MemoryError"),
    ):
        cell = book.run(code)
        assert kind in cell.ename, cell.text
        assert code.split("\n")[-1] in cell.traceback
        assert doc["id"] in cell.traceback
        assert "2.0 GiB of cpu" in cell.traceback
        assert "%gpupool resize 0.5" in cell.traceback
    assert [lease["state"] for lease in leases(pool)] == ["active"]
    assert book.ok("float(numpy.ones(10).sum())").result == "10.0"
    cell = book.run("raise RuntimeError('mine')")
    assert doc["id"] not in cell.traceback
    book.ok("%gpupool release")


def test_a_with_block_past_its_memory_is_told_so(book: Notebook):
    book.ok("import numpy, jupyter_gpupool as gpupool")
    cell = book.run("with gpupool.request(0.25, memory='2GiB') as lease:\n    numpy.ones(2**29)")
    assert "MemoryError" in cell.ename
    assert "This went past the memory of lease" in cell.traceback
    assert book.ok("lease.state.value").result == "'ended'"


def test_thread_counts_follow_the_lease(book: Notebook):
    book.ok("import torch, os")
    before = book.ok("torch.get_num_threads()").result
    book.ok("%gpupool request 0.25")
    assert book.ok("torch.get_num_threads(), os.environ['OMP_NUM_THREADS']").result == "(1, '1')"
    book.ok("%gpupool resize 1 --memory 2GiB")
    cores = book.ok("len(os.sched_getaffinity(0))").result
    assert book.ok("torch.get_num_threads()").result == cores
    book.ok("%gpupool release")
    assert book.ok("torch.get_num_threads()").result == before


def test_a_forked_child_is_not_the_holder(pool: PoolProcess, book: Notebook):
    book.ok("lease = %gpupool request 0.25")
    cell = book.ok(
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        lease.release(); import jupyter_gpupool; ours = jupyter_gpupool.current()\n"
        "        os._exit(0 if ours is None else 1)\n"
        "    finally:\n"
        "        os._exit(2)\n"
        "os.waitpid(child, 0)[1]"
    )
    assert cell.result == "0"
    assert [doc["state"] for doc in leases(pool)] == ["active"]
    book.ok("%gpupool release")


def test_it_works_in_a_kernel_that_nobody_prepared(pool: PoolProcess, world):
    with notebook(world, extension=False) as bare:
        bare.ok("%load_ext jupyter_gpupool")
        assert "0.25 of cpu" in bare.ok("%gpupool request 0.25").result
        bare.ok("%gpupool release")
        bare.ok("%unload_ext jupyter_gpupool")
        assert bare.run("%gpupool").status == "error"


def test_a_kernel_whose_lease_is_gone_starts_all_the_same_and_says_so(pool: PoolProcess, world):
    environment = world | {names.ENV_REATTACH: "lease_of_the_past"}
    with notebook(environment) as restarted:
        sent = restarted.first
    assert "This kernel restarted without its lease lease_of_the_past" in sent.stderr
    assert "`%gpupool request` asks for a new one." in sent.stderr
    assert names.ENV_REATTACH not in sent.result


def test_a_kernel_that_asks_for_nothing_imports_nothing_of_ours(pool: PoolProcess, world):
    code = "import sys; sorted(m for m in sys.modules if m.startswith('jupyter_gpupool.') or m == 'urllib3')"
    with notebook(world) as fresh:
        loaded = fresh.ok(code).result
    assert "kernel.extension" in loaded
    assert "client" not in loaded
    assert "urllib3" not in loaded
