"""What a real Hub hears of work on leases, and what becomes of leases while it hears nothing."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.test_hub import Person
from tests.support.hub_process import running_hub
from tests.support.pool_process import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beside,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("hub"),
]

#: A cell that says nothing while it computes.
WORK = """
import pathlib, time
import jupyter_gpupool as gpupool
lease = gpupool.request(0.1, kind="cuda")
while not pathlib.Path("stop").exists():
    time.sleep(0.05)
"""


def told(person: Person) -> str:
    """Return when the Hub thinks that a user's server did something."""
    return str(person.hub.ask("GET", f"/hub/api/users/{person.name}").body["servers"][""]["last_activity"])


def servers_of(person: Person) -> list[int]:
    """Find the processes that are a user's server."""
    uid, found = pwd.getpwnam(person.name).pw_uid, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if entry.stat().st_uid == uid and b"singleuser" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.fixture
def ann() -> Iterator[Person]:
    with running_hub(1, arguments=["--emulate", "2xA100-80GB"], offers=["0.25"]) as (hub, names):
        person = Person(hub, names[0], hub.add_user(names[0]))
        person.wait_for_devices()
        yield person


def test_work_that_says_nothing_is_told_to_the_hub(ann: Person) -> None:
    ann.hub.spawn(ann.name)
    ann.kernel = ann.hub.start_kernel(ann.name, ann.token)
    with ThreadPoolExecutor(1) as beside:
        cell = beside.submit(ann.run, WORK)
        try:
            wait_for(lambda: [it["idle_seconds"] for it in ann.leases()] == [0.0], "the pool to see the work")
            before = told(ann)
            # nothing is asked of the server from here on, and its kernel has nothing else to tell
            later = wait_for(lambda: told(ann) if told(ann) > before else None, "the Hub to hear of it", 60)
            wait_for(lambda: told(ann) > later, "the Hub to hear of it again", 60)
        finally:
            (Path(pwd.getpwnam(ann.name).pw_dir) / "stop").touch()
            cell.result(60)


def test_what_a_server_had_ends_with_it_while_the_hub_is_down(ann: Person) -> None:
    ann.hub.spawn(ann.name, {"gpupool": {"share": "0.25", "wait_minutes": 0}})
    ann.kernel = ann.hub.start_kernel(ann.name, ann.token)
    ann.run("import jupyter_gpupool as gpupool; lease = gpupool.request(0.1, device='cuda1')")
    wait_for(lambda: [it["state"] for it in ann.leases()] == ["active"] * 2, "both leases to be in force")
    ann.hub.kill()
    servers = servers_of(ann)
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    # the pool still reads for whom it knows, without the Hub
    wait_for(lambda: ann.leases() == [], "the leases to end without anybody's doing")


CULLER = """
c.JupyterHub.services.append(
    {
        "name": "culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=20", "--cull-every=2"],
        "environment": {"PATH": told["environment"]["PATH"]},
    }
)
c.JupyterHub.load_roles.append(
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    }
)
"""


def test_the_idle_culler_ends_no_server_that_works_and_every_one_that_does_not() -> None:
    with running_hub(2, more=CULLER, arguments=["--emulate", "1xA100-80GB"]) as (hub, names):
        ann, bob = (Person(hub, name, hub.add_user(name)) for name in names)
        ann.wait_for_devices()
        for person in (ann, bob):
            hub.spawn(person.name)
            person.kernel = hub.start_kernel(person.name, person.token)
        bob.run("import jupyter_gpupool as gpupool; lease = gpupool.request(0.1, kind='cuda')")
        with ThreadPoolExecutor(1) as beside:
            cell = beside.submit(ann.run, WORK)
            try:
                wait_for(lambda: not runs(bob), "the server that does nothing to be culled", 90)
                wait_for(lambda: not any(it["mine"] for it in bob.leases()), "its lease to end with it")
                assert runs(ann), "that one has worked for as long, and said as little"
            finally:
                (Path(pwd.getpwnam(ann.name).pw_dir) / "stop").touch()
                cell.result(60)
        wait_for(lambda: not runs(ann), "it to be culled, too, when its work is done", 90)
        wait_for(lambda: ann.leases() == [], "nothing to be left")


def runs(person: Person) -> bool:
    return "" in person.hub.ask("GET", f"/hub/api/users/{person.name}").body["servers"]
