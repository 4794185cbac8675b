"""Kernels under our provisioner, real ones, with a pool in name only."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import HolderDoc, QuiescedDoc
from jupyter_gpupool.protocol.tokens import KernelClaim, read_claim, verify_kernel_token
from jupyter_gpupool.server.app import PROVISIONER
from jupyter_gpupool.server.environments import Environment
from jupyter_gpupool.server.provisioner import EXTENSION_ARGUMENT, PoolProvisioner
from jupyter_gpupool.server.settings import ServerParts
from tests.support.fake_pool import OWNER, FakePool, lease_doc, pool_doc
from tests.support.waiting import until

#: A kernel in no language: it writes its arguments and environment down, and lives until it is ended.
STAND_IN = """
import json, os, signal, sys
folder = sys.argv[1]
with open(os.path.join(folder, f"{os.getpid()}.tmp"), "w") as file:
    json.dump({"argv": sys.argv, "env": dict(os.environ), "pid": os.getpid()}, file)
os.rename(file.name, os.path.join(folder, f"{os.getpid()}.json"))
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pause()
"""


class Kernels:
    """Starts and ends stand-in kernels over the server's REST API, and reads what they wrote."""

    def __init__(self, fetch: Any, specs: Path, folder: Path) -> None:
        self._fetch = fetch
        self._specs = specs
        self.folder = folder
        folder.mkdir()
        self._read: set[Path] = set()

    def spec(
        self, name: str, argv: list[str], *, language: str = "none", env: dict[str, str] | None = None
    ) -> None:
        """Install a kernelspec."""
        place = self._specs / name
        place.mkdir(parents=True)
        content = {"argv": argv, "display_name": name, "language": language, "env": env or {}}
        (place / "kernel.json").write_text(json.dumps(content))

    def stand_in(self, name: str = "stand-in", **options: Any) -> None:
        """Install the kernelspec of a stand-in."""
        self.spec(name, [sys.executable, "-c", STAND_IN, str(self.folder), "{connection_file}"], **options)

    async def start(self, name: str = "stand-in") -> str:
        answer = await self._fetch("api", "kernels", method="POST", body=json.dumps({"name": name}))
        return str(json.loads(answer.body)["id"])

    async def end(self, kernel_id: str) -> None:
        await self._fetch("api", "kernels", kernel_id, method="DELETE")

    async def restart(self, kernel_id: str) -> None:
        await self._fetch(
            "api", "kernels", kernel_id, "restart", method="POST", body="", allow_nonstandard_methods=True
        )

    async def next_process(self) -> dict[str, Any]:
        """Wait for the next stand-in to write down how it was started."""
        await until(lambda: set(self.folder.glob("*.json")) - self._read, what="a kernel process")
        [path] = set(self.folder.glob("*.json")) - self._read
        self._read.add(path)
        found: dict[str, Any] = json.loads(path.read_text())
        return found


@pytest.fixture
def jp_server_config(jp_server_config: Any) -> Any:
    jp_server_config.ServerKernelManager.shutdown_wait_time = 0.2
    jp_server_config.AsyncIOLoopKernelRestarter.time_to_dead = 0.1
    return jp_server_config


@pytest.fixture
def kernels(jp_fetch: Any, jp_data_dir: Path, tmp_path: Path) -> Kernels:
    found = Kernels(jp_fetch, jp_data_dir / "kernels", tmp_path / "started")
    found.stand_in()
    return found


def released(pool: FakePool) -> list[str]:
    """Which kernels' leases the pool was asked to end, and why."""
    return [path.partition("?")[2] for method, path, _ in pool.asked if method == "DELETE"]


def claim_of(process: dict[str, Any], pool: FakePool) -> KernelClaim:
    """Read and verify the token of a kernel."""
    token = process["env"][names.ENV_TOKEN]
    assert verify_kernel_token(pool.token, token)
    claim = read_claim(token)
    assert claim is not None
    return claim


async def known(parts: ServerParts, revision: int) -> None:
    """Wait until the server has heard of this revision of the pool."""
    await until(
        lambda: parts.link.pool is not None and parts.link.pool.revision == revision,
        what=f"revision {revision} to be known",
    )


async def test_a_kernel_is_told_where_the_pool_is_and_who_it_is(
    kernels: Kernels, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    kernel_id = await kernels.start()
    process = await kernels.next_process()
    assert process["env"][names.ENV_URL] == fake_pool.url
    claim = claim_of(process, fake_pool)
    assert (claim.owner, claim.kernel_id) == (OWNER, kernel_id)
    assert names.ENV_REATTACH not in process["env"]
    assert fake_pool.token not in process["env"].values()
    assert not any("gpupool" in word for word in process["argv"])


async def test_a_shutdown_ends_the_leases_of_the_kernel(
    kernels: Kernels, fake_pool: FakePool, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    await connected()
    kernel_id = await kernels.start()
    await kernels.next_process()
    assert released(fake_pool) == []
    await kernels.end(kernel_id)
    assert released(fake_pool) == [f"kernel_id={kernel_id}&reason=kernel_shutdown"]


async def test_a_restart_ends_nothing_and_names_the_lease_to_the_new_process(
    kernels: Kernels, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    await connected()
    kernel_id = await kernels.start()
    first = await kernels.next_process()
    holder = HolderDoc(kernel_id=kernel_id)
    leases = [
        lease_doc("lease_cpu", holder=holder),
        lease_doc("lease_gpu", holder=holder, state=LeaseState.ATTACHING),
        lease_doc("lease_old", holder=holder, state=LeaseState.ENDING),
        lease_doc("lease_other", holder=HolderDoc(kernel_id="another")),
    ]
    fake_pool.publish(pool_doc(2, leases=leases))
    await known(parts, 2)
    await kernels.restart(kernel_id)
    second = await kernels.next_process()
    assert second["env"][names.ENV_REATTACH] == "lease_cpu,lease_gpu"
    assert claim_of(second, fake_pool).generation > claim_of(first, fake_pool).generation
    fake_pool.publish(pool_doc(3))
    await known(parts, 3)
    await kernels.restart(kernel_id)
    third = await kernels.next_process()
    assert names.ENV_REATTACH not in third["env"]
    assert released(fake_pool) == []


async def test_a_lease_that_no_snapshot_has_shown_yet_is_named_to_the_new_process(
    kernels: Kernels, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    kernel_id = await kernels.start()
    await kernels.next_process()
    fake_pool.answer("GET", "leases", [lease_doc("lease_new", holder=HolderDoc(kernel_id=kernel_id))])
    await kernels.restart(kernel_id)
    second = await kernels.next_process()
    assert second["env"][names.ENV_REATTACH] == "lease_new"


async def test_a_killed_kernel_comes_back_with_its_lease(
    kernels: Kernels, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    await connected()
    kernel_id = await kernels.start()
    first = await kernels.next_process()
    fake_pool.publish(pool_doc(2, leases=[lease_doc(holder=HolderDoc(kernel_id=kernel_id))]))
    await known(parts, 2)
    os.kill(first["pid"], signal.SIGKILL)
    second = await kernels.next_process()
    assert second["env"][names.ENV_REATTACH] == "lease_1"
    assert released(fake_pool) == []


async def test_a_kernel_that_crashes_again_and_again_is_given_up_and_its_leases_end(
    kernels: Kernels, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    await connected()
    kernels.spec("crashing", [sys.executable, "-c", "raise SystemExit(1)", "{connection_file}"])
    kernel_id = await kernels.start("crashing")
    assert [kernel.kernel_id for kernel in parts.kernels.kernels] == [kernel_id]
    await until(lambda: released(fake_pool), what="the leases to be ended", seconds=40)
    assert released(fake_pool) == [f"kernel_id={kernel_id}&reason=kernel_dead"]
    assert parts.kernels.kernels == []


async def test_the_servers_end_ends_the_leases_of_its_kernels_though_extensions_stop_first(
    kernels: Kernels, fake_pool: FakePool, jp_serverapp: Any, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    await connected()
    kernel_id = await kernels.start()
    await kernels.next_process()
    await jp_serverapp.cleanup_extensions()
    assert released(fake_pool) == []
    await jp_serverapp.cleanup_kernels()
    assert released(fake_pool) == [f"kernel_id={kernel_id}&reason=kernel_shutdown"]


async def test_a_pool_that_is_gone_does_not_hold_a_shutdown_up(
    kernels: Kernels, fake_pool: FakePool, connected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await connected()
    kernel_id = await kernels.start()
    await kernels.next_process()
    await fake_pool.stop()
    start = time.monotonic()
    await kernels.end(kernel_id)
    assert time.monotonic() - start < 5
    told = [record for record in caplog.records if "was not told" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert kernel_id in told[0].getMessage()


def quiesced(pool: FakePool) -> list[str]:
    """Which kernels the pool was asked to make safe to signal."""
    return [path for method, path, _ in pool.asked if method == "POST"]


async def holding(kernels: Kernels, pool: FakePool, parts: ServerParts, kind: DeviceKind) -> str:
    """Start a kernel, and let the pool say that it holds a lease."""
    kernel_id = await kernels.start()
    await kernels.next_process()
    pool.publish(pool_doc(2, leases=[lease_doc(kind=kind, holder=HolderDoc(kernel_id=kernel_id))]))
    await known(parts, 2)
    return kernel_id


async def test_a_kernel_on_a_gpu_is_taken_off_it_once_before_it_is_signalled(
    kernels: Kernels, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    fake_pool.answer("POST", "leases/quiesce", QuiescedDoc(leases=1, quiesced=1))
    await connected()
    kernel_id = await holding(kernels, fake_pool, parts, DeviceKind.CUDA)
    await kernels.restart(kernel_id)
    await kernels.next_process()
    asked = f"{names.API_PREFIX}/leases/quiesce?kernel_id={kernel_id}"
    assert quiesced(fake_pool) == [asked]
    await kernels.end(kernel_id)
    assert quiesced(fake_pool) == [asked, asked]
    assert [method for method, _, _ in fake_pool.asked][-2:] == ["POST", "DELETE"]


async def test_a_kernel_without_a_share_of_a_gpu_is_ended_as_ever(
    kernels: Kernels, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    await connected()
    kernel_id = await holding(kernels, fake_pool, parts, DeviceKind.CPU)
    await kernels.end(kernel_id)
    assert quiesced(fake_pool) == []


async def test_a_pool_that_cannot_quiesce_delays_an_end_only_so_far_and_is_logged_once(
    kernels: Kernels,
    fake_pool: FakePool,
    parts: ServerParts,
    connected: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake_pool.answer("DELETE", "leases", [])
    await connected()
    kernel_id = await holding(kernels, fake_pool, parts, DeviceKind.CUDA)
    start = time.monotonic()
    await kernels.end(kernel_id)  # an older pool: it does not know the path
    assert time.monotonic() - start < 5
    told = [record for record in caplog.records if "off its GPU first" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert len(quiesced(fake_pool)) == 1


class TestWithTheNetSwitchedOff:
    """With ``release_on_shutdown`` off, for diagnosis."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.GPUPoolExtension.release_on_shutdown = False
        return jp_server_config

    async def test_a_shutdown_is_left_to_the_pool_to_notice(
        self, kernels: Kernels, fake_pool: FakePool, connected: Any
    ) -> None:
        await connected()
        kernel_id = await kernels.start()
        await kernels.next_process()
        await kernels.end(kernel_id)
        assert released(fake_pool) == []


async def test_a_kernel_started_before_the_pool_is_found_starts_at_once(
    kernels: Kernels, fake_pool: FakePool
) -> None:
    start = time.monotonic()
    kernel_id = await kernels.start()
    assert time.monotonic() - start < 5
    process = await kernels.next_process()
    assert names.ENV_TOKEN not in process["env"]
    assert process["env"][names.ENV_URL] == fake_pool.url  # so that it starts no pool of its own
    await kernels.end(kernel_id)


async def test_a_kernelspec_that_names_a_pool_keeps_it(
    kernels: Kernels, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    kernels.stand_in("elsewhere", env={names.ENV_URL: "http://elsewhere", names.ENV_TOKEN: "theirs"})
    kernel_id = await kernels.start("elsewhere")
    process = await kernels.next_process()
    assert process["env"][names.ENV_URL] == "http://elsewhere"
    assert process["env"][names.ENV_TOKEN] == "theirs"
    await kernels.end(kernel_id)
    assert released(fake_pool) == []


async def test_a_lease_of_another_server_is_never_inherited(
    kernels: Kernels, connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_REATTACH, "lease_of_somebody")
    await connected()
    await kernels.start()
    assert names.ENV_REATTACH not in (await kernels.next_process())["env"]


async def test_whatever_fails_in_us_the_kernel_starts(
    kernels: Kernels,
    parts: ServerParts,
    connected: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connected()

    def fail() -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(parts.link, "identity", fail)
    kernel_id = await kernels.start()
    process = await kernels.next_process()
    assert names.ENV_TOKEN not in process["env"]
    assert "starts without it" in caplog.text
    await kernels.end(kernel_id)


async def test_the_tabs_are_told_what_kernels_there_are(
    kernels: Kernels, open_tab: Callable[..., Any], parts: ServerParts, connected: Any, tmp_path: Path
) -> None:
    await connected()
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "lib/python3.11/site-packages").mkdir(parents=True)
    (other / "bin/python").symlink_to(sys.executable)
    (other / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    kernels.spec(
        "other",
        [str(other / "bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        language="python",
    )
    kernels.spec("cat", ["sh", "-c", "sleep 600", "{connection_file}"], language="R")
    ids = [await kernels.start(name) for name in ("cat", "other", "python3")]
    tab = await open_tab()
    message: dict[str, Any] = {}
    while message.get("type") != "kernels":
        message = json.loads(await tab.read_message())
    command = f"{other}/bin/python -m pip install jupyter_gpupool"
    assert message["kernels"] == [
        {"kernel_id": ids[0], "installed": False, "language": "R", "install_command": ""},
        {"kernel_id": ids[1], "installed": False, "language": "python", "install_command": command},
        {"kernel_id": ids[2], "installed": True, "language": "python", "install_command": ""},
    ]
    await asyncio.gather(*(kernels.end(kernel_id) for kernel_id in ids))
    while message.get("kernels") != []:
        message = json.loads(await tab.read_message())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (Environment(ipykernel=True, interpreter="p", installed=True), True),
        (Environment(ipykernel=True, interpreter="p", installed=False), False),
        (Environment(ipykernel=False, interpreter="", installed=False), False),
    ],
)
async def test_the_magics_are_loaded_only_where_they_are_installed(
    jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch, environment: Environment, expected: bool
) -> None:
    manager = ServerKernelManager(parent=jp_serverapp.kernel_manager)
    provisioner = PoolProvisioner(
        kernel_id="k", kernel_spec=manager.kernel_spec_manager.get_kernel_spec("python3"), parent=manager
    )
    monkeypatch.setattr("jupyter_gpupool.server.provisioner.look", lambda argv, env: environment)
    manager._launch_args = {}
    launch = await provisioner.pre_launch()
    assert (EXTENSION_ARGUMENT in launch["cmd"]) is expected
    manager.cleanup_connection_file()


class TestTheDefaultProvisioner:
    """Which provisioner kernels get that name none."""

    async def test_it_is_ours(self, jp_serverapp: Any) -> None:
        assert KernelProvisionerFactory.instance().default_provisioner_name == PROVISIONER

    async def test_it_is_left_alone_when_the_environment_names_another(
        self, jp_configurable_serverapp: Any, jp_server_config: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "another")
        jp_configurable_serverapp(config=jp_server_config)
        assert KernelProvisionerFactory.instance().default_provisioner_name == "another"

    async def test_it_is_left_alone_when_the_configuration_names_another(
        self, jp_configurable_serverapp: Any, jp_server_config: Any
    ) -> None:
        jp_server_config.KernelProvisionerFactory.default_provisioner_name = "another"
        jp_configurable_serverapp(config=jp_server_config)
        assert KernelProvisionerFactory.instance().default_provisioner_name == "another"

    async def test_it_is_left_alone_when_ours_is_switched_off(
        self, jp_configurable_serverapp: Any, jp_server_config: Any
    ) -> None:
        jp_server_config.GPUPoolExtension.default_provisioner = False
        jp_configurable_serverapp(config=jp_server_config)
        assert KernelProvisionerFactory.instance().default_provisioner_name == "local-provisioner"

    async def test_it_is_left_alone_when_our_entry_point_is_not_installed(
        self, jp_configurable_serverapp: Any, jp_server_config: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(KernelProvisionerFactory, "_get_all_provisioners", staticmethod(list))
        monkeypatch.setattr(KernelProvisionerFactory, "provisioners", {})
        jp_configurable_serverapp(config=jp_server_config)
        assert KernelProvisionerFactory.instance().default_provisioner_name == "local-provisioner"


async def test_our_extension_is_no_landing_page_and_reads_the_projects_configuration(
    jp_serverapp: Any,
) -> None:
    [app] = jp_serverapp.extension_manager.extension_apps["jupyter_gpupool"]
    assert app.default_url == "/"
    assert app.config_file_name == "jupyter_gpupool_config"
    assert all(trait.help for trait in app.class_own_traits(config=True).values())


async def test_a_kernel_is_told_how_its_state_is_saved(
    kernels: Kernels, parts: ServerParts, connected: Any
) -> None:
    await connected()
    parts.snapshots.update({names.ENV_AUTOSAVE: "every 10m", names.ENV_STORE: ""})
    await kernels.start()
    environment = (await kernels.next_process())["env"]
    assert environment[names.ENV_AUTOSAVE] == "every 10m"
    assert names.ENV_STORE not in environment
