"""Whether everybody can use the sidebar: by keyboard, by ear, in every theme, and with very many devices."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage, collect_garbage

_THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")
#: What is ours on the page: the rest is JupyterLab's.
_OURS = ["#jupyter-gpupool-sidebar", ".jp-GPUPool-chip", ".jp-GPUPool-status", ".jp-GPUPool-popover"]
_NOTEBOOK = "use.ipynb"
#: Ten minutes of ticks, one a second, and after how many of them it is looked at.
_TICKS, _STEP = 600, 120
#: What a tick of 64 devices may leave behind on average, bytes: the new points of its charts are 2,000.
_MOST_BYTES = 6_000

#: Names of devices that are cut.
_CUT = """() => [...document.querySelectorAll('.jp-GPUPool-line [role=rowheader]')]
  .filter(it => it.scrollWidth > it.clientWidth).map(it => it.textContent)"""
#: Where the columns of each line end, the headings first.
_EDGES = """() => [...document.querySelectorAll('.jp-GPUPool-line:not(.jp-mod-node)')]
  .map(line => [...line.children].map(it => it.getBoundingClientRect().right))"""


def opened(page: LabPage, devices: int, leases: int) -> Channel:
    """Show a pool that does not exist, everything unfolded."""
    page.lab.add_notebook(_NOTEBOOK)
    channel = Channel(page.page, made_up_pool(devices, leases))
    page.open(_NOTEBOOK)
    for section in ("history", "nodes"):
        heading = page.panel.locator(f"[data-section={section}] h3 button")
        if heading.count() and heading.get_attribute("aria-expanded") == "false":
            heading.click()
    return channel


@pytest.mark.slow
def test_axe_finds_nothing_in_the_panel_the_form_and_the_chips_popover(page: LabPage) -> None:
    opened(page, 3, 5)
    page.panel.get_by_role("button", name="Request a share").click()
    expect(page.panel.get_by_role("form", name="Request a share")).to_be_visible()
    assert violations(page, _OURS) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", _THEMES)
def test_axe_finds_nothing_in_any_theme_with_many_devices(page: LabPage, theme: str) -> None:
    opened(page, 64, 200)
    page.theme(theme)
    page.panel.get_by_role("button", name="cuda3", exact=True).click()
    page.panel.locator(".jp-GPUPool-leases button", has_text="Resize").first.click()
    page.notebook.locator(".jp-GPUPool-chip").click()
    expect(page.page.get_by_role("dialog")).to_be_visible()
    assert violations(page, _OURS) == []


@pytest.mark.slow
def test_of_64_devices_only_those_that_are_seen_exist_and_the_last_can_be_reached(page: LabPage) -> None:
    channel = opened(page, 64, 200)
    lines = page.panel.locator(".jp-GPUPool-lines .jp-GPUPool-line")
    assert lines.count() < 40
    page.panel.locator(".jp-GPUPool-lines").focus()
    page.page.keyboard.press("End")
    last = page.panel.get_by_role("button", name="cuda63", exact=True)
    expect(last).to_be_visible()
    last.press("Enter")
    expect(page.device("cuda63")).to_contain_text("NVIDIA H100")
    channel.say(made_up_pool(64, 200, tick=30))
    expect(page.device("cuda63")).to_be_visible()
    page.screenshot("many-devices")


@pytest.mark.slow
def test_a_narrow_table_shows_each_instance_of_a_gpu_by_its_whole_name_below_its_headings(
    page: LabPage,
) -> None:
    page.page.set_viewport_size({"width": 700, "height": 900})
    channel = opened(page, 64, 200)
    whole = made_up_pool(64, 200)
    instances = [msgspec.structs.replace(it, name=f"{it.name}-mig1") for it in whole.devices]
    channel.say(msgspec.structs.replace(whole, revision=2, devices=instances))
    expect(page.panel.get_by_role("button", name="cuda10-mig1", exact=True)).to_be_visible()
    assert page.page.evaluate(_CUT) == []
    edges: list[list[float]] = page.page.evaluate(_EDGES)
    assert len(edges) > 10
    assert all(line == pytest.approx(edges[0], abs=0.5) for line in edges)
    page.screenshot("instances")


@pytest.mark.slow
def test_the_keyboard_opens_the_form_writes_a_request_and_comes_back_from_the_popover(page: LabPage) -> None:
    opened(page, 2, 0)
    keyboard = page.page.keyboard
    keyboard.press("ControlOrMeta+Alt+r")
    form = page.panel.get_by_role("form", name="Request a share")
    expect(form.get_by_role("slider")).to_be_focused()
    keyboard.press("Home")
    expect(form.get_by_role("status")).to_have_text(re.compile(r"Fits now, on cuda\d"))
    expect(form).to_contain_text("%gpupool request 0.05")
    form.get_by_role("spinbutton", name="Share").fill("0.5")
    form.get_by_label("Priority").select_option("high")
    form.get_by_role("button", name="Insert into notebook").press("Enter")
    expect(page.cells().first).to_contain_text("%gpupool request 0.5 --priority high")
    assert page.cells().count() == 1, "an empty cell is used, none is added"

    chip = page.notebook.get_by_role("button", name="GPU pool: no lease")
    chip.press("Enter")
    popover = page.page.get_by_role("dialog")
    expect(popover).to_be_visible()
    keyboard.press("Escape")
    expect(popover).to_have_count(0)
    expect(chip).to_be_focused()


@pytest.mark.slow
def test_a_section_that_was_folded_is_folded_after_a_reload(page: LabPage) -> None:
    opened(page, 2, 3)
    heading = page.panel.locator("[data-section=queue] h3 button")
    with page.page.expect_response(lambda it: "api/workspaces" in it.url and it.request.method == "PUT"):
        heading.press("Enter")
    expect(heading).to_have_attribute("aria-expanded", "false")
    page.page.goto(page.lab.url("lab"))  # not reload(): the address asks JupyterLab to forget what it saved
    expect(heading).to_have_attribute("aria-expanded", "false")
    heading.click()


@pytest.mark.slow
def test_ten_minutes_of_ticks_leave_no_listeners_no_nodes_and_no_memory_behind(page: LabPage) -> None:
    channel = opened(page, 64, 200)
    counts = page.page.context.new_cdp_session(page.page)
    counts.send("Performance.enable")
    begin = float(page.page.evaluate("Date.now()"))

    def counted() -> dict[str, Any]:
        collect_garbage(counts, page.page)
        metrics = counts.send("Performance.getMetrics")["metrics"]
        return {it["name"]: it["value"] for it in metrics}

    def tick(first: int, last: int) -> None:
        # the page's clock goes on by a second each time, so that the charts forget as they do in ten minutes
        for number in range(first, last):
            page.page.clock.set_fixed_time(begin / 1000 + number)
            channel.say(made_up_pool(64, 200, tick=number))
            expect(page.panel.locator(".jp-GPUPool-leases").first).to_be_visible()

    tick(1, _STEP)
    seen = [counted()]
    for first in range(_STEP, _TICKS, _STEP):
        tick(first, first + _STEP)
        seen.append(counted())
    # JupyterLab itself may load something late, once: what a tick leaves is there after each of the steps.
    steps = list(pairwise(seen))
    assert min(after["JSEventListeners"] - before["JSEventListeners"] for before, after in steps) <= 4
    assert min(after["Nodes"] / before["Nodes"] for before, after in steps) <= 1.03
    grown = (seen[-1]["JSHeapUsedSize"] - seen[0]["JSHeapUsedSize"]) / (_TICKS - _STEP)
    assert grown < _MOST_BYTES, f"a tick leaves {grown:.0f} bytes"
