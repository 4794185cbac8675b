"""After a kernel has died, its notebook offers to restore what it left behind."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import wait_for
from tests.browser.page import LabPage

DIE = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.slow
def test_a_notebook_whose_kernel_died_offers_to_restore_it_with_a_button(page: LabPage) -> None:
    page.lab.add_notebook("training.ipynb")
    page.open("training.ipynb")
    page.run("epochs = 7\n%gpupool checkpoint best")
    wait_for(lambda: page.lab.get("jupyter_gpupool/api/v1/snapshots"), "the pool knows the snapshot")
    page.start(DIE)
    page.page.get_by_role("button", name="Ok").click()  # JupyterLab's own word on the death

    offer = page.page.locator(".Toastify__toast", has_text="The kernel of this notebook is gone.")
    expect(offer).to_be_visible()
    page.screenshot("offer")
    offer.get_by_role("button", name="Restore").click()
    expect(page.page.locator(".Toastify__toast", has_text="Restored “best”")).to_be_visible()
    expect(page.run("epochs * 6")).to_contain_text("42")
