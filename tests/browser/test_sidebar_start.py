"""What the panel does before anybody has looked at it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage


@pytest.mark.slow
def test_a_hidden_panel_draws_the_first_snapshot_at_once_and_the_newest_when_it_is_shown(
    page: LabPage,
) -> None:
    channel = Channel(page.page, made_up_pool(64, 200))
    page.page.goto(page.lab.url("lab?reset"), wait_until="domcontentloaded")
    panel = page.page.locator("#jupyter-gpupool-sidebar")
    facts = panel.locator(".jp-GPUPool-header .jp-GPUPool-facts")
    expect(facts).to_contain_text("64 devices")
    expect(facts).to_be_hidden()

    channel.say(made_up_pool(2, 3))
    expect(page.page.locator(".jp-GPUPool-status")).to_contain_text("1.25 of 2 free")
    expect(facts).to_contain_text("64 devices")
    page.command("gpupool:open")
    expect(facts).to_be_visible()
    expect(facts).to_contain_text("2 devices")
    expect(page.device("cuda0").locator(".uplot").first).to_be_visible()


@pytest.mark.slow
def test_a_table_that_was_drawn_while_hidden_has_its_lines_when_it_is_shown(page: LabPage) -> None:
    Channel(page.page, made_up_pool(64, 200))
    page.page.goto(page.lab.url("lab?reset"), wait_until="domcontentloaded")
    expect(
        page.page.locator("#jupyter-gpupool-sidebar .jp-GPUPool-header .jp-GPUPool-facts")
    ).to_contain_text("64 devices")
    page.command("gpupool:open")
    lines = page.panel.locator(".jp-GPUPool-lines .jp-GPUPool-line")
    expect(lines.nth(10)).to_be_visible()
    assert lines.count() < 40
