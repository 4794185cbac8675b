"""What a notebook shows on the hosted machine, with GPUs (emulated) beside its processor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.conftest import world_of
from tests.browser.lab import Lab, wait_for
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow

_BINDER = Path(__file__).parents[2] / "binder"
_GANG = "import jupyter_gpupool as gpupool\nlease = gpupool.request(0.5, kind='cuda', count=2)\nlease"


@pytest.fixture(scope="module")
def running_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run a JupyterLab with the configuration of the hosted machine."""
    folder = tmp_path_factory.mktemp("hosted")
    with Lab(folder, world_of(folder) | {"JUPYTER_CONFIG_PATH": str(_BINDER)}) as lab:
        yield lab


def test_a_lease_of_several_gpus_can_be_read_in_each_theme_and_as_plain_text(page: LabPage, lab: Lab) -> None:
    lab.add_notebook("gang.ipynb")
    page.open("gang.ipynb")
    shown = page.run(_GANG)
    expect(shown).to_contain_text("0.5 each of emulated0, emulated1")
    expect(shown).to_contain_text(re.compile("memory.* of each"))
    expect(page.run("print(repr(lease))")).to_contain_text("emulated1")
    expect(page.run("%gpupool")).to_contain_text(re.compile("Devices.*emulated3.*My leases.*emulated1", re.S))
    for theme in ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"):
        page.theme(theme)
        page.screenshot(f"gang-{theme.split(' ', 1)[1].lower().replace(' ', '-')}")
        assert violations(page, [".jp-RenderedHTMLCommon.jp-OutputArea-output"]) == []
    page.theme("JupyterLab Light")
    lease = page.lease_of("gang.ipynb")
    expect(lease).to_contain_text("emulated0, emulated1")
    expect(lease).to_contain_text("0.5 ×2")
    expect(lease.locator("summary").get_by_text(re.compile("^Memory:"))).to_have_count(1)


def test_the_control_panel_scales_a_cluster_that_computes_up_and_down(page: LabPage, lab: Lab) -> None:
    lab.add_notebook("cluster.ipynb")
    page.open("cluster.ipynb")
    shown = page.run("import jupyter_gpupool as gpupool\npanel = gpupool.panel()\npanel")
    panel = shown.locator(".widget-vbox").first
    panel.get_by_role("combobox", name="Device").select_option("cpu")
    workers = panel.get_by_role("slider").nth(1)
    workers.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowRight")
    scale = panel.get_by_role("button", name="Scale")
    scale.press("Enter")
    expect(panel).to_contain_text("2 of 2 workers")
    # The page said itself that it held nothing back; a wait in vain would have ended, too.
    expect(page.run("panel._settled.answer.value == 1")).to_contain_text("True")
    expect(page.run("sum(client.gather(client.map(lambda x: x * x, range(5))))")).to_contain_text("30")
    expect(page.device("cpu").get_by_role("img", name="Compute: 0.5 of 1 free")).to_be_visible()
    page.screenshot("panel-scaled")

    workers.focus()
    page.page.keyboard.press("Home")
    scale.press("Enter")
    expect(panel).to_contain_text("finish what they run")
    wait_for(lambda: lab.pool().get("leases") == [], "the workers' leases to be given back")
