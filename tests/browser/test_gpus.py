"""What a person sees of GPUs: a real JupyterLab, pool and agent on a fake driver."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from jupyter_gpupool.protocol import names
from tests.browser.lab import Lab, wait_for
from tests.browser.page import LabPage
from tests.support.fake_cuda import CUDAHolder
from tests.support.fake_gpus import FakeGPUs

pytestmark = pytest.mark.slow

_NOTEBOOK = "gpu.ipynb"
#: A cell that runs until a file is there.
_RUNS = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGPUs:
    """Put two A100, one of which does not tell its power, and an H100 in three instances into the machine."""
    gpus = FakeGPUs(tmp_path / "gpus").a100(2).h100_mig()
    return gpus.set("gpu0.nvmlDeviceGetPowerUsage", "!4")


@pytest.fixture
def lab(chromium: str, gpus: FakeGPUs, tmp_path: Path) -> Iterator[Lab]:
    """Run a JupyterLab of its own: its pool has these GPUs."""
    world = {
        names.ENV_RUNTIME_DIR: str(tmp_path / "run"),
        names.ENV_DATA_DIR: str(tmp_path / "data"),
        names.ENV_LOCK_DIR: str(tmp_path / "lock"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    with Lab(tmp_path, dict(os.environ) | gpus.environment() | world) as running:
        running.add_notebook(_NOTEBOOK)
        yield running
        running.shut_down_all()
        wait_for(lambda: running.pool().get("leases") == [], "no lease outlives its kernel")


def test_gpus_are_shown_as_they_are_and_what_fails_is_said_in_the_cell_that_runs(
    page: LabPage, gpus: FakeGPUs
) -> None:
    with CUDAHolder(gpus.environment()) as stranger:
        assert stranger.do("init")["error"] == ""
        assert stranger.do("alloc", bytes=3 * 2**30)["error"] == ""
        page.open(_NOTEBOOK)
        first = page.device("cuda0")
        expect(first).to_contain_text(re.compile(f"1 process without a lease.*pid {stranger.pid}", re.S))
        expect(first.get_by_label("Power: not known, no permission")).to_have_text("— W")
        expect(first).to_contain_text("a fraction does not buy compute here")
        cut = page.panel.get_by_role("region", name="cuda2", exact=True)
        expect(cut).to_contain_text("3 instances, 3 free")
        expect(cut.get_by_role("article")).to_have_count(3)

        page.run("%gpupool request 0.25 --device cuda1")
        lease = page.lease_of(_NOTEBOOK)
        expect(lease).to_contain_text("Compute: no limit (time-slicing)")
        expect(lease).to_contain_text(re.compile("Memory: .*(soft|hard)"))
        running = page.start(_RUNS)
        gpus.set("gpu1.nvmlDeviceGetTemperature", 99)
        expect(page.device("cuda1")).to_contain_text(re.compile("failed|degraded"))
        expect(page.output(running)).to_contain_text(re.compile("gpupool: cuda1 .*"))
        expect(lease.locator(".jp-GPUPool-notice")).to_contain_text("cuda1")
        page.screenshot("gpus", docs=True)
        (page.lab.root / "go").touch()
        page.finished(running)
        assert "Traceback" not in page.output(running).inner_text()
