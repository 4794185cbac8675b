"""A real JupyterHub with two real users: kernels of both ask one pool, and neither can touch the other's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.hub_process import HubProcess, running_hub
from tests.support.pool_process import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beside,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("hub"),
]

REQUEST = """
import jupyter_gpupool as gpupool
lease = gpupool.request(0.05, kind="cuda")
"""


@dataclass
class Person:
    """A user with a server and a kernel."""

    hub: HubProcess
    name: str
    token: str
    kernel: str = ""

    def run(self, code: str, show: str = "None") -> str:
        return self.hub.run(self.name, self.token, self.kernel, code, show)

    def pool(self, method: str, path: str, body: object = None) -> Any:
        return self.hub.pool(method, path, body, token=self.token)

    def wait_for_devices(self) -> None:
        """Wait until the pool has devices: its agent joins a moment after it answers."""

        def there() -> bool:
            answer = self.pool("GET", "/api/v1/devices")
            return answer.status == 200 and bool(answer.body)

        wait_for(there, "the pool's devices")

    def leases(self) -> list[Any]:
        found: list[Any] = self.pool("GET", "/api/v1/leases").body
        return found


@pytest.fixture(scope="module")
def people() -> Iterator[list[Person]]:
    with running_hub(2, administrators=["boss"], arguments=["--emulate", "2xA100-80GB"]) as (hub, names):
        yield [Person(hub, name, hub.add_user(name)) for name in names]


def test_kernels_of_two_users_share_one_pool_and_do_not_know_each_other(people: list[Person]) -> None:
    ann, bob = people
    for each in people:
        each.hub.spawn(each.name)
        each.kernel = each.hub.start_kernel(each.name, each.token)
        each.run(REQUEST)
    lease = ann.run("", "lease.id").strip("'")
    mine = next(it for it in ann.leases() if it["id"] == lease)
    assert mine["owner"] == ann.name
    assert mine["holder"]["kernel_id"] == ann.kernel
    wait_for(lambda: all(it["state"] == "active" for it in ann.leases()), "both leases to be in force")
    seen = bob.leases()
    assert sorted(it["mine"] for it in seen) == [False, True]
    text = str(bob.pool("GET", "/api/v1/pool").body)
    assert ann.name not in text
    assert lease not in text
    assert bob.pool("GET", f"/api/v1/leases/{lease}").status == 404
    assert bob.pool("DELETE", f"/api/v1/leases/{lease}").status == 404

    ann.hub.stop_server(ann.name)
    wait_for(lambda: not any(it["mine"] for it in ann.leases()), "the leases of a stopped server to end")
    assert [it["state"] for it in bob.leases() if it["mine"]] == ["active"]
