"""Quotas and reservations on the Hub's page: checked, on record, in force at once, and after a restart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool_page import Browser, pool_of_a_hub
from tests.support.pool_process import PoolProcess, wait_for
from tests.support.stand_in_hub import ADMIN, StandInHub

pytestmark = pytest.mark.timeout(180)

#: A group of the Hub, and what it may have.
QUOTAS = """version: 1
groups:
  - name: students  # é 新
    limits: {compute: 0.5}
"""
RESERVATIONS = """reservations:
  - {name: course, group: students, devices: 1, every: monday, from: "09:00", to: "10:00"}
"""


@pytest.fixture
def hub_pool(tmp_path: Path) -> Iterator[tuple[PoolProcess, StandInHub]]:
    with pool_of_a_hub(tmp_path, "--PoolService.attach_seconds=3600") as (pool, hub):
        hub.add("boss-token", "boss", ADMIN)
        hub.add("ann-token", "ann")
        hub.identities["ann-token"]["groups"] = ["students"]
        yield pool, hub


def form(browser: Browser, kind: str) -> dict[str, str]:
    """Return the hidden fields of one form of the page, as it is now, and its text."""
    (found,) = (it for it in re.findall(r"<form.*?</form>", browser.page("rules"), re.S) if f'"{kind}"' in it)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', found))
    text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", found, re.S)
    assert text is not None
    return {**hidden, "text": unescape(text[1])}


def save(browser: Browser, kind: str, text: str) -> tuple[int, str]:
    return browser.post("rules", {**form(browser, kind), "text": text.replace("\n", "\r\n")})


def ask(pool: PoolProcess, compute_milli: int, key: str) -> Any:
    body = {"compute_milli": compute_milli, "kind": "cuda", "wait_seconds": 0, "holder": {"key": key}}
    return pool.ask("POST", "/api/v1/leases", body, token="ann-token")


def test_rules_count_at_once_and_after_a_restart_and_what_is_held_stays(
    hub_pool: tuple[PoolProcess, StandInHub],
) -> None:
    pool, hub = hub_pool
    boss = Browser(pool, hub, "boss-token")
    held = ask(pool, 800, "one").body["id"]
    assert form(boss, "quotas")["text"] == ""
    assert save(boss, "quotas", QUOTAS)[0] == 302
    assert save(boss, "reservations", RESERVATIONS)[0] == 302
    assert form(boss, "quotas")["text"] == QUOTAS
    assert pool.get(f"/api/v1/leases/{held}", token="ann-token").body["compute_milli"] == 800
    refused = ask(pool, 100, "two")
    assert refused.status == 409, refused
    assert "students" in refused.body["message"]
    changes = [it for it in pool.get("/api/v1/audit", token="boss-token").body if it["action"] == "change"]
    assert [it["subject"] for it in changes] == ["reservations", "quotas"]
    assert "+    limits: {compute: 0.5}" in changes[1]["detail"]

    pool.kill()
    pool.start()
    boss = Browser(pool, hub, "boss-token")
    wait_for(lambda: len(pool.get("/api/v1/devices", token="ann-token").body) >= 2, "the devices")
    assert "students" in ask(pool, 100, "two").body["message"]
    assert save(boss, "quotas", QUOTAS.replace("0.5", "1.5"))[0] == 302
    assert ask(pool, 100, "two").status == 201


def test_what_would_not_be_understood_is_refused_with_its_line_and_kept_in_the_form(
    hub_pool: tuple[PoolProcess, StandInHub],
) -> None:
    pool, hub = hub_pool
    boss = Browser(pool, hub, "boss-token")
    for bad, why in (
        ("each:\n  weight: <much>", "quotas, line 2: “weight” is “&lt;much&gt;”"),
        ("a: [", "quotas, line 1"),
        ("\x00", "quotas is not YAML"),
        ("groups:\n  - name: a\n    parent: b", "there is no group “b”"),
    ):
        status, page = save(boss, "quotas", bad)
        assert status == 400
        assert why in page, page
        assert "weight: &lt;much&gt;</textarea>" in page or "weight" not in bad
    assert save(boss, "quotas", QUOTAS)[0] == 302
    assert save(boss, "reservations", RESERVATIONS)[0] == 302
    status, page = save(boss, "quotas", "")  # the reservation is for one of its groups
    assert (status, "there is no group “students”" in page) == (400, True)
    assert form(boss, "quotas")["text"] == QUOTAS


def test_only_administrators_and_only_from_the_page_and_not_over_each_others_changes(
    hub_pool: tuple[PoolProcess, StandInHub],
) -> None:
    pool, hub = hub_pool
    boss, ann = Browser(pool, hub, "boss-token"), Browser(pool, hub, "ann-token")
    fields = {**form(boss, "quotas"), "text": QUOTAS}
    refused = pool.http.request("GET", pool.url + "/services/gpupool/rules", headers={"Cookie": ann.cookie})
    assert refused.status == 403
    proof = re.search(r'name="proof" value="([^"]*)"', ann.page())
    mine = {**fields, "proof": proof[1]} if proof else fields
    assert ann.post("rules", mine)[0] == 403
    assert boss.post("rules", {**fields, "proof": "x"})[0] == 403
    assert boss.post("rules", fields, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert boss.post("rules", {**fields, "kind": "tokens"})[0] == 400
    assert form(boss, "quotas")["text"] == ""
    assert boss.post("rules", fields)[0] == 302
    status, page = boss.post("rules", {**fields, "text": "version: 1"})  # of a page from before that
    assert (status, "were changed meanwhile" in page) == (409, True)
    assert form(boss, "quotas")["text"] == QUOTAS
