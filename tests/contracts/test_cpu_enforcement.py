"""What a share of the CPU really does to processes: tried on real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from jupyter_gpupool.backends import cgroups, leasegroups
from jupyter_gpupool.backends.affinity import cores_of
from jupyter_gpupool.backends.base import Attachment, BackendError, HolderTooLarge
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.cpu_isolation import describe
from jupyter_gpupool.backends.groupplan import plan_groups
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rlimits import data_limits
from jupyter_gpupool.backends.undo import ComputeRung, MemoryRung, Undo, load_undo
from jupyter_gpupool.core.leases import Resource, Strength
from tests.contracts.worlds import World, make_world, recorded
from tests.support.accounts import see_that_it_can_run
from tests.support.obedient import MIB, Child, marked, poll

#: How a process was, or is: its data limits, the cores of each thread, its control group for cpu.
State = tuple[tuple[int, int], dict[int, frozenset[int]], str | None]


def state(pid: int) -> State:
    """Look at a process."""
    procfs = ProcFS()
    cores = {tid: frozenset(cores_of(tid)) for tid in procfs.threads(pid)}
    return data_limits(pid), cores, procfs.control_groups(pid).get("cpu")


def limited(pid: int, attachment: Attachment) -> bool:
    """Say whether a process and all its threads are under the limits of a lease."""
    (soft, _), cores, _ = state(pid)
    undo = load_undo(attachment)
    inside = all(pid in members(each.path) for each in undo.groups)
    on_cores = not undo.cores or all(thread <= set(undo.cores) for thread in cores.values())
    return 0 < soft <= attachment.share.memory_bytes and inside and on_cores


def members(group: str) -> list[int]:
    """List the processes of a control group."""
    return [int(line) for line in (Path(group) / "cgroup.procs").read_text().split()]


def test_an_allocation_past_the_share_fails_and_the_process_lives_on(cpu: World, child: Child) -> None:
    attachment = cpu.attach(child.mark, mib=300)
    assert child("block = bytearray(400 * 2**20)") == "MemoryError"
    assert child("block = bytearray(100 * 2**20)") == "done"
    assert child("import mmap; mmap.mmap(-1, 400 * 2**20, mmap.MAP_PRIVATE)").startswith("OSError")
    cpu.backend.detach(attachment)
    assert child("block = bytearray(400 * 2**20)") == "done"


def test_children_that_exist_and_children_that_come_later_are_limited(cpu: World, child: Child) -> None:
    early = int(child("early = fork_child(); answer = early[0]"))
    attachment = cpu.attach(child.mark, mib=300)
    late = int(child("late = fork_child(); answer = late[0]"))
    for name, pid in (("early", early), ("late", late)):
        assert child(f"answer = ask({name}, 'block = bytearray(400 * 2**20)')") == "MemoryError"
        assert child(f"answer = ask({name}, 'answer = 7')") == "7"
        assert limited(pid, attachment)
    cpu.backend.detach(attachment)


def test_threads_that_exist_and_threads_that_come_later_are_limited(cpu: World, child: Child) -> None:
    early = int(child("answer = start_thread()"))
    attachment = cpu.attach(child.mark)
    late = int(child("answer = start_thread()"))
    undo = load_undo(attachment)
    for tid in (child.pid, early, late):
        assert not undo.cores or cores_of(tid) <= set(undo.cores)
    for group in undo.groups:
        assert {child.pid, early, late} <= {
            int(each) for each in (Path(group.path) / "tasks").read_text().split()
        }
    cpu.backend.detach(attachment)


def test_detach_restores_every_process_and_thread_exactly(cpu: World, child: Child) -> None:
    pinned = int(child("answer = start_thread()"))
    os.sched_setaffinity(pinned, {max(os.sched_getaffinity(0))})
    child("import resource; hard = resource.getrlimit(resource.RLIMIT_DATA)[1]")
    child("resource.setrlimit(resource.RLIMIT_DATA, (2**33, hard))")
    early = int(child("early = fork_child(); answer = early[0]"))
    child("ask(early, 'import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**32, hard))')")
    before = {pid: state(pid) for pid in (child.pid, early)}
    attachment = cpu.attach(child.mark)
    late = int(child("late = fork_child(); answer = late[0]"))
    cpu.backend.watch(attachment)
    unseen = int(child("unseen = fork_child(); answer = unseen[0]"))
    cpu.backend.detach(attachment)
    assert {pid: state(pid) for pid in (child.pid, early)} == before
    for pid in (late, unseen):
        limits, cores, group = state(pid)
        assert limits == before[child.pid][0]
        assert set(cores.values()) == {before[child.pid][1][child.pid]}
        assert group == before[child.pid][2]
    cpu.backend.detach(attachment)
    assert {pid: state(pid) for pid in (child.pid, early)} == before
    for made in load_undo(attachment).groups:
        assert not Path(made.path).exists()


def test_detach_restores_children_whose_parent_ended(cpu: World, child: Child) -> None:
    before = state(child.pid)
    attachment = cpu.attach(child.mark)
    orphan = int(child("early = fork_child(); answer = ask(early, 'answer = fork_idler()')"))
    parent = int(child("answer = early[0]"))
    poll(lambda: _watched(cpu, attachment, 3), "the watch sees all")
    child("os.kill(early[0], 9); os.waitpid(early[0], 0)")
    poll(lambda: None if ProcFS().stat(parent) else True, "the parent ends")
    assert limited(orphan, attachment)
    assert cpu.backend.watch(attachment).processes == 2
    cpu.backend.detach(attachment)
    limits, cores, group = state(orphan)
    assert (limits, group) == (before[0], before[2])
    assert set(cores.values()) == {before[1][child.pid]}


def test_an_orphan_whose_parent_nobody_saw_belongs_to_the_leader_of_its_session(
    cpu: World, child: Child
) -> None:
    attachment = cpu.attach(child.mark)
    orphan = int(child("early = fork_child(); answer = ask(early, 'answer = fork_idler()')"))
    child("os.kill(early[0], 9); os.waitpid(early[0], 0)")
    agent = cpu.next_agent()
    assert agent.backend.watch(attachment).processes == 2
    agent.backend.detach(attachment)
    assert data_limits(orphan)[0] == -1


def test_only_soft_limits_are_changed(cpu: World, child: Child) -> None:
    hard = data_limits(child.pid)[1]
    attachment = cpu.attach(child.mark)
    assert data_limits(child.pid) == (300 * MIB, hard)
    cpu.backend.detach(attachment)


def test_a_lower_limit_of_the_process_itself_stays(cpu: World, child: Child) -> None:
    child("import resource; hard = resource.getrlimit(resource.RLIMIT_DATA)[1]")
    child("resource.setrlimit(resource.RLIMIT_DATA, (200 * 2**20, hard))")
    attachment = cpu.attach(child.mark, mib=300)
    assert data_limits(child.pid)[0] == 200 * MIB
    [memory] = [doc for doc in attachment.isolation if doc.resource is Resource.MEMORY]
    assert memory.limit == "200.0 MiB"
    assert "a lower limit of its own" in memory.note
    cpu.backend.detach(attachment)
    assert data_limits(child.pid)[0] == 200 * MIB


def test_a_process_that_is_too_large_is_refused_with_both_numbers_and_nothing_is_changed(
    cpu: World, child: Child
) -> None:
    child("block = hold(200 * 2**20)")
    before = state(child.pid)
    size = ProcFS().status(child.pid)
    assert size is not None
    with pytest.raises(HolderTooLarge, match=r"100\.0 MiB") as caught:
        cpu.attach(child.mark, mib=100)
    assert f"{size.data_bytes / MIB:.1f} MiB" in str(caught.value)
    assert "request at least" in caught.value.hint
    assert state(child.pid) == before


def test_a_tree_that_is_too_large_together_is_refused(cpu: World, child: Child) -> None:
    child("block = hold(90 * 2**20); kid = fork_child(); ask(kid, 'block = hold(90 * 2**20)')")
    with pytest.raises(HolderTooLarge, match="The 2 processes"):
        cpu.attach(child.mark, mib=150)


def test_a_fork_costs_what_it_changes(cpu: World, child: Child) -> None:
    child("block = hold(90 * 2**20); kid = fork_child()")
    attachment = cpu.attach(child.mark, mib=150)
    used = cpu.backend.watch(attachment).memory_used_bytes
    assert used is not None
    assert 90 * MIB < used < 120 * MIB
    cpu.backend.detach(attachment)


def test_the_sum_over_the_tree_is_stopped_and_nobody_is_killed(cpu: World, child: Child) -> None:
    attachment = cpu.attach(child.mark, mib=300)
    child("blocks = []")
    kids = [int(child(f"kid{number} = fork_child(); answer = kid{number}[0]")) for number in range(3)]
    answers: list[str] = []
    for _ in range(12):
        for number in range(3):
            child(f"answer = ask(kid{number}, 'blocks.append(hold(20 * 2**20))')")
            answers.append(child(f"answer = ask(kid{number}, 'answer = len(blocks)')"))
            poll(lambda: _watched(cpu, attachment, 4), "the watch sees all")
    taken = sum(int(child(f"answer = ask(kid{number}, 'answer = len(blocks)')")) for number in range(3))
    used = cpu.backend.watch(attachment).memory_used_bytes
    assert used is not None
    assert used <= 301 * MIB
    assert 12 <= taken <= 15  # 36 were wanted; 300 MiB less four interpreters hold at most 15
    assert all(ProcFS().stat(pid) for pid in kids)
    assert child("answer = ask(kid0, 'del blocks[:]')") == "done"
    _fresh_watch(cpu, attachment)
    assert child("answer = ask(kid1, 'blocks.append(hold(20 * 2**20))')") == "done"
    cpu.backend.detach(attachment)


def _watched(cpu: World, attachment: Attachment, processes: int) -> bool | None:
    return (cpu.backend.watch(attachment).processes == processes) or None


def _fresh_watch(cpu: World, attachment: Attachment) -> None:
    """Watch as another agent would: nothing measured before counts."""
    cpu.next_agent().backend.watch(attachment)


def test_shrinking_below_what_is_used_is_refused_and_the_old_limits_hold(cpu: World, child: Child) -> None:
    attachment = cpu.attach(child.mark, 500, 400)
    child("block = hold(200 * 2**20)")
    with pytest.raises(HolderTooLarge, match=r"100\.0 MiB"):
        cpu.backend.resize(attachment, cpu.share(250, 100))
    assert limited(child.pid, attachment)
    assert data_limits(child.pid)[0] == 400 * MIB
    smaller = cpu.backend.resize(attachment, cpu.share(250, 300))
    assert data_limits(child.pid)[0] == 300 * MIB
    assert child("more = bytearray(150 * 2**20)") == "MemoryError"
    cpu.backend.detach(smaller)
    assert data_limits(child.pid)[0] == -1


def test_growing_takes_effect_on_every_thread(cpu: World, child: Child) -> None:
    tid = int(child("answer = start_thread()"))
    everywhere = cores_of(child.pid)
    attachment = cpu.attach(child.mark, 250, 300)
    larger = cpu.backend.resize(attachment, cpu.share(1000, 600))
    assert cores_of(tid) == cores_of(child.pid) == everywhere
    assert child("block = bytearray(400 * 2**20)") == "done"
    cpu.backend.detach(larger)


def test_an_adopted_tree_is_restored_exactly(cpu: World, child: Child) -> None:
    early = int(child("early = fork_child(); answer = early[0]"))
    before = {pid: state(pid) for pid in (child.pid, early)}
    attachment = recorded(cpu.attach(child.mark))
    agent = cpu.next_agent()
    late = int(child("late = fork_child(); answer = late[0]"))
    agent.backend.watch(attachment)
    attachment = recorded(attachment)
    assert limited(late, attachment)
    cpu.next_agent().backend.detach(attachment)
    assert {pid: state(pid) for pid in (child.pid, early)} == before
    assert data_limits(late) == before[child.pid][0]


def test_a_limit_that_a_process_takes_off_itself_is_put_on_again(cpu: World, child: Child) -> None:
    attachment = cpu.attach(child.mark)
    child("import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**35, -1))")
    child("os.sched_setaffinity(0, range(os.cpu_count()))")
    cpu.backend.watch(attachment)
    assert limited(child.pid, attachment)
    cpu.backend.detach(attachment)


def test_a_child_with_a_lease_of_its_own_counts_to_that_one(cpu: World, child: Child) -> None:
    before = state(child.pid)
    kid = int(child("kid = fork_child(); answer = kid[0]"))
    outer = cpu.attach(child.mark, 500, 400)
    inner = cpu.attach(marked(kid), 250, 200)
    assert data_limits(kid)[0] == 200 * MIB
    assert poll(lambda: _watched(cpu, outer, 1), "the kid is no longer the parent's")
    assert cpu.backend.watch(inner).processes == 1
    assert data_limits(kid)[0] == 200 * MIB
    cpu.backend.detach(outer)
    assert data_limits(kid)[0] == 200 * MIB
    cpu.backend.detach(inner)
    assert state(kid)[0] == before[0]
    assert state(kid)[2] == before[2]
    assert set(state(kid)[1].values()) == {before[1][child.pid]}


def test_leases_get_the_least_used_cores(spawn: Callable[[], Child]) -> None:
    cpu = make_world("cpu, affinity")
    count = cpu.backend.discover()[0].compute_units
    if count < 2:
        pytest.skip("one core cannot be chosen among")
    attachments = [cpu.attach(spawn().mark, 1000 // count, 300) for _ in range(count)]
    assert sorted(core for each in attachments for core in load_undo(each).cores) == sorted(
        os.sched_getaffinity(0)
    )
    for attachment in attachments:
        cpu.backend.detach(attachment)


def test_rounding_to_whole_cores_is_told(spawn: Callable[[], Child]) -> None:
    cpu = make_world("cpu, affinity")
    attachment = cpu.attach(spawn().mark, 1, 300)
    doc = next(each for each in attachment.isolation if each.resource is Resource.COMPUTE)
    assert doc.limit == "1 core"
    assert "rounded up to 1 core: shared with others" in doc.note
    assert attachment.threads == 1
    assert attachment.environment["OMP_NUM_THREADS"] == "1"
    cpu.backend.detach(attachment)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try being somebody else")
def test_another_users_process_is_refused_in_a_sentence(cpu: World, child: Child) -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(BackendError, match="belongs to uid 0, and the agent runs as uid 65534"):
            cpu.attach(child.mark)
    finally:
        os.seteuid(0)
    assert data_limits(child.pid)[0] == -1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be the agent of another user")
def test_a_holder_cannot_leave_what_is_called_hard(spawn: Callable[..., Child]) -> None:
    see_that_it_can_run(65534, 65534)
    cpu = make_world("cpu, control group")
    child, groups = spawn(uid=65534), ControlGroups()
    undo = Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT)
    rungs = (ComputeRung.CGROUP, MemoryRung.RLIMIT)
    plan_groups(groups, undo, rungs, f"lease_{uuid4().hex}", child.pid)
    leasegroups.make_groups(undo.groups)
    [group] = undo.groups
    outside = leasegroups.home(groups, child.pid, 1)
    assert outside is not None
    try:
        leasegroups.set_cpu(1, Path(group.path), 0.5)
        leasegroups.move(child.pid, Path(group.path))
        docs = {doc.resource: doc for doc in describe(undo, cpu.share(), 2, 65534, os.geteuid())}
        assert docs[Resource.COMPUTE].strength is Strength.HARD
        for path in (Path(group.path) / "cpu.cfs_quota_us", outside / "cgroup.procs", outside / "tasks"):
            assert child(f"open({str(path)!r}, 'w').write('-1')").startswith("PermissionError")
        assert child.pid in members(group.path)
    finally:
        leasegroups.move(child.pid, outside)
        leasegroups.remove_group(Path(group.path))


def test_a_cpu_quota_holds_however_many_threads_compute(spawn: Callable[..., Child]) -> None:
    cpu = make_world("cpu, control group")
    child = spawn()
    cores = cpu.backend.discover()[0].compute_units
    attachment = cpu.attach(child.mark, 250, 300)
    child("import time, hashlib; block = bytes(2**20)")
    child(
        "spin = lambda until: all(hashlib.sha256(block) and time.monotonic() < until for _ in iter(int, 1))"
    )
    child("clock, began = time.monotonic(), time.process_time()")
    child("threads = [threading.Thread(target=spin, args=(clock + 1.5,)) for _ in range(4)]")
    child("[each.start() for each in threads]; [each.join() for each in threads]")
    used = float(child("answer = time.process_time() - began"))
    passed = float(child("answer = time.monotonic() - clock"))
    assert used / passed < 0.25 * cores + 0.15
    cpu.backend.detach(attachment)


def test_a_control_group_that_somebody_removed_is_made_again_and_filled(
    spawn: Callable[..., Child],
) -> None:
    cpu = make_world("cpu, control group")
    child = spawn()
    kid = int(child("kid = fork_child(); answer = kid[0]"))
    before = state(child.pid)
    attachment = cpu.attach(child.mark, 500, 300)
    [group] = [Path(each.path) for each in load_undo(attachment).groups]

    for look in (
        lambda: cpu.backend.watch(attachment),
        lambda: cpu.backend.resize(attachment, cpu.share(500, 400)),
    ):
        for pid in members(str(group)):
            leasegroups.move(pid, group.parent.parent)
        leasegroups.remove_group(group)
        assert not group.exists()
        look()
        assert set(members(str(group))) == {child.pid, kid}
        quota = cgroups.cpu_limit(1, group)
        assert quota == cpu.backend.discover()[0].compute_units / 2

    cpu.backend.detach(attachment)
    assert state(child.pid) == before
    assert not group.exists()
