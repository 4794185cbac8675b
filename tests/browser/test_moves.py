"""A notebook in JupyterLab whose kernel moves to another node: its tab finds the kernel there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from jupyter_gpupool.protocol import names
from tests.browser.lab import Lab
from tests.browser.page import LabPage
from tests.support.node_kernels import ROOT, write_kernelspec
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = [pytest.mark.slow, pytest.mark.beside]

_NOTEBOOK = "moves.ipynb"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path / "nodes") as nodes:
        yield nodes


@pytest.fixture
def lab(chromium: str, nodes: TwoNodes, tmp_path: Path) -> Iterator[Lab]:
    """Run a JupyterLab on a pool of two nodes, with a kernel that runs where its share is."""
    environment = {**nodes.pool.environment, "IPYTHONDIR": str(tmp_path / "ipython")}
    lab = Lab(tmp_path / "lab", environment)
    shared = {"PYTHONPATH": str(ROOT), names.ENV_STORE: str(tmp_path / "store")}
    write_kernelspec(tmp_path / "lab" / "jupyter" / "data", "quarter", env=shared)
    lab.add_notebook(_NOTEBOOK, kernel="quarter")
    with lab:
        yield lab


def test_the_next_cell_runs_on_the_other_node_with_the_variables(page: LabPage, nodes: TwoNodes) -> None:
    page.open(_NOTEBOOK)
    page.run("x = 41")
    (before,) = nodes.pool.get("/api/v1/leases").body
    rest = nodes.pool.request(750, device=before["shares"][0]["device_id"])
    moving = page.start("%gpupool request 0.5 --move")
    expect(page.output(moving)).to_contain_text("This kernel goes on on node")
    dialog = page.page.locator(".jp-Dialog", has_text="restart automatically")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Ok").click()
    page.is_ready(_NOTEBOOK)
    output = page.run("x + 1")
    expect(output).to_contain_text("This kernel has moved here.")
    expect(output).to_contain_text(re.compile(r"\b42\b"))
    expect(page.page.get_by_text("The kernel of this notebook is gone")).to_have_count(0)
    page.screenshot("moved")
    (after,) = [it for it in nodes.pool.get("/api/v1/leases").body if it["id"] == before["id"]]
    assert after["node_id"] != before["node_id"]
    nodes.pool.release(rest["id"])
