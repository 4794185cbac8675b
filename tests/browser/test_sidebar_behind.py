"""The sidebar of a server as a Hub runs it: under a path of its own, behind a proxy that speaks https."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import world_of
from tests.browser.lab import Lab
from tests.browser.page import LabPage
from tests.browser.proxy import Proxy

pytestmark = pytest.mark.slow

_NOTEBOOK = "behind.ipynb"
#: A user whose name is a mail address, and a server of theirs with a space in its name, as the Hub writes it.
_BASE = "/user/me@home.org/a%20b/"


@pytest.fixture(scope="module")
def running_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run a JupyterLab that a browser reaches through the proxy only."""
    folder = tmp_path_factory.mktemp("behind")
    with Lab(folder, world_of(folder), base=_BASE) as lab, Proxy(folder, lab.port, lab.environment) as proxy:
        lab.origin = proxy.origin
        yield lab


def test_behind_an_https_proxy_and_under_any_path_a_share_is_asked_for_seen_resized_and_released(
    page: LabPage,
) -> None:
    sockets: list[str] = []
    page.page.on("websocket", lambda it: sockets.append(it.url))
    page.lab.add_notebook(_NOTEBOOK)
    page.open(_NOTEBOOK)
    live = [url for url in sockets if "/jupyter_gpupool/" in url]
    assert len(live) == 1
    assert live[0].startswith(page.lab.origin.replace("https", "wss") + _BASE)

    page.panel.get_by_role("button", name="Request a share").click()
    form = page.panel.get_by_role("form", name="Request a share")
    form.get_by_role("spinbutton", name="Share").fill("0.25")
    form.get_by_role("button", name="Insert into notebook").click()
    expect(page.run_cell("gpupool request")).to_contain_text("active")
    lease = page.lease_of(_NOTEBOOK)
    expect(lease).to_contain_text("this notebook")

    lease.get_by_role("button", name="Resize").click()
    lease.get_by_role("spinbutton", name="New share").fill("0.5")
    lease.get_by_role("button", name="Resize to 0.5").click()
    expect(lease.locator(".jp-GPUPool-share")).to_have_text("0.5")
    page.panel.locator("[data-section=history] h3 button").click()
    expect(page.panel.locator("[data-section=history] .uplot").first).to_be_visible()

    lease.get_by_role("button", name="Release").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(lease).to_have_count(0)
    assert page.lab.pool()["leases"] == []
