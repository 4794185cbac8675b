"""The monitor and the control panel in a real JupyterLab, light and dark."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, wait_for
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow

_HOLD = "import jupyter_gpupool as gpupool\nlease = gpupool.request(0.25)\nlease"


def test_the_monitor_follows_the_pool_without_keeping_the_kernel_alive(page: LabPage, lab: Lab):
    lab.add_notebook("monitor.ipynb")
    page.open("monitor.ipynb")
    page.run(_HOLD)
    large = page.run("%gpupool monitor").locator(".gpupool-monitor")
    expect(large.get_by_label("cpu", exact=True)).to_contain_text("free")
    expect(large.get_by_role("list", name="My leases")).to_contain_text("this notebook")
    expect(large.get_by_role("meter").first).to_have_attribute("aria-valuetext", re.compile("free"))
    small = page.run("%gpupool monitor --small").locator(".gpupool-monitor")
    expect(small).to_contain_text("0.25 of cpu")
    page.run("%gpupool")

    kernel = f"api/kernels/{lab.kernel_ids()['monitor.ipynb']}"
    # on a busy machine the cell's last word reaches the server after its prompt is there
    wait_for(lambda: lab.get(kernel)["execution_state"] == "idle", "the kernel has nothing to do")
    before = lab.get(kernel)["last_activity"]
    points = large.locator("polyline")
    told = points.get_attribute("points")
    wait_for(lambda: points.get_attribute("points") != told, "the monitor goes on by itself")
    after = lab.get(kernel)
    assert after["last_activity"] == before
    assert after["execution_state"] == "idle"

    page.command("application:toggle-left-area")
    for theme in ("Light", "Dark"):
        page.theme(f"JupyterLab {theme}")
        page.screenshot(f"monitor-{theme.lower()}", docs=True)
    page.theme("JupyterLab Light")


def test_the_control_panel_requests_resizes_and_releases_with_the_keyboard(page: LabPage, lab: Lab):
    lab.add_notebook("panel.ipynb")
    page.open("panel.ipynb")
    panel = page.run("import jupyter_gpupool as gpupool\ngpupool.panel()").locator(".widget-vbox").first
    expect(panel).to_contain_text("This notebook has no lease.")
    request, release = (panel.get_by_role("button", name=name) for name in ("Request", "Release"))
    expect(release).to_be_disabled()
    request.focus()
    page.page.keyboard.press("Enter")
    expect(panel).to_contain_text("This notebook has 0.25 of cpu.")
    expect(page.lease_of("panel.ipynb")).to_be_visible()
    slider = panel.get_by_role("slider").first
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    panel.get_by_role("button", name="Resize").press("Enter")
    expect(panel).to_contain_text("This notebook has 0.3 of cpu.")
    panel.get_by_role("textbox", name="Memory").fill("lots")
    panel.get_by_role("button", name="Resize").press("Enter")
    expect(panel.get_by_role("alert")).to_contain_text("lots")
    page.command("application:toggle-left-area")
    for theme in ("Light", "Dark"):
        page.theme(f"JupyterLab {theme}")
        page.screenshot(f"panel-{theme.lower()}")
    page.theme("JupyterLab Light")
    release.press("Enter")
    expect(panel).to_contain_text("This notebook has no lease.")
