"""The same extension in Notebook 7, which has one document a page and no status bar."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyterlab.commands import get_app_dir
from playwright.sync_api import expect

from tests.browser.conftest import world_of
from tests.browser.lab import Lab
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow

_NOTEBOOK = "seven.ipynb"
_WANTED = "notebook>=7.4,<8"


def _installed(folder: Path) -> dict[str, str]:
    """Install Notebook beside the environment, which has all that it needs; returns what makes it known."""
    wanted = ["--quiet", "--no-deps", "--target", str(folder), _WANTED]
    command = [sys.executable, "-m", "pip", "install", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"{_WANTED} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
        "JUPYTER_PATH": str(folder / "share" / "jupyter"),
        "JUPYTER_CONFIG_PATH": str(folder / "etc" / "jupyter"),
        "JUPYTERLAB_DIR": str(_application(folder)),
    }


def _application(folder: Path) -> Path:
    """Make the one directory in which both look for the schemas of their settings."""
    made = folder / "application"
    (made / "schemas").mkdir(parents=True)
    labs = Path(get_app_dir())
    for source in labs.iterdir():
        if source.name != "schemas":
            (made / source.name).symlink_to(source)
    for schemas in (labs / "schemas", folder / "share" / "jupyter" / "lab" / "schemas"):
        for source in schemas.iterdir():
            (made / "schemas" / source.name).symlink_to(source)
    return made


@pytest.fixture(scope="module")
def running_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run Notebook 7."""
    folder = tmp_path_factory.mktemp("seven")
    world = world_of(folder) | _installed(folder / "notebook")
    with Lab(folder, world, application="notebook") as lab:
        yield lab


def test_notebook_7_has_the_chip_the_panel_the_commands_and_the_monitor(page: LabPage) -> None:
    page.lab.add_notebook(_NOTEBOOK)
    page.page.goto(page.lab.url(f"notebooks/{_NOTEBOOK}"), wait_until="domcontentloaded")
    page.is_ready(_NOTEBOOK)
    page.screenshot("notebook-7")
    chip = page.notebook.locator(".jp-GPUPool-chip")
    expect(chip).to_have_text("no lease")
    expect(page.run("%gpupool request 0.25")).to_contain_text("active")
    expect(chip).to_contain_text("0.25")
    expect(page.run("%gpupool monitor --small").locator(".gpupool-monitor")).to_contain_text("0.25 of cpu")

    page.command("gpupool:open")
    expect(page.phase).to_have_text("connected")
    lease = page.lease_of(_NOTEBOOK)
    expect(lease).to_contain_text("this notebook")
    page.screenshot("notebook-7")
    chip.click()
    popover = page.page.get_by_role("dialog")
    popover.get_by_role("button", name=re.compile("Release")).click()
    page.page.get_by_role("button", name="Release", exact=True).last.click()
    expect(chip).to_have_text("no lease")
    expect(lease).to_have_count(0)
