"""The sidebar in Chinese: JupyterLab takes our catalogue once a language pack for Chinese is there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import jupyter_gpupool
from tests.browser.conftest import world_of
from tests.browser.lab import Lab
from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow

_NOTEBOOK = "chinese.ipynb"
_CATALOGUE = (
    Path(jupyter_gpupool.__file__).parent / "locale" / "zh_CN" / "LC_MESSAGES" / "jupyter_gpupool.json"
)
#: As much of a language pack as makes JupyterLab offer the language; JupyterLab itself stays English.
_PACK = "jupyterlab_language_pack_zh_CN"
#: A value in a sentence; with a Chinese character in it, it is part of a Chinese sentence.
_VALUE = "[^\u4e00-\u9fff]+?"
#: What of ours can be read or heard.
_READ = """() => [...document.querySelectorAll(
  '#jupyter-gpupool-sidebar, .jp-GPUPool-chip, .jp-GPUPool-status, .jp-GPUPool-popover'
)].flatMap(top => [top, ...top.querySelectorAll('*')].flatMap(it => [
  ...['aria-label', 'title', 'placeholder'].map(name => it.getAttribute(name)),
  ...[...it.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data),
])).map(text => text?.trim()).filter(Boolean)"""


def _language_pack(folder: Path) -> Path:
    """Write a language pack that says nothing of its own."""
    module, about = folder / _PACK, folder / f"{_PACK}-1.0.dist-info"
    for made in (module, about):
        made.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_PACK}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[jupyterlab.languagepack]\nzh_CN = {_PACK}\n")
    return folder


@pytest.fixture(scope="module")
def running_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run a JupyterLab whose language is Chinese."""
    folder = tmp_path_factory.mktemp("chinese")
    world = world_of(folder)
    paths = [str(_language_pack(folder / "pack")), world.get("PYTHONPATH", "")]
    world["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    lab = Lab(folder, world)
    lab.prefer({"@jupyterlab/translation-extension:plugin": {"locale": "zh_CN"}})
    with lab:
        yield lab


def _sentences() -> list[tuple[re.Pattern[str], str]]:
    """Return what English sentences of the catalogue look like, but for names that stay as they are."""
    catalogue = json.loads(_CATALOGUE.read_text())
    found = []
    for english, forms in catalogue.items():
        if english and forms[0] != english and re.search("[A-Za-z]{2}", re.sub(r"%\d", "", english)):
            parts = (re.escape(part) for part in re.split(r"%\d", english))
            found.append((re.compile(_VALUE.join(parts) + r"\Z"), english))
    assert len(found) > 200
    return found


def _english(page: LabPage) -> list[str]:
    """Return what can be read on the page and stands in the catalogue in English."""
    sentences = _sentences()
    texts = set(page.page.evaluate(_READ))
    return [f"{text!r} is {english!r}" for text in texts for it, english in sentences if it.match(text)]


def test_with_a_language_pack_for_chinese_everything_that_the_sidebar_says_is_chinese(page: LabPage) -> None:
    page.lab.add_notebook(_NOTEBOOK)
    channel = Channel(page.page, made_up_pool(3, 5))
    page.page.goto(page.lab.url(f"lab/tree/{_NOTEBOOK}?reset"), wait_until="domcontentloaded")
    page.is_ready(_NOTEBOOK)
    page.command("gpupool:request")
    panel = page.page.get_by_role("region", name="GPU 池")
    expect(panel.get_by_role("form", name="申请份额")).to_be_visible()
    for section in ("history", "usage", "nodes"):
        heading = panel.locator(f"[data-section={section}] h3 button[aria-expanded=false]")
        if heading.count():
            heading.press("Enter")
    panel.locator(".jp-GPUPool-leases button[aria-expanded=false]").first.press("Enter")
    assert _english(page) == []
    expect(panel.locator(".jp-GPUPool-header")).to_contain_text("3 个设备")
    page.screenshot("chinese")

    channel.say_status("reconnecting")
    expect(panel.locator(".jp-GPUPool-phase")).not_to_have_text("已连接")
    channel.say(made_up_pool(64, 200, tick=3))
    expect(panel.locator(".jp-GPUPool-lines")).to_be_visible()
    page.notebook.locator(".jp-GPUPool-chip").press("Enter")
    expect(page.page.get_by_role("dialog")).to_be_visible()
    assert _english(page) == []
