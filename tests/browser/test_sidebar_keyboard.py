"""A whole visit by keyboard only: open the panel, ask, resize, release; the focus is seen and never lost."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow

_NOTEBOOK = "keys.ipynb"
#: So often the tab key is pressed at most until something has the focus.
_MOST_STOPS = 60
#: What has the focus, whether it is ours, and whether that is seen.
_LOOK = """() => {
  const at = document.activeElement;
  const style = getComputedStyle(at);
  const isSeen = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1)
    || style.boxShadow !== 'none';
  const box = at.getBoundingClientRect();
  const ours = Boolean(at.closest('.jp-GPUPool, .jp-GPUPool-chipPlace'));
  return { isSeen, ours, isThere: box.width > 0 && box.height > 0, what: at.outerHTML.slice(0, 200) };
}"""


@pytest.fixture
def keys(page: LabPage) -> LabPage:
    """Give a page whose pointer is never used."""
    page.lab.add_notebook(_NOTEBOOK)
    return page


def is_focused(target: Locator) -> bool:
    """Look whether something has the focus."""
    return target.count() == 1 and bool(target.evaluate("it => it === document.activeElement"))


def tab_to(page: LabPage, target: Locator, key: str = "Tab") -> None:
    """Press the tab key until something has the focus; each stop of ours on the way has to be seen."""
    for _ in range(_MOST_STOPS):
        if is_focused(target):
            return
        page.page.keyboard.press(key)
        at = page.page.evaluate(_LOOK)
        if at["ours"]:
            assert at["isSeen"], f"the focus is not seen on {at['what']}"
            assert at["isThere"], f"the focus is on something that is not seen: {at['what']}"
    raise AssertionError(f"the tab key does not come to {target}")


def from_palette(page: LabPage, command: str) -> None:
    """Run a command as a person does who knows its name."""
    page.page.keyboard.press("ControlOrMeta+Shift+c")
    expect(page.page.locator("#modal-command-palette input")).to_be_focused()
    page.page.keyboard.type(command)
    expect(page.page.locator("#modal-command-palette .lm-mod-active")).to_contain_text(command)
    page.page.keyboard.press("Enter")


def test_a_share_is_asked_for_resized_and_released_with_the_keyboard_alone(keys: LabPage) -> None:
    page, press = keys, keys.page.keyboard.press
    page.page.goto(page.lab.url(f"lab/tree/{_NOTEBOOK}?reset"), wait_until="domcontentloaded")
    page.is_ready(_NOTEBOOK)
    from_palette(page, "Request a share of a device")
    form = page.panel.get_by_role("form", name="Request a share")
    expect(form.get_by_role("slider")).to_be_focused()
    press("Escape")
    from_palette(page, "Show the GPU pool")
    expect(page.panel).to_be_focused()
    assert page.page.evaluate(_LOOK)["isSeen"]

    ask = page.panel.get_by_role("button", name="Request a share")
    tab_to(page, ask)
    press("Enter")
    expect(form.get_by_role("slider")).to_be_focused()
    press("Escape")
    expect(ask).to_be_focused()
    press("Enter")
    tab_to(page, form.get_by_role("button", name="Insert into notebook"))
    press("Enter")
    expect(page.cells().first).to_contain_text("%gpupool request 0.25")
    press("Shift+Enter")
    lease = page.lease_of(_NOTEBOOK)
    expect(lease).to_contain_text("active")

    press("ControlOrMeta+Alt+g")
    expect(page.panel).to_be_focused()
    for section in ("leases", "devices", "queue", "history"):
        tab_to(page, page.panel.locator(f"[data-section={section}] h3 button"))
    resize = lease.get_by_role("button", name="Resize", exact=True)
    tab_to(page, resize, "Shift+Tab")
    press("Enter")
    expect(lease.get_by_role("slider", name="New share")).to_be_focused()
    for _ in range(5):
        press("ArrowRight")
    to = lease.get_by_role("button", name="Resize to 0.3")
    tab_to(page, to)
    press("Enter")
    expect(lease.locator(".jp-GPUPool-share")).to_have_text("0.3")
    expect(resize).to_be_focused()

    held = lease.get_by_text(re.compile(r"^for \d"))
    before = held.text_content() or ""
    expect(held).not_to_have_text(before)
    expect(resize).to_be_focused()
    tab_to(page, lease.get_by_role("button", name="Release"))
    press("Enter")
    expect(page.page.get_by_role("dialog")).to_be_visible()
    press("Enter")
    expect(lease).to_have_count(0)
    expect(page.panel.locator("[data-section=leases] h3 button")).to_be_focused()


def test_a_lease_that_ends_under_the_focus_gives_it_to_the_heading_of_its_list(keys: LabPage) -> None:
    page = keys
    channel = Channel(page.page, made_up_pool(2, 3))
    page.open(_NOTEBOOK)
    tab_to(page, page.panel.locator(".jp-GPUPool-leases > li").nth(1).get_by_role("button", name="Pin"))
    channel.say(made_up_pool(2, 3, tick=5))
    pin = page.panel.locator(".jp-GPUPool-leases > li").nth(1).get_by_role("button", name="Pin")
    expect(page.device("cuda0")).to_be_visible()
    expect(pin).to_be_focused()
    channel.say(made_up_pool(2, 1, tick=6))
    expect(page.panel.locator(".jp-GPUPool-leases > li")).to_have_count(1)
    expect(page.panel.locator("[data-section=leases] h3 button")).to_be_focused()


def test_a_device_that_is_scrolled_away_under_the_focus_gives_it_to_its_table(keys: LabPage) -> None:
    page = keys
    Channel(page.page, made_up_pool(64, 200))
    page.open(_NOTEBOOK)
    tab_to(page, page.panel.get_by_role("button", name="cuda1", exact=True))
    page.page.keyboard.press("End")
    expect(page.panel.get_by_role("button", name="cuda63", exact=True)).to_be_visible()
    expect(page.panel.locator(".jp-GPUPool-lines")).to_be_focused()


def test_the_past_is_looked_at_closer_with_keys(keys: LabPage) -> None:
    page, press = keys, keys.page.keyboard.press
    Channel(page.page, made_up_pool(2, 3))
    page.open(_NOTEBOOK)
    heading = page.panel.locator("[data-section=history] h3 button")
    tab_to(page, heading)
    if heading.get_attribute("aria-expanded") == "false":
        press("Enter")
    charts = page.panel.get_by_role("group", name="Charts")
    tab_to(page, charts)
    back = page.panel.get_by_text("A part is shown")
    expect(back).to_have_count(0)
    press("+")
    expect(back).to_be_visible()
    press("ArrowLeft")
    press("Escape")
    expect(back).to_have_count(0)
    expect(charts).to_be_focused()


def test_the_chips_popover_lets_the_keyboard_in_and_out_beside_its_chip(keys: LabPage) -> None:
    page, press = keys, keys.page.keyboard.press
    page.open(_NOTEBOOK)
    chip = page.notebook.get_by_role("button", name="GPU pool: no lease")
    chip.focus()
    popover = page.page.get_by_role("dialog")
    for away in ("Escape", "Shift+Tab"):
        press("Enter")
        expect(popover).to_be_focused()
        press(away)
        expect(popover).to_have_count(0)
        expect(chip).to_be_focused()
    press("Enter")
    tab_to(page, popover.get_by_role("button", name="Show the GPU pool"))
    press("Tab")
    expect(popover).to_have_count(0)
    expect(chip).not_to_be_focused()
    assert page.page.evaluate("() => Boolean(document.activeElement.closest('.jp-NotebookPanel'))")
