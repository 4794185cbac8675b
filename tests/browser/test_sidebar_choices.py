"""What a person does to leases in the sidebar, and what they chose to see: resize, pin, keep, settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import expect

from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage

pytestmark = pytest.mark.slow
_NOTEBOOK = "choices.ipynb"
#: How the settings editor names the fields of our plugin.
_FIELD = "#jp-SettingsEditor-jupyter-gpupool\\:manager_{name}"


def _leased(page: LabPage) -> dict[str, Any]:
    """Return the one lease that the pool has."""
    [lease] = page.lab.pool()["leases"]
    return dict(lease)


def _holding(page: LabPage) -> None:
    page.lab.add_notebook(_NOTEBOOK)
    page.open(_NOTEBOOK)
    expect(page.run("%gpupool request 0.25")).to_contain_text("active")


def test_resize_is_the_pools_decision_and_its_refusal_is_said_beside_the_slider(page: LabPage) -> None:
    _holding(page)
    lease = page.lease_of(_NOTEBOOK)
    lease.get_by_role("button", name="Resize").press("Enter")
    slider = lease.get_by_role("slider", name="New share")
    expect(slider).to_be_focused()
    number = lease.get_by_role("spinbutton", name="New share")
    number.fill("0.5")
    lease.get_by_role("button", name="Resize to 0.5").press("Enter")
    expect(lease.locator(".jp-GPUPool-share")).to_have_text("0.5")
    expect(slider).to_have_count(0)
    assert _leased(page)["compute_milli"] == 500

    page.lab.add_notebook("beside.ipynb")
    page.open_beside("beside.ipynb")
    expect(page.run("%gpupool request 0.25")).to_contain_text("active")
    lease.get_by_role("button", name="Resize").press("Enter")
    number.fill("1")
    lease.get_by_role("button", name="Resize to 1").press("Enter")
    expect(lease.get_by_role("alert")).to_contain_text(re.compile("0.75|free|fit"))
    expect(lease.locator(".jp-GPUPool-share")).to_have_text("0.5")
    lease.get_by_role("button", name="Leave as it is").press("Enter")
    expect(slider).to_have_count(0)


def test_pin_is_in_the_pool_and_taken_back_with_the_same_button(page: LabPage) -> None:
    _holding(page)
    lease = page.lease_of(_NOTEBOOK)
    lease.get_by_role("button", name="Pin", exact=True).press("Enter")
    unpin = lease.get_by_role("button", name="Unpin")
    expect(unpin).to_have_attribute("aria-pressed", "true")
    expect(lease.locator(".jp-GPUPool-facts")).to_contain_text("pinned")
    assert _leased(page)["pinned"] is True
    unpin.press("Enter")
    expect(lease.get_by_role("button", name="Pin", exact=True)).to_be_visible()
    assert _leased(page)["pinned"] is False


def test_keep_in_the_notification_pins_the_lease_that_is_about_to_be_taken_back(page: LabPage) -> None:
    page.lab.add_notebook(_NOTEBOOK)
    calm = made_up_pool(1, 1)
    channel = Channel(page.page, calm)
    pins = re.compile(r"/api/v1/leases/lease_000/pin(\?|$)")
    page.page.route(pins, lambda route: route.fulfill(json={}))
    page.open(_NOTEBOOK)
    soon = msgspec.structs.replace(calm.leases[0], reclaim_seconds=90.0)
    channel.say(msgspec.structs.replace(calm, revision=2, leases=[soon]))
    toast = page.page.locator(".Toastify").filter(has_text="train-0.py: its lease is taken back in")
    with page.page.expect_request(pins) as asked:
        toast.get_by_role("button", name="Keep").click()
    assert asked.value.method == "POST"


@pytest.fixture
def settings(page: LabPage) -> Iterator[LabPage]:
    """Open the settings of the pool; what was chosen is forgotten in the end."""
    yield page
    for saved in Path(page.lab.environment["JUPYTER_CONFIG_DIR"]).glob("lab/user-settings/jupyter-gpupool/*"):
        saved.unlink()


def _choose(page: LabPage, name: str, value: str | bool) -> None:
    """Fill in one field of the settings editor, and wait until it is saved."""
    field = page.page.locator(_FIELD.format(name=name))
    with page.page.expect_response(lambda it: "api/settings" in it.url and it.request.method == "PUT"):
        if isinstance(value, bool):
            field.set_checked(value)
        else:
            field.fill(value)
            field.blur()


def test_what_is_chosen_in_the_settings_editor_is_seen_at_once(settings: LabPage) -> None:
    page = settings
    page.lab.add_notebook(_NOTEBOOK)
    Channel(page.page, made_up_pool(2, 3))
    page.open(_NOTEBOOK)
    section = "[data-section={}]".format
    expect(page.device("cuda0")).to_be_visible()
    page.command("settingeditor:open", {"query": "GPU pool"})

    _choose(page, "compactFrom", "2")
    expect(page.panel.locator(".jp-GPUPool-lines")).to_be_visible()
    expect(page.device("cuda0")).to_have_count(0)
    _choose(page, "compactFrom", "9")
    _choose(page, "sections_queue", value=False)
    expect(page.panel.locator(section("queue"))).to_have_count(0)
    _choose(page, "statusBar", value=False)
    expect(page.page.locator(".jp-GPUPool-status")).to_be_hidden()
    marked = page.panel.locator(".jp-GPUPool-quota.jp-mod-warn")
    expect(marked).to_have_count(0)
    _choose(page, "memoryWarnPercent", "1")
    expect(marked).to_have_count(3)
    idle = page.panel.locator(".jp-GPUPool-leases").get_by_text(re.compile("idle for"))
    expect(idle).to_have_count(1)
    _choose(page, "idleMinutes", "60")
    expect(idle).to_have_count(0)


def test_readings_come_as_often_as_was_chosen_and_changes_at_once(settings: LabPage) -> None:
    page = settings
    page.lab.add_notebook(_NOTEBOOK)
    channel = Channel(page.page, made_up_pool(1, 1))
    page.open(_NOTEBOOK)
    page.command("settingeditor:open", {"query": "GPU pool"})
    _choose(page, "refreshSeconds", "60")
    _choose(page, "sections_queue", value=False)
    expect(page.panel.locator("[data-section=queue]")).to_have_count(0)  # so the one before is in force, too
    watts = page.device("cuda0").get_by_text(re.compile(r"^\d+ W$"))
    before = watts.text_content()
    readings = made_up_pool(1, 1, tick=7)
    channel.say(readings)
    channel.say_status("reconnecting")
    expect(page.phase).to_have_text("reconnecting…")
    assert watts.text_content() == before
    channel.say(msgspec.structs.replace(readings, revision=2))
    expect(watts).not_to_have_text(before or "")
