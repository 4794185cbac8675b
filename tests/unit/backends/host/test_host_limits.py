"""Limits of the node beside a share of a GPU: on real processes, by whatever this machine has."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from jupyter_gpupool.backends import cgroups
from jupyter_gpupool.backends.base import Attachment, HolderGone
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.cpu_device import CPUDevice
from jupyter_gpupool.backends.host.limits import HostLimits
from jupyter_gpupool.backends.host.plan import LEAST_PROCESSES, Asked
from jupyter_gpupool.backends.host.record import load
from jupyter_gpupool.backends.host.scope import Scopes, leave_scope
from jupyter_gpupool.backends.machine import Machine
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import HostLimits as Mode
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource, Strength
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder
from tests.contracts.worlds import recorded
from tests.support.limits import in_force, soft_data_limit
from tests.support.node_bench import ROOT
from tests.support.obedient import MIB, Child

pytestmark = pytest.mark.skipif("not hasattr(__import__('os'), 'pidfd_open')", reason="agents run on Linux")
needs_pids = pytest.mark.skipif(
    not Path("/sys/fs/cgroup/pids/cgroup.procs").is_file(), reason="no version 1 pids controller here"
)


class _Node:
    """One machine: its CPU backend, and the limits beside shares."""

    def __init__(self, *, groups: Path | None = None, scopes: Scopes | None = None, **rules: object) -> None:
        self.cpu = CPUBackend()
        if groups is not None:
            self.cpu.limits.groups = ControlGroups(groups)
        none = Scopes(booted=Path("/nowhere"))
        self.host = HostLimits(
            self.cpu.limits,
            CPUDevice(Machine()),
            NodeRules(**rules),
            scopes or none,  # type: ignore[arg-type]
        )
        self.lease_id = f"lease_{uuid4().hex}"

    def attach(self, child: Child, part: float = 0.5, **kwargs: object) -> Attachment:
        made = self.host.attach(self.lease_id, part, child.mark, **kwargs)  # type: ignore[arg-type]
        assert made is not None
        return made


@pytest.fixture
def spawn() -> Iterator[Callable[[], Child]]:
    children: list[Child] = []

    def start() -> Child:
        children.append(Child())
        return children[-1]

    yield start
    for child in children:
        child.end()


@pytest.fixture
def child(spawn: Callable[[], Child]) -> Child:
    return spawn()


def _docs(attachment: Attachment) -> dict[Resource, IsolationDoc]:
    docs = {doc.resource: doc for doc in attachment.isolation}
    assert set(docs) == {Resource.HOST_COMPUTE, Resource.HOST_MEMORY, Resource.PROCESSES}
    return docs


def _pids_group(pid: int) -> str:
    return ProcFS().control_groups(pid).get("pids", "")


@needs_pids
def test_a_tree_is_limited_to_its_part_and_gets_back_what_it_had(child: Child) -> None:
    node = _Node()
    kid = int(child("kid = fork_child(); answer = kid[0]"))
    before = (in_force(child.pid), in_force(kid), _pids_group(child.pid))
    noted: list[Attachment] = []
    attachment = node.attach(child, note=noted.append)
    assert [load(each).undo is not None for each in noted] == [True]
    docs = _docs(attachment)
    assert all(doc.strength is Strength.SOFT for doc in docs.values())
    for group in load(attachment).undo.groups:  # type: ignore[union-attr]
        assert {child.pid, kid} <= {int(it) for it in (Path(group.path) / "cgroup.procs").read_text().split()}
        if group.processes:
            assert int((Path(group.path) / "pids.max").read_text()) == NodeRules().most_processes // 2
        if group.cpu:
            assert cgroups.cpu_limit(group.version, Path(group.path)) is not None
    assert in_force(child.pid) != before[0]
    sample = node.host.watch(attachment)
    assert sample.processes == 2
    assert sample.host_memory_bytes is not None
    adopter = _Node()
    adopter.host.detach(recorded(attachment))
    adopter.host.detach(recorded(attachment))
    assert (in_force(child.pid), in_force(kid), _pids_group(child.pid)) == before
    assert not any(Path(it.path).exists() for it in load(attachment).undo.groups)  # type: ignore[union-attr]


def test_what_a_holder_asked_for_is_not_counted_as_used_without_a_lease(child: Child) -> None:
    node = _Node()
    child("kept = bytearray(64 * 2**20)")
    attachment = node.attach(child, asked=Asked(cpu_milli=700, memory_bytes=4 * 2**30))
    assert load(attachment).cores_milli == 700
    assert "0.70" in _docs(attachment)[Resource.HOST_COMPUTE].limit
    used = node.host.watch(attachment).host_memory_bytes
    assert used is not None
    assert used >= 64 * 2**20
    assert node.cpu.limits.neighbours.used_bytes() == used
    attachment = node.host.resize(attachment, 1.0)
    assert load(attachment).cores_milli == 700
    node.host.detach(attachment)
    assert node.cpu.limits.neighbours.used_bytes() == 0


@needs_pids
def test_no_more_processes_can_be_started_than_the_part_and_the_kernel_lives_on(child: Child) -> None:
    node = _Node(most_processes=LEAST_PROCESSES)
    attachment = node.attach(child)
    child("kids = []")
    child(f"while len(kids) < {LEAST_PROCESSES + 5}: kids.append(start_thread())", seconds=60)
    assert LEAST_PROCESSES // 2 < int(child("answer = len(kids)")) < LEAST_PROCESSES
    node.host.detach(attachment)
    assert child("answer = start_thread() > 0") == "True"


def test_without_control_groups_memory_and_cores_are_limited_softly_and_processes_are_not(
    child: Child, tmp_path: Path
) -> None:
    node = _Node(groups=tmp_path)
    before = in_force(child.pid)
    attachment = node.attach(child, 0.5)
    docs = _docs(attachment)
    assert docs[Resource.HOST_MEMORY].mechanism == "soft RLIMIT_DATA, process tree summed"
    assert docs[Resource.HOST_COMPUTE].mechanism == "CPU affinity"
    assert docs[Resource.PROCESSES].strength is Strength.NONE
    assert "RLIMIT_NPROC counts all processes of a user" in docs[Resource.PROCESSES].note
    limit = load(attachment).memory_bytes
    assert limit is not None
    assert limit < soft_data_limit(child.pid) <= limit + 17 * 2**30
    node.host.detach(attachment)
    assert in_force(child.pid) == before


def test_another_part_is_put_in_force_in_place_and_undone_as_well(child: Child) -> None:
    node = _Node()
    before = in_force(child.pid)
    attachment = node.attach(child, 0.5)
    larger = node.host.resize(attachment, 1.0)
    old, new = load(attachment), load(larger)
    assert new.cores_milli == 1000 * CPUDevice(Machine()).cores.count
    assert (new.processes, larger.share.compute_milli) == (NodeRules().most_processes, 1000)
    assert old.undo is not None
    assert new.undo is not None
    assert [each.path for each in old.undo.groups] == [each.path for each in new.undo.groups]
    for group in new.undo.groups:
        assert str(child.pid) in (Path(group.path) / "cgroup.procs").read_text().split()
        if group.processes:
            assert int((Path(group.path) / "pids.max").read_text()) == NodeRules().most_processes
    node.host.detach(larger)
    assert in_force(child.pid) == before


def test_what_a_holder_uses_more_of_than_its_new_part_stays_limited_as_it_was(child: Child) -> None:
    node = _Node(most_processes=2 * LEAST_PROCESSES)
    attachment = node.attach(child, 1.0)
    child(f"kids = [start_thread() for _ in range({LEAST_PROCESSES + 5})]", seconds=60)
    smaller = node.host.resize(attachment, 0.1)
    assert load(smaller).processes == 2 * LEAST_PROCESSES
    assert Resource.PROCESSES not in load(smaller).reasons
    node.host.detach(smaller)


def test_a_share_of_the_cpu_comes_first_and_the_limits_beside_come_back_after_it(child: Child) -> None:
    node = _Node()
    before = in_force(child.pid)
    beside = node.attach(child, 0.5)
    limited = in_force(child.pid)
    share = ShareOrder(device_id=node.cpu.discover()[0].id, compute_milli=250, memory_bytes=300 * MIB)
    lease = node.cpu.attach(f"lease_{uuid4().hex}", share, child.mark)
    node.host.watch(beside)
    assert {doc.strength for doc in beside.isolation} == {Strength.NONE}
    assert "has a share of the CPU too" in beside.isolation[0].note
    assert soft_data_limit(child.pid) == 300 * MIB
    node.cpu.watch(lease)
    node.cpu.detach(lease)
    assert in_force(child.pid) == before
    node.host.watch(beside)
    assert Strength.SOFT in {doc.strength for doc in beside.isolation}
    assert in_force(child.pid)[1:] == limited[1:]
    node.host.detach(beside)
    assert in_force(child.pid) == before


def test_limits_beside_a_share_that_end_while_the_cpu_is_leased_leave_that_lease_alone(child: Child) -> None:
    node = _Node()
    before = in_force(child.pid)
    share = ShareOrder(device_id=node.cpu.discover()[0].id, compute_milli=250, memory_bytes=300 * MIB)
    lease = node.cpu.attach(f"lease_{uuid4().hex}", share, child.mark)
    limited = in_force(child.pid)
    beside = node.attach(child, 0.5)
    assert in_force(child.pid) == limited
    node.host.detach(beside)
    assert in_force(child.pid) == limited
    node.cpu.detach(lease)
    assert in_force(child.pid) == before


def test_rules_can_ask_for_no_limits_and_a_process_that_ended_gets_none(child: Child) -> None:
    assert _Node(host_limits=Mode.NONE).host.attach("lease_1", 0.5, child.mark) is None
    child.end()
    with pytest.raises(HolderGone):
        _Node().attach(child)


# --- systemd ----------------------------------------------------------------------------------------


class _Systemd:
    """A stand-in for systemd: see `tests.fakes.systemd.busctl`."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        (home / "proc").mkdir(parents=True)
        (home / "bus").touch()
        (home / "units.json").write_text("{}")
        busctl = home / "busctl"
        script = ROOT / "tests" / "fakes" / "systemd" / "busctl.py"
        busctl.write_text(f'#!/bin/sh\nexec {sys.executable} -I {script} "$@"\n')
        busctl.chmod(0o755)
        monkeypatch.setenv("FAKE_SYSTEMD", str(home))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
        self.scopes = Scopes(str(busctl), ProcFS(home / "proc"), booted=home)

    def sees(self, child: Child) -> None:
        directory = self.home / "proc" / str(child.pid)
        directory.mkdir()
        (directory / "stat").write_text(Path(f"/proc/{child.pid}/stat").read_text())
        (directory / "cgroup").write_text("0::/user.slice/session-3.scope\n")

    @property
    def units(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads((self.home / "units.json").read_text())
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Systemd:
    return _Systemd(tmp_path / "systemd", monkeypatch)


def test_where_control_groups_are_not_delegated_systemd_makes_a_scope(
    machine: _Systemd, child: Child, tmp_path: Path
) -> None:
    machine.sees(child)
    node = _Node(groups=tmp_path / "nothing", scopes=machine.scopes)
    before = in_force(child.pid)
    noted: list[Attachment] = []
    attachment = node.attach(child, 0.5, note=noted.append)
    [(unit, limits)] = machine.units.items()
    assert unit == f"jupyter_gpupool-{node.lease_id}-{child.pid}.scope" == load(noted[0]).scope
    record = load(attachment)
    assert limits["CPUQuotaPerSecUSec"] == str(record.cores_milli * 1000)
    assert limits["MemoryMax"] == str(record.memory_bytes)
    assert limits["TasksMax"] == str(record.processes)
    mechanisms = {doc.resource: doc.mechanism for doc in _docs(attachment).values()}
    assert mechanisms[Resource.HOST_MEMORY] == "systemd scope, MemoryMax"
    assert in_force(child.pid) == before
    sample = node.host.watch(attachment)
    assert (sample.processes, in_force(child.pid)) == (1, before)

    larger = node.host.resize(attachment, 1.0)
    assert machine.units[unit]["TasksMax"] == str(NodeRules().most_processes)
    node.host.detach(recorded(larger))
    infinity = str(2**64 - 1)
    assert machine.units[unit]["CPUQuotaPerSecUSec"] == machine.units[unit]["MemoryMax"] == infinity
    (machine.home / "units.json").write_text("{}")  # its last process ended
    node.host.detach(recorded(larger))


def test_a_pool_that_a_limited_kernel_started_leaves_its_scope_and_others_stay(machine: _Systemd) -> None:
    procfs = ProcFS(machine.home / "proc")
    directory = machine.home / "proc" / str(os.getpid())
    directory.mkdir()
    (directory / "stat").write_text(Path("/proc/self/stat").read_text())
    (directory / "cgroup").write_text("0::/user.slice/session-3.scope\n")
    leave_scope(machine.scopes, procfs)
    assert machine.units == {}
    (directory / "cgroup").write_text("0::/app.slice/jupyter_gpupool-lease_1-77.scope\n")
    leave_scope(machine.scopes, procfs)
    [(unit, limits)] = machine.units.items()
    assert unit == f"jupyter_gpupool_pool-{os.getpid()}.scope"
    assert limits["TasksMax"] == str(2**64 - 1)
    leave_scope(machine.scopes, procfs)


def test_where_systemd_refuses_the_process_is_limited_as_without_it(
    machine: _Systemd, child: Child, tmp_path: Path
) -> None:
    machine.sees(child)
    (machine.home / "refuse").touch()
    node = _Node(groups=tmp_path / "nothing", scopes=machine.scopes)
    before = in_force(child.pid)
    attachment = node.attach(child, 0.5)
    assert load(attachment).scope == ""
    assert _docs(attachment)[Resource.HOST_COMPUTE].mechanism == "CPU affinity"
    node.host.detach(attachment)
    assert in_force(child.pid) == before


def test_it_is_told_why_there_are_no_scopes(
    machine: _Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.scopes.impossible() == ""
    assert "does not manage" in Scopes(booted=tmp_path / "none").impossible()
    assert "no busctl" in Scopes(str(tmp_path / "busctl"), booted=tmp_path).impossible()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "no systemd manager" in machine.scopes.impossible()
