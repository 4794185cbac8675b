"""Fixtures for tests in a browser: a Chromium, a real JupyterLab with a pool of its own, and a page on it.

Rule of this module: without a Chromium these tests are skipped with a reason, except where one was promised
(``CI``), where that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names
from tests.browser.lab import Lab, wait_for
from tests.browser.page import LabPage

_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Longest that one test may take, with the start of JupyterLab, on a machine that does other things too.
_TEST_SECONDS = 300
#: What a headless Chromium needs on a small machine, as root too, and without asking anything outside.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder, so that ``-m "not browser"`` leaves it out."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))
            # one JupyterLab serves them all, so one process runs them all
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Find a Chromium or Chrome on the machine."""
    for name in _CHROMIUMS:
        if path := shutil.which(name):
            return path
    reason = f"no browser found on PATH (looked for {', '.join(_CHROMIUMS)})"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def world_of(folder: Path) -> dict[str, str]:
    """Return the environment of a JupyterLab with a pool of its own below a folder."""
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(folder / "run"),
        names.ENV_DATA_DIR: str(folder / "data"),
        names.ENV_LOCK_DIR: str(folder / "lock"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


@pytest.fixture(scope="session")
def running_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run one JupyterLab, with a pool of its own, for all tests in a browser: it takes seconds to start."""
    folder = tmp_path_factory.mktemp("lab")
    with Lab(folder, world_of(folder)) as running:
        yield running


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    """Give the test that JupyterLab with nothing running, and see that nothing is left of the test."""
    yield running_lab
    running_lab.shut_down_all()
    wait_for(lambda: running_lab.pool().get("leases") == [], "no lease outlives its kernel")


@pytest.fixture
def page(chromium: str, lab: Lab) -> Iterator[LabPage]:
    """Open a browser on that JupyterLab; an error that the page throws fails the test."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        # a proxy of a test proves itself by a certificate that nobody knows
        tab = browser.new_page(viewport={"width": 1280, "height": 900}, ignore_https_errors=True)
        opened = LabPage(tab, lab)
        yield opened
        opened.screenshot("last")
        browser.close()
    assert opened.errors == []
