"""The pool's page in a real JupyterHub and a real browser: who logs in there, sees and does what they may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import FLAGS
from tests.integration.test_hub import Person
from tests.support.hub_process import HubProcess, running_hub
from tests.support.pool_process import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = "/services/gpupool/"


@pytest.fixture(scope="module")
def hub() -> Iterator[HubProcess]:
    arguments = ["--emulate", "2xA100-80GB", "--PoolService.attach_seconds=3600"]
    with running_hub(0, administrators=["boss"], arguments=arguments) as (running, _):
        yield running


@pytest.fixture
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


def logged_in(browser: Browser, hub: HubProcess, name: str) -> Page:
    """Go to the pool's page as somebody who has to log in to the Hub first."""
    page = browser.new_context().new_page()
    page.goto(hub.url + PAGE)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill("x")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="GPU pool").wait_for()
    assert page.url == hub.url + PAGE
    return page


def lease_of(person: Person) -> str:
    body = {"compute_milli": 250, "kind": "cuda", "holder": {"label": "anns-notebook"}}
    answer = person.pool("POST", "/api/v1/leases", body)
    assert answer.status == 201, answer
    return str(answer.body["id"])


def test_an_administrator_ends_a_lease_with_a_message_and_it_is_on_record(
    hub: HubProcess, browser: Browser
) -> None:
    ann = Person(hub, "ann", hub.add_user("ann"))
    ann.wait_for_devices()
    lease = lease_of(ann)
    page = logged_in(browser, hub, "boss")
    row = page.get_by_role("row").filter(has_text="anns-notebook")
    row.get_by_label("Message to ann").fill("The exam begins at noon.")
    row.get_by_role("button", name="End").click()
    page.get_by_role("heading", name="GPU pool").wait_for()
    wait_for(lambda: ann.pool("GET", f"/api/v1/leases/{lease}").body["state"] == "ended", "the lease to end")
    assert "The exam begins at noon." in ann.pool("GET", f"/api/v1/leases/{lease}").body["end_detail"]
    page.reload()
    audit = page.get_by_role("row").filter(has_text="The exam begins at noon.")
    assert "boss" in audit.inner_text()


def test_a_user_sees_the_pool_and_nobody_elses_name_and_can_do_nothing_to_them(
    hub: HubProcess, browser: Browser
) -> None:
    ann = Person(hub, "cat", hub.add_user("cat"))
    ann.wait_for_devices()
    lease = lease_of(ann)
    page = logged_in(browser, hub, "bob")
    text = page.inner_text("body")
    assert "You are bob." in text
    assert "somebody" in text
    assert "cat" not in text
    assert "anns-notebook" not in text
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("link", name="Quotas and reservations").count() == 0
    answer = page.request.post(
        hub.url + PAGE + "end", form={"lease": lease, "message": "x", "proof": "guessed"}
    )
    assert answer.status == 403
    assert ann.pool("GET", f"/api/v1/leases/{lease}").body["state"] == "attaching"


def test_the_session_is_a_cookie_that_no_script_reads_and_ends_with_the_users_rights(
    hub: HubProcess, browser: Browser
) -> None:
    page = logged_in(browser, hub, "dan")
    cookies = {it["name"]: it for it in page.context.cookies() if it["path"] == PAGE}
    session = cookies["gpupool-session"]
    assert session["httpOnly"]
    assert session["sameSite"] == "Lax"
    assert hub.ask("DELETE", "/hub/api/users/dan").status == 204
    page.goto(hub.url + PAGE)
    assert "You are dan." not in page.inner_text("body")
