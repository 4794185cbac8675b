"""A share for a server: chosen at its start, leased before it runs, under all its kernels, ended with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests

from tests.integration.test_hub import Person
from tests.support.hub_process import PATIENCE_SECONDS, HubProcess, running_hub
from tests.support.pool_process import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beside,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("hub"),
]

OFFERS = ["0.25", {"name": "most", "share": "0.75", "memory": "40GiB", "title": "Most of a GPU"}]
ASK = """
import os
import jupyter_gpupool as gpupool
lease = gpupool.request(0.5, kind="cuda")
"""
REFUSED = """
try:
    gpupool.request(0.9, kind="cuda")
    said = "granted"
except Exception as error:
    said = str(error)
"""


@pytest.fixture(scope="module")
def people() -> Iterator[list[Person]]:
    with running_hub(2, offers=OFFERS, arguments=["--emulate", "1xA100-80GB"]) as (hub, names):
        everybody = [Person(hub, name, hub.add_user(name)) for name in names]
        everybody[0].wait_for_devices()
        yield everybody


def test_what_is_not_offered_is_refused_with_what_is(people: list[Person]) -> None:
    hub, ann = people[0].hub, people[0]
    path = f"/hub/api/users/{ann.name}/server"
    tampered: list[object] = [
        {"share": "0.99"},
        {"share": " 0.25"},
        {"share": ["0.25"]},
        {"share": "0.25", "wait_minutes": 10_000},
        {"share": "0.25", "wait_minutes": True},
        {"share": "0.25", "owner": "bob"},
        "0.25",
    ]
    for choice in tampered:
        answer = hub.ask("POST", path, {"gpupool": choice})
        assert answer.status == 400, (choice, answer)
        assert "Allowed: share: none, 0.25, most; wait_minutes: 0 to 30." in answer.body["message"], choice
    assert ann.leases() == []


def test_the_form_offers_what_is_free_and_a_tampered_one_is_refused(people: list[Person]) -> None:
    hub, ann = people[0].hub, people[0]
    with requests.Session() as browser:
        page = _spawn_page(browser, ann)
        assert "0.25 of a GPU — free now" in page.text, page.text
        assert "Most of a GPU — free now" in page.text
        form = {"gpupool_share": "everything", "gpupool_wait_minutes": "5"}
        page = _send(browser, f"{hub.url}/hub/spawn", form)
        assert "Allowed: share: none, 0.25, most" in page.text
    assert ann.leases() == []


def _spawn_page(browser: requests.Session, person: Person) -> requests.Response:
    """Log a person in, and return the page on which servers are started."""
    hub = person.hub
    browser.get(f"{hub.url}/hub/login", timeout=PATIENCE_SECONDS)
    login = {"username": person.name, "password": "x"}
    page = _send(browser, f"{hub.url}/hub/login?next=/hub/spawn", login)
    assert page.status_code == 200, page.text[:2000]
    return page


def _send(browser: requests.Session, url: str, form: dict[str, str]) -> requests.Response:
    """Send a form as a page of the Hub does."""
    token = browser.cookies.get("_xsrf", path="/hub/")
    page = browser.post(url, data={**form, "_xsrf": token}, timeout=PATIENCE_SECONDS)
    page.encoding = "utf-8"  # the Hub does not name it
    return page


def test_a_servers_share_is_that_of_all_its_kernels_and_ends_with_it(people: list[Person]) -> None:
    ann, bob = people
    hub = ann.hub
    hub.spawn(ann.name, {"gpupool": {"share": "most", "wait_minutes": 0}})
    for _ in range(2):
        ann.kernel = hub.start_kernel(ann.name, ann.token)
        ann.run(ASK)
        assert ann.run("", "lease.id == os.environ['JUPYTER_GPUPOOL_LEASE']") == "True"
    ann.run(REFUSED)
    assert "0.75 of" in ann.run("", "said")
    wait_for(lambda: [it["state"] for it in ann.leases()] == ["active"], "the one lease to be in force")
    (lease,) = ann.leases()
    assert lease["id"] == ann.run("", "lease.id").strip("'"), "counted once"
    assert lease["holder"]["kernel_id"] == ""
    wait_for(lambda: ann.leases()[0]["idle_seconds"] is not None, "its idleness to be known")

    # while it is held, bob's server waits for its own, and its page says so
    answer = hub.ask("POST", f"/hub/api/users/{bob.name}/server", {"gpupool": {"share": "most"}})
    assert answer.status in (201, 202), answer
    wait_for(lambda: [it["state"] for it in bob.leases() if it["mine"]] == ["queued"], "bob's request")
    assert "Waiting for 0.75" in _first_progress(hub, bob.name)
    hub.stop_server(ann.name)
    wait_for(lambda: hub._ready(bob.name), "bob's server, when ann's has ended", PATIENCE_SECONDS)
    mine = [it for it in bob.leases() if it["mine"]]
    assert len(mine) == len(bob.leases()) == 1, "ann's lease has ended with her server"

    # a server that is started again without a share has none, and none of its kernels knows the old one
    hub.spawn(ann.name, {"gpupool": {"share": "none"}})
    ann.kernel = hub.start_kernel(ann.name, ann.token)
    assert ann.run("import os", "os.environ.get('JUPYTER_GPUPOOL_LEASE')") == "None"
    assert not any(it["mine"] for it in ann.leases())


def _first_progress(hub: HubProcess, name: str) -> str:
    """Follow the spawn page's stream until it says that the server waits."""
    url = f"{hub.url}/hub/api/users/{name}/server/progress"
    seen = []
    with requests.get(
        url, headers={"Authorization": f"token {'a' * 32}"}, stream=True, timeout=PATIENCE_SECONDS
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith(b"data: "):
                seen.append(json.loads(line[6:])["message"])
                if "Waiting" in seen[-1]:
                    return str(seen[-1])
    return f"only {seen}"


#: The form is the spawner's own, which no configuration replaces; the server is started by another spawner.
PROFILES = """
from jupyterhub.spawner import LocalProcessSpawner
c.JupyterHub.spawner_class = "wrapspawner.ProfilesSpawner"
c.ProfilesSpawner.profiles = [
    ("Here", "here", LocalProcessSpawner, {"start_timeout": 120, "http_timeout": 120}),
    ("There", "there", LocalProcessSpawner, {"start_timeout": 120, "http_timeout": 120}),
]
"""


def test_a_share_is_chosen_beside_a_profile_where_a_spawner_wraps_others() -> None:
    arguments = ["--emulate", "1xA100-80GB"]
    with running_hub(1, more=PROFILES, offers=OFFERS, arguments=arguments) as (hub, names):
        ann = Person(hub, names[0], hub.add_user(names[0]))
        ann.wait_for_devices()
        with requests.Session() as browser:
            assert "There" in _spawn_page(browser, ann).text
            form = {"profile": "there", "gpupool_share": "most", "gpupool_wait_minutes": "0"}
            page = _send(browser, f"{hub.url}/hub/spawn", form)
            assert page.status_code == 200, page.text[:2000]
        wait_for(lambda: hub._ready(ann.name), "ann's server", PATIENCE_SECONDS)
        ann.kernel = hub.start_kernel(ann.name, ann.token)
        ann.run(ASK)
        assert ann.run("", "lease.id == os.environ['JUPYTER_GPUPOOL_LEASE']") == "True"
        hub.stop_server(ann.name)
        wait_for(lambda: ann.leases() == [], "the lease to end with the server")
