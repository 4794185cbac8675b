"""Two notebooks want more than there is: one holds, the other waits, and the sidebar tells both."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import wait_for
from tests.browser.page import LabPage

_FIRST, _SECOND = "first.ipynb", "second.ipynb"
#: A second request that cannot fit beside the first.
_TOO_MUCH = "%gpupool request 0.75"


def _two_notebooks(page: LabPage) -> None:
    """Open two empty notebooks; the first holds half of the device, the second is in front."""
    for name in (_FIRST, _SECOND):
        page.lab.add_notebook(name)
    page.open(_FIRST)
    expect(page.run("%gpupool request 0.5")).to_contain_text("active")
    page.open_beside(_SECOND)


@pytest.mark.slow
def test_the_second_notebook_waits_is_stopped_without_a_ghost_and_gets_its_share_on_release(
    page: LabPage,
) -> None:
    _two_notebooks(page)
    held = page.lease_of(_FIRST)
    expect(held).not_to_contain_text("this notebook")
    expect(page.run("%gpupool")).to_contain_text("0.5 of 1")

    waiting = page.start(_TOO_MUCH)
    expect(page.output(waiting)).to_contain_text(re.compile(r"position 1.*the stop button cancels", re.S))
    request = page.request_of(_SECOND)
    expect(request).to_contain_text("mine")
    expect(request).to_contain_text("this notebook")
    expect(request).to_contain_text(re.compile(r"waiting for \d+:\d\d"))
    page.screenshot("sidebar", docs=True)

    page.stop()
    expect(page.finished(waiting)).to_contain_text("Cancelled after")
    expect(page.output(waiting)).not_to_contain_text("Traceback")
    expect(request).to_have_count(0)
    assert page.lab.pool()["queue"] == []

    waiting = page.start(_TOO_MUCH)
    expect(request).to_be_visible()
    held.get_by_role("button", name="Release").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.finished(waiting)).to_contain_text("0.75 of cpu")
    expect(page.lease_of(_SECOND)).to_contain_text("0.75")
    expect(held).to_have_count(0)
    expect(page.panel.get_by_role("status")).to_contain_text("0.75 of cpu is yours")


@pytest.mark.slow
def test_a_kernel_that_is_shut_down_makes_room_and_cancel_in_the_sidebar_ends_a_wait(page: LabPage) -> None:
    _two_notebooks(page)
    waiting = page.start(_TOO_MUCH)
    page.request_of(_SECOND).get_by_role("button", name="Cancel").click()
    expect(page.finished(waiting)).to_contain_text("was cancelled")
    expect(page.panel).to_contain_text("Nobody is waiting.")

    waiting = page.start(_TOO_MUCH)
    expect(page.request_of(_SECOND)).to_be_visible()
    page.lab.shut_down(_FIRST)
    expect(page.finished(waiting)).to_contain_text("0.75 of cpu")
    expect(page.lease_of(_FIRST)).to_have_count(0)

    page.lab.shut_down(_SECOND)
    expect(page.panel).to_contain_text("Nothing is leased to you.")
    wait_for(lambda: page.lab.pool().get("leases") == [], "no lease is left")
