"""GPUs from a notebook's side: a real kernel, service and agent; only the drivers are fakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fake_cuda import cuda_environment
from tests.support.fake_gpus import FakeGPUs
from tests.support.notebook import Cell, Notebook, notebook
from tests.support.pool_process import PoolProcess, running_pool, world

pytestmark = [pytest.mark.slow, pytest.mark.beside]

GIB = 2**30
#: Makes the calls of a CUDA program in the kernel itself.
CUDA = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
import cuda_holder
"""
ENVIRONMENT = """
import os
print(*(os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF")))
"""
#: Counts the caps that wait for torch to start CUDA.
QUEUED = """
import torch
print(sum("TorchCap" in call.__qualname__ for call, _ in torch.cuda._queued_calls))
"""
#: Runs until it is interrupted; the notice comes meanwhile.
PAST_THE_SHARE = """
import threading
print(cuda_holder.alloc(bytes=21 * 2**30)["error"] == "")
while True:
    threading.Event().wait(0.05)
"""


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> FakeGPUs:
    """Put two A100 into the machine."""
    return FakeGPUs(tmp_path_factory.mktemp("gpus")).a100(2)


@pytest.fixture(scope="module")
def pool(gpus: FakeGPUs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    """Run one service: who exceeds a share is interrupted soon."""
    home = tmp_path_factory.mktemp("pool")
    environment = cuda_environment(gpus.state, {**world(home), **gpus.environment()})
    environment["IPYTHONDIR"] = str(home / "ipython")
    arguments = ("--over-limit", "interrupt", "--PoolAgent.grace_seconds=2", "--sharing", "timeslice")
    with running_pool(environment, embedded=True, arguments=arguments) as pool:
        yield pool


@pytest.fixture
def book(pool: PoolProcess) -> Iterator[Notebook]:
    """Run a kernel."""
    with notebook(pool.environment) as opened:
        opened.ok(CUDA)
        yield opened


def _interrupted(book: Notebook, code: str) -> Cell:
    """Run a cell that somebody else than this test ends."""
    return book.finish(book.send(code), seconds=60)


def test_a_fresh_kernel_gets_its_device_and_is_told_and_stopped_when_it_takes_more(
    book: Notebook, gpus: FakeGPUs
) -> None:
    granted = book.ok("%gpupool request 0.25 --device cuda1")
    assert "not yet in force: soft, by framework caps" in granted.result
    assert "0.25 of cuda1, not enforced (time-slicing)" in granted.result
    assert "a fraction does not buy compute" in granted.result
    assert granted.stderr == ""
    assert gpus.uuid(1) in book.ok(ENVIRONMENT).stdout

    assert "{'error': ''}" in book.ok("print(cuda_holder.init())").stdout
    stopped = _interrupted(book, PAST_THE_SHARE)
    assert stopped.stdout.startswith("True"), stopped.text
    assert stopped.ename == "KeyboardInterrupt"
    said = [line for line in stopped.stderr.splitlines() if line.startswith("gpupool: ")]
    assert any("20.0 GiB" in line for line in said), stopped.text
    assert len(said) == len({re.sub(r"[\d.]+", "#", line) for line in said})
    why = book.ok("%gpupool why").result
    assert "memory: 20.0 GiB, soft, by framework caps" in why

    released = book.ok("%gpupool release")
    assert "Released 0.25 of cuda1" in released.result
    assert "CUDA still holds memory of cuda1 in this process" in released.stderr
    assert "None" in book.ok(ENVIRONMENT).stdout


def test_a_kernel_that_used_cuda_before_is_told_what_a_restart_would_give(book: Notebook) -> None:
    book.ok("print(cuda_holder.init())")
    granted = book.ok("%gpupool request 0.25 --device cuda0")
    first = granted.stderr.splitlines()[0]
    assert first.startswith("gpupool: This process has initialised CUDA already")
    assert "restart the kernel" in first
    assert "active for" in granted.result
    assert "torch" not in book.ok("import sys; print([n for n in sys.modules if n == 'torch'])").stdout


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_variables_of_installed_frameworks_come_with_the_lease_and_follow_it(book: Notebook) -> None:
    book.ok("%gpupool request 0.25 --device cuda0")
    assert "per_process_memory_fraction:0.24" in book.ok(ENVIRONMENT).stdout
    book.ok("%gpupool resize 0.5")
    assert "per_process_memory_fraction:0.4" in book.ok(ENVIRONMENT).stdout
    assert book.ok(QUEUED).stdout.strip() == "1"
    book.ok("%gpupool release")
