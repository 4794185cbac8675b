"""The driver's memory limits for control groups, on a fake driver and a tree of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import LimitNotInForce, ProcessMark
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.rungs.base import Site
from jupyter_gpupool.backends.nvidia.rungs.driver import DriverRung
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.core.leases import Strength, Verified
from tests.support.fake_gpus import FakeGPUs
from tests.support.gpu_bench import GIB, LEASE, share
from tests.unit.backends.conftest import Build
from tests.unit.backends.machines import delegated, v1

SLICE = "user.slice/user-1000.slice/user@1000.service/app.slice"
#: A user who is neither the agent's nor the owner of any file here.
SOMEBODY = os.geteuid() + 12345
UNLIMITED = 2**64 - 1


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    with FakeGPUs(tmp_path).a100(1) as made:
        yield made


@pytest.fixture
def holder() -> Iterator[ProcessMark]:
    process = subprocess.Popen(["sleep", "300"])
    stat = ProcFS().stat(process.pid)
    assert stat is not None
    yield stat.mark
    process.kill()
    process.wait(10)


class Node:
    """A machine of files with one GPU and one holder."""

    def __init__(self, gpus: FakeGPUs, root: Path, holder: ProcessMark, uid: int = SOMEBODY) -> None:
        self.gpus, self.root, self.holder = gpus, root, holder
        self.nvml = NVML(str(gpus.library))
        self.sampler = DeviceSampler(self.nvml, Discovery(self.nvml))
        presence = Presence(self.nvml, self.sampler, ProcFS())
        self.rung = DriverRung(self.nvml, presence, ControlGroups(root), agent_uid=0)
        [self.gpu] = self.sampler.refresh().gpus
        self.uid = uid

    def site(self, memory: int = 20 * GIB) -> Site:
        return Site(
            lease_id=LEASE,
            gpu=self.gpu,
            share=share(self.gpu.uuid, 250, memory),
            holder=self.holder,
            uid=self.uid,
            cuda_started=False,
        )

    def limit(self, group: str) -> tuple[int, int]:
        """Return what the driver was told of a group: soft and hard."""
        return self.gpus.limits()[self.gpu.uuid, group]


def files(holder: ProcessMark, *others: int, **limits: str) -> dict[str, str]:
    """Return a laptop whose notebook is in a scope, alone or with others."""
    made = {name.replace("4711", str(holder.pid)): text for name, text in delegated(**limits).items()}
    scope = f"sys/fs/cgroup/{SLICE}/lab.scope/cgroup.procs"
    made[scope] = "".join(f"{pid}\n" for pid in (holder.pid, *others))
    return made


def test_a_group_that_is_the_holders_alone_is_limited_where_it_is(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder)
    assert node.rung.impossible(node.gpu) == ""
    assert node.rung.refused(node.site()) == ""
    record = node.rung.put(node.site()).record
    assert node.limit(f"/{SLICE}/lab.scope") == (20 * GIB, 20 * GIB)
    [doc] = node.rung.look(node.site(), record)
    assert (doc.strength, doc.verified, doc.limit) == (Strength.HARD, Verified.PENDING, "20.0 GiB")

    gpus.use(node.gpu.uuid, holder.pid, GIB)
    node.sampler.refresh()
    [doc] = node.rung.look(node.site(), record)
    assert (doc.strength, doc.verified) == (Strength.HARD, Verified.READ_BACK)

    node.rung.resize(node.site(30 * GIB), record)
    assert node.limit(f"/{SLICE}/lab.scope") == (30 * GIB, 30 * GIB)
    node.rung.take_away(LEASE, record)
    node.rung.take_away(LEASE, record)
    assert node.limit(f"/{SLICE}/lab.scope") == (0, UNLIMITED)


def test_a_holder_among_others_gets_a_group_of_its_own_and_is_brought_home(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    root = machine_of(files(holder, 1))
    node = Node(gpus, root, holder)
    group = f"{SLICE}/jupyter_gpupool-{LEASE}"
    record = node.rung.put(node.site()).record
    assert node.limit(f"/{group}") == (20 * GIB, 20 * GIB)
    assert (root / "sys/fs/cgroup" / group / "cgroup.procs").read_text() == str(holder.pid)
    home = root / "sys/fs/cgroup" / SLICE / "lab.scope/cgroup.procs"
    home.write_text("1\n")
    node.rung.take_away(LEASE, record)
    assert home.read_text() == str(holder.pid)
    assert node.limit(f"/{group}") == (0, UNLIMITED)  # the reservation first: the driver would keep it


def test_what_an_intent_names_can_be_undone_before_and_after(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder)
    intent = node.rung.intent(node.site())
    node.rung.take_away(LEASE, intent)
    node.rung.put(node.site())
    node.rung.take_away(LEASE, intent)
    assert node.limit(f"/{SLICE}/lab.scope") == (0, UNLIMITED)


def test_a_limit_that_somebody_else_had_set_is_given_back(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder)
    record = node.rung.put(node.site(40 * GIB)).record  # as if it were another's
    later = node.rung.put(node.site(20 * GIB)).record
    node.rung.take_away(LEASE, later)
    assert node.limit(f"/{SLICE}/lab.scope") == (40 * GIB, 40 * GIB)
    node.rung.take_away(LEASE, record)


def test_a_process_that_left_its_group_leaves_nothing_in_force(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    root = machine_of(files(holder))
    node = Node(gpus, root, holder)
    record = node.rung.put(node.site()).record
    gpus.use(node.gpu.uuid, holder.pid, GIB)
    node.sampler.refresh()
    (root / "sys/fs/cgroup" / SLICE / "lab.scope/cgroup.procs").write_text("1\n")
    [doc] = node.rung.look(node.site(), record)
    assert (doc.strength, doc.note) == (
        Strength.NONE,
        f"Process {holder.pid} left the control group, and its limit.",
    )


@pytest.mark.parametrize("uid", [0, os.geteuid()])
def test_it_is_hard_only_for_who_cannot_undo_it(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark, uid: int
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder, uid)
    record = node.rung.put(node.site()).record
    [doc] = node.rung.look(node.site(), record)
    assert doc.strength is Strength.SOFT
    assert doc.note


def test_a_driver_that_refuses_leaves_nothing_changed(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder)
    gpus.set("gpu0.nvmlDeviceSetMemoryLimits_v1", "!4")
    with pytest.raises(LimitNotInForce, match=r"does not take a memory limit .* no permission"):
        node.rung.put(node.site())
    assert gpus.limits() == {}


class TestWhereItIsNotPossible:
    """Each reason, in one clause."""

    def test_the_driver_is_asked_and_not_its_version(
        self, gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
    ) -> None:
        gpus.missing("nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1")
        node = Node(gpus, machine_of(files(holder)), holder)
        assert node.rung.impossible(node.gpu) == "driver too old"

    def test_version_2_control_groups_are_needed(
        self, gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
    ) -> None:
        node = Node(gpus, machine_of(v1()), holder)
        assert node.rung.impossible(node.gpu) == "no version 2 control groups are mounted"

    def test_only_an_administrators_agent_may(self, gpus: FakeGPUs, holder: ProcessMark) -> None:
        node = Node(gpus, Path("/nowhere"), holder)
        rung = DriverRung(node.nvml, Presence(node.nvml, node.sampler, ProcFS()), agent_uid=1000)
        assert rung.impossible(node.gpu) == "only an administrator may set them, and the agent is not one"

    def test_mig_instances_cannot(self, gpus: FakeGPUs, holder: ProcessMark) -> None:
        node = Node(gpus, Path("/nowhere"), holder)
        instance = GPU(
            **{name: getattr(node.gpu, name) for name in ("name", "model", "driver", "pci_bus_id")},
            uuid="MIG-1",
            memory_bytes=GIB,
            multiprocessors=14,
            parent_uuid=node.gpu.uuid,
        )
        assert node.rung.impossible(instance) == "MIG instances cannot have them"

    def test_a_holder_would_leave_a_limit_that_somebody_set(
        self, gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
    ) -> None:
        node = Node(gpus, machine_of(files(holder, 1, memory__max=str(GIB))), holder)
        assert "would leave the limits" in node.rung.refused(node.site())


def test_what_is_promised_says_whom_it_is_for_where_no_groups_can_be_made(
    gpus: FakeGPUs, machine_of: Build, holder: ProcessMark
) -> None:
    node = Node(gpus, machine_of(files(holder)), holder)
    [doc] = node.rung.promise(node.gpu, share(node.gpu.uuid))
    assert (doc.strength, doc.verified) == (Strength.HARD, Verified.PENDING)
    assert doc.note.startswith("Only a holder with a control group for itself gets it here: ")
