"""The example notebook, run by hand in JupyterLab from the first cell to the last."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.page import LabPage

_NOTEBOOK = "first_lease.ipynb"


def test_a_quarter_that_a_notebook_takes_is_seen_in_the_panel_until_it_gives_it_back(page: LabPage) -> None:
    page.open(_NOTEBOOK)
    expect(page.panel).to_contain_text("Nothing is leased to you.")
    expect(page.run_cell(r"^%gpupool request 0\.25\s*$")).to_contain_text("0.25 of cpu")
    lease = page.lease_of(_NOTEBOOK)
    expect(lease).to_contain_text("this notebook")
    expect(page.device("cpu").get_by_role("img", name="Compute: 0.75 of 1 free")).to_be_visible()
    expect(page.run_cell("^%gpupool release")).to_contain_text("Released 0.25 of cpu")
    expect(lease).to_have_count(0)


@pytest.mark.slow
@pytest.mark.beside
def test_the_example_notebook_takes_a_quarter_trains_in_it_and_gives_it_back(page: LabPage) -> None:
    page.open(_NOTEBOOK)
    expect(page.panel).to_contain_text("Nothing is leased to you.")
    page.run_cell("^import torch")
    expect(page.run_cell(r"^%gpupool\s*$")).to_contain_text(re.compile("Devices.*cpu.*My leases", re.S))

    granted = page.run_cell(r"^%gpupool request 0\.25\s*$")
    expect(granted).to_contain_text("0.25 of cpu")
    expect(granted).to_contain_text(re.compile(r"memory.*(hard|soft), by .*compute.*(hard|soft), by ", re.S))
    lease = page.lease_of(_NOTEBOOK)
    expect(lease).to_contain_text("this notebook")
    expect(lease).to_contain_text(re.compile("Memory: (hard|soft) limit"))
    expect(page.device("cpu").get_by_role("img", name="Compute: 0.75 of 1 free")).to_be_visible()

    expect(page.run_cell(r"load_digits\(")).to_contain_text("of the test digits read right")
    page.screenshot("first-lease", docs=True)
    page.theme("JupyterLab Dark")
    page.screenshot("first-lease-dark", docs=True)
    page.theme("JupyterLab Light")

    too_much = page.run_cell(r"torch\.empty")
    expect(too_much).to_contain_text(re.compile(r"went past the memory of lease lease_\S+: it has \d"))
    expect(page.run_cell("^print.lease")).to_contain_text("The network is still here")
    expect(lease).to_contain_text("active")

    expect(page.run_cell(r"^%gpupool resize 35%")).to_contain_text("0.35 of cpu")
    expect(lease).to_contain_text("0.35")
    expect(page.run_cell("^%gpupool why")).to_contain_text("0.35 of cpu")
    expect(page.run_cell("^%gpupool devices")).to_contain_text("0.65 of 1")
    expect(page.run_cell("^%gpupool release")).to_contain_text("Released 0.35 of cpu")
    expect(lease).to_have_count(0)
    expect(page.run_cell("^with gpupool.request")).to_contain_text("0.25 of cpu")
    expect(page.run_cell("^%%gpupool 0.25")).to_contain_text("tensor(")
    expect(page.run_cell("^%gpupool usage")).to_contain_text("device-hours")
    expect(page.panel).to_contain_text("Nothing is leased to you.")
