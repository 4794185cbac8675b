"""What the sidebar shows while things go wrong around it, and in other surroundings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import ipykernel
import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.lab import Lab
from tests.browser.made_up import STREAM
from tests.browser.page import LabPage


@pytest.mark.slow
def test_a_killed_service_shows_as_reconnecting_and_comes_back_with_its_lease(page: LabPage) -> None:
    page.lab.add_notebook("work.ipynb")
    page.open("work.ipynb")
    page.run("%gpupool request 0.25")
    lease = page.lease_of("work.ipynb")
    expect(lease).to_contain_text("active")
    before = lease.get_attribute("data-lease")

    page.lab.kill_pool()
    expect(page.phase).to_have_text("reconnecting…")
    expect(page.phase).to_have_text("connected")
    expect(lease).to_contain_text("active")
    assert lease.get_attribute("data-lease") == before


class Wire:
    """The wire between a page and its server, which can be cut."""

    def __init__(self, page: Page) -> None:
        self.is_cut = False
        #: The address of each try to connect.
        self.tries: list[str] = []
        self._sockets: list[WebSocketRoute] = []
        page.route_web_socket(STREAM, self._opened)

    def cut(self) -> None:
        """Let nothing through, and let nobody connect."""
        self.is_cut = True
        for socket in self._sockets:
            socket.close(code=4000)
        self._sockets.clear()

    def _opened(self, socket: WebSocketRoute) -> None:
        self.tries.append(socket.url)
        if self.is_cut:
            socket.close(code=4000)
        else:
            socket.connect_to_server()
            self._sockets.append(socket)


@pytest.mark.slow
def test_a_page_that_loses_its_server_says_so_and_goes_on_from_what_it_had(page: LabPage) -> None:
    wire = Wire(page.page)
    page.lab.add_notebook("wire.ipynb")
    page.open("wire.ipynb")
    page.run("%gpupool request 0.25")
    lease = page.lease_of("wire.ipynb")
    expect(lease).to_contain_text("active")

    wire.cut()
    expect(page.phase).to_have_text("reconnecting…")
    expect(lease).to_be_visible()
    page.run("%gpupool resize 0.5")
    expect(page.phase).to_have_text("reconnecting…")
    wire.is_cut = False
    expect(page.phase).to_have_text("connected")
    expect(lease).to_contain_text("0.5")
    marks = [parse_qs(urlsplit(url).query).get("after") for url in wire.tries]
    assert marks[0] is None
    assert all(marks[1:]), "each try says what the page has"


@pytest.mark.slow
def test_a_kernel_of_another_environment_gets_the_line_that_installs_the_package(
    page: LabPage, tmp_path: Path
) -> None:
    interpreter = _kernel_of_another_environment(page.lab, tmp_path / "other")
    page.lab.add_notebook("elsewhere.ipynb", kernel="elsewhere")
    page.open("elsewhere.ipynb")
    line = f"{interpreter} -m pip install jupyter_gpupool"
    expect(page.panel).to_contain_text(line)
    page.panel.get_by_role("button", name=f"Copy “{line}”").click()
    expect(page.panel.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.run("21 * 2")).to_contain_text("42")
    page.page.set_viewport_size({"width": 700, "height": 900})
    expect(page.device("cpu")).to_be_visible()
    page.screenshot("narrow")


def _kernel_of_another_environment(lab: Lab, folder: Path) -> Path:
    """Make a virtual environment with a kernel that borrows ipykernel, but not our package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    interpreter = folder / "bin" / "python"
    spec = {
        "argv": [str(interpreter), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "elsewhere",
        "language": "python",
        "env": {"PYTHONPATH": str(Path(ipykernel.__file__).parents[1])},
    }
    kernels = Path(lab.environment["JUPYTER_DATA_DIR"]) / "kernels" / "elsewhere"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps(spec))
    return interpreter
