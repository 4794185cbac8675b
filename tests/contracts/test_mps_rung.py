"""The MPS rung against the fake control program: real processes, real sockets, real users."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.nvidia.mps.errors import MPSError
from jupyter_gpupool.backends.nvidia.mps.survey import FRESH_SECONDS
from jupyter_gpupool.backends.nvidia.rungs.base import Site
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from tests.support.fake_mps import FakeClient
from tests.support.mps_bench import GIB, MPSBench

MEMORY, COMPUTE = Resource.MEMORY, Resource.COMPUTE
OTHER_UID = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MPSBench]:
    """Give a rung with our own daemon."""
    with MPSBench(tmp_path) as bench:
        yield bench


def daemon_of(pipes: Path) -> int:
    """Return a daemon's process."""
    return int((pipes / "nvidia-cuda-mps-control.pid").read_text())


def server_of(bench: MPSBench, pipes: Path) -> str:
    """Return the one server's process."""
    return bench.mps.tell(pipes, "get_server_list")


def test_a_life_with_mps(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    assert bench.rung.impossible(site.gpu) == ""
    assert bench.rung.refused(site) == ""
    put = bench.rung.put(site)
    pipes = bench.pipes(put)
    assert put.environment == {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_LOG_DIRECTORY": str(pipes.parent / "l"),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{site.gpu.uuid}=20480M",
    }
    assert pipes.stat().st_mode & 0o777 == 0o700
    assert bench.look(site, put)[MEMORY].verified is Verified.PENDING

    bench.start_cuda(holder, put)
    found = bench.look(site, put)
    assert (found[MEMORY].limit, found[MEMORY].verified) == ("20.0 GiB", Verified.READ_BACK)
    assert found[COMPUTE].limit == "at most 25 % of the multiprocessors"
    assert "not a reservation" in found[COMPUTE].note
    server = server_of(bench, pipes)
    assert bench.mps.tell(pipes, f"get_device_pinned_mem_limit {server} {site.gpu.uuid}") == "20G"

    bench.rung.quiesce(site, put.record, [holder.pid])
    assert f"terminate_client {server} {holder.pid}" in bench.mps.calls()
    holder.end()
    bench.rung.take_away("lease_a", put.record)
    bench.rung.take_away("lease_a", put.record)
    assert bench.left() == []


def test_two_leases_of_one_user_share_a_server_that_allows_what_the_larger_needs(bench: MPSBench) -> None:
    small, large = bench.mps.process(), bench.mps.process()
    sites = [
        bench.site(small, lease="lease_small", milli=250, memory=20 * GIB),
        bench.site(large, lease="lease_large", milli=500, memory=40 * GIB),
    ]
    puts = [bench.rung.put(site) for site in sites]
    assert bench.pipes(puts[0]) == bench.pipes(puts[1])
    for holder, put in zip((small, large), puts, strict=True):
        bench.start_cuda(holder, put)
    found = bench.look(sites[0], puts[0])
    assert "allows 40.0 GiB" in found[MEMORY].note
    assert bench.look(sites[1], puts[1])[MEMORY].verified is Verified.READ_BACK
    large.end()
    bench.rung.take_away("lease_large", puts[1].record)
    server = server_of(bench, bench.pipes(puts[0]))
    assert bench.mps.tell(bench.pipes(puts[0]), f"get_active_thread_percentage {server}") == "25.0"
    small.end()
    bench.rung.take_away("lease_small", puts[0].record)
    assert bench.left() == []


def test_a_running_client_keeps_its_limits_when_its_lease_is_resized(bench: MPSBench) -> None:
    holder = bench.mps.process()
    put = bench.rung.put(bench.site(holder))
    before = bench.rung.resize(bench.site(holder, milli=300), put.record)
    assert before.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    assert before.notices == []
    bench.start_cuda(holder, put)
    larger = bench.site(holder, milli=500, memory=40 * GIB)
    after = bench.rung.resize(larger, put.record)
    assert "keeps 30 %" in after.notices[0]
    assert "after a restart, get 50 % and 40.0 GiB" in after.notices[0]
    found = bench.look(larger, after)
    assert found[COMPUTE].limit.startswith("at most 30 %")
    assert "restart the kernel" in found[COMPUTE].note


def test_cuda_that_ran_without_mps_has_no_limit_and_is_told(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    bench.gpus.use(site.gpu.uuid, holder.pid, GIB)
    found = bench.look(site, put)
    assert found[MEMORY].strength is Strength.NONE
    assert f"CUDA ran without MPS in process {holder.pid}" in found[MEMORY].note
    assert "Restart the kernel" in found[MEMORY].note


def test_a_child_counts_to_its_holder_unless_it_has_a_lease_of_its_own(bench: MPSBench) -> None:
    family = bench.mps.process(parent=True)
    site = bench.site(family)
    put = bench.rung.put(site)
    bench.start_cuda(family, put, pid=family.child)
    assert bench.look(site, put)[MEMORY].verified is Verified.READ_BACK

    own = bench.mps.process(parent=True)
    parents = bench.site(own, lease="lease_parent")
    childs = bench.site(own, lease="lease_child", pid=own.child)
    puts = [bench.rung.put(parents), bench.rung.put(childs)]
    bench.start_cuda(own, puts[1], pid=own.child)
    assert bench.look(parents, puts[0])[MEMORY].verified is Verified.PENDING
    assert bench.look(childs, puts[1])[MEMORY].verified is Verified.READ_BACK


def test_a_process_that_has_started_cuda_is_refused(bench: MPSBench) -> None:
    holder = bench.mps.process()
    assert "CUDA has started" in bench.rung.refused(bench.site(holder, started=True))


@as_root
def test_another_user_is_told_for_whom_it_would_wait(bench: MPSBench) -> None:
    mine, theirs = bench.mps.process(), bench.mps.process(uid=OTHER_UID)
    put = bench.rung.put(bench.site(mine))
    bench.start_cuda(mine, put)
    site = bench.site(theirs, lease="lease_b")
    assert "lease_a of uid 0 is on it" in bench.rung.refused(site)
    with pytest.raises(MPSError, match="one user at a time"):
        bench.rung.put(site)
    assert bench.rung.one_owner(site.gpu)


@as_root
def test_a_holder_of_another_user_passes_through_to_roots_daemon(bench: MPSBench) -> None:
    theirs = bench.mps.process(uid=OTHER_UID)
    site = bench.site(theirs)
    put = bench.rung.put(site)
    assert bench.pipes(put).parent.stat().st_mode & 0o777 == 0o711
    bench.start_cuda(theirs, put)
    assert bench.look(site, put)[MEMORY].verified is Verified.READ_BACK
    theirs.end()
    bench.rung.take_away("lease_a", put.record)
    assert bench.left() == []


@as_root
def test_memory_is_hard_where_neither_limit_nor_mps_can_be_left(tmp_path: Path) -> None:
    with MPSBench(tmp_path, NodeRules(exclusive_process=True)) as bench:
        theirs = bench.mps.process(uid=OTHER_UID)
        gpu = bench.gpu(compute_mode="exclusive_process")
        site = bench.site(theirs, gpu=gpu)
        put = bench.rung.put(site)
        bench.start_cuda(theirs, put)
        assert bench.look(site, put)[MEMORY].strength is Strength.HARD
        lax = bench.site(theirs, gpu=bench.gpu(compute_mode="default"))
        found = bench.look(lax, put)[MEMORY]
        assert found.strength is Strength.SOFT
        assert "NVML says that the GPU's compute mode is default" in found.note


@pytest.mark.slow
@as_root
def test_a_server_for_all_users_serves_two_at_once(tmp_path: Path) -> None:
    with MPSBench(tmp_path, NodeRules(mps_multiuser=True)) as bench:
        holders = [bench.mps.process(), bench.mps.process(uid=OTHER_UID)]
        for number, holder in enumerate(holders):
            site = bench.site(holder, lease=f"lease_{number}")
            assert bench.rung.refused(site) == ""
            put = bench.rung.put(site)
            bench.start_cuda(holder, put)
            assert bench.look(site, put)[MEMORY].verified is Verified.READ_BACK
        assert not bench.rung.one_owner(bench.gpu())


@pytest.mark.slow
@as_root
def test_whoever_hangs_behind_another_user_of_an_administrators_daemon_is_told(bench: MPSBench) -> None:
    pipes = bench.folder / "admin"
    bench.mps.start_daemon(pipes)
    bench.environment["CUDA_MPS_PIPE_DIRECTORY"] = str(pipes)
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    assert bench.pipes(put) == pipes
    bench.mps.tell(pipes, f"start_server -uid {OTHER_UID}")
    stranger = (
        bench.mps.process()
    )  # this one's file says whose it is, as an unprivileged daemon has to trust it
    stranger.uid = OTHER_UID
    (pipes / "clients" / str(stranger.pid)).write_text(f"start {stranger.mark().start_ticks}\nuid 65534\n")
    os.chown(pipes / "clients" / str(stranger.pid), OTHER_UID, OTHER_UID)
    bench.until(lambda: f"accepted {stranger.pid}\n" in (pipes / "fake-daemon").read_text(), "served")
    found = bench.look(site, put)[MEMORY]
    assert found.verified is Verified.PENDING
    assert f"hangs until process {stranger.pid} has ended" in found.note
    assert f"MPS serves uid {OTHER_UID}" in bench.rung.refused(bench.site(holder, lease="lease_b"))


def test_an_administrators_daemon_is_used_and_gets_its_limits_back(bench: MPSBench) -> None:
    pipes = bench.folder / "admin"
    bench.mps.start_daemon(pipes)
    bench.mps.tell(pipes, "set_default_active_thread_percentage 80")
    bench.environment["CUDA_MPS_PIPE_DIRECTORY"] = str(pipes)
    assert bench.rung.impossible(bench.gpu()) == ""
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    assert bench.pipes(put) == pipes
    assert bench.mps.tell(pipes, "get_default_active_thread_percentage") == "25.0"
    holder.end()
    bench.rung.take_away("lease_a", put.record)
    assert bench.mps.tell(pipes, "get_default_active_thread_percentage") == "80.0"
    assert bench.mps.tell(pipes, f"get_default_device_pinned_mem_limit {site.gpu.uuid}") == "80G"
    assert len(bench.mps.processes()) == 1
    assert list(bench.runtime.iterdir()) == []


def test_a_fault_is_told_to_everybody_with_whose_it_was(bench: MPSBench) -> None:
    guilty, innocent = bench.mps.process(), bench.mps.process()
    sites = [bench.site(guilty, lease="lease_guilty"), bench.site(innocent, lease="lease_innocent")]
    puts = [bench.rung.put(site) for site in sites]
    for holder, put in zip((guilty, innocent), puts, strict=True):
        bench.start_cuda(holder, put)
    pipes = bench.pipes(puts[0])
    bench.mps.tell(pipes, f"fake_fault {server_of(bench, pipes)} {guilty.pid}")
    told = bench.look(sites[1], puts[1])[MEMORY]
    assert told.strength is Strength.NONE
    assert f"process {guilty.pid} of lease_guilty caused it" in told.note
    assert "of this lease caused it" in bench.look(sites[0], puts[0])[MEMORY].note
    newcomer = bench.mps.process()
    bench.late += FRESH_SECONDS
    site = bench.site(newcomer, lease="lease_new")
    assert "had a fatal fault and takes nobody until" in bench.rung.refused(site)
    guilty.end()
    innocent.end()

    def serves() -> bool:
        bench.late += FRESH_SECONDS
        return bench.rung.refused(site) == ""

    bench.until(serves, "the server serves again")
    bench.start_cuda(newcomer, bench.rung.put(site))


def test_a_daemon_that_was_killed_limits_nobody_and_is_replaced_after_its_holders(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    bench.start_cuda(holder, put)
    os.kill(daemon_of(bench.pipes(put)), signal.SIGKILL)
    told = bench.look(site, put)[MEMORY]
    assert told.strength is Strength.NONE
    assert "cannot be asked" in told.note
    other = bench.site(bench.mps.process(), lease="lease_b")
    assert "is dead, and other leases still use it" in bench.rung.refused(other)
    with pytest.raises(MPSError, match="lease_a still use it"):
        bench.rung.put(other)
    with pytest.raises(MPSError, match="cannot be asked"):
        bench.rung.resize(bench.site(holder, milli=500), put.record)
    holder.end()
    again = bench.rung.put(other)
    assert bench.look(other, again)[MEMORY].verified is Verified.PENDING
    bench.rung.take_away("lease_a", put.record)
    bench.rung.take_away("lease_b", again.record)
    assert bench.left() == []


def test_the_next_agent_adopts_the_daemon(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    bench.start_cuda(holder, put)
    before = bench.mps.processes()
    bench.rung = bench.agent()
    assert bench.rung.impossible(site.gpu) == ""
    assert bench.look(site, put)[MEMORY].verified is Verified.READ_BACK
    second = bench.site(bench.mps.process(), lease="lease_b")
    assert bench.pipes(bench.rung.put(second)) == bench.pipes(put)
    assert bench.mps.processes() == before
    holder.end()
    bench.rung.take_away("lease_a", put.record)
    bench.rung.take_away("lease_b", bench.rung.intent(second))
    assert bench.left() == []


def test_a_process_that_gave_its_lease_back_keeps_its_work(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    bench.start_cuda(holder, put)
    bench.rung.take_away("lease_a", put.record)
    assert len(bench.mps.processes()) == 2
    holder.end()
    bench.rung.tidy()
    assert bench.left() == []


def test_an_intent_alone_is_undone(bench: MPSBench) -> None:
    site = bench.site(bench.mps.process())
    bench.rung.take_away("lease_a", bench.rung.intent(site))
    assert list(bench.folder.glob("run/*")) == []


def test_without_a_control_program_mps_is_impossible(bench: MPSBench) -> None:
    bench.mps.program.unlink()
    assert "is not installed here" in bench.rung.impossible(bench.gpu())
    with pytest.raises(BackendError, match="not installed"):
        bench.rung.put(bench.site(bench.mps.process()))
    assert list(bench.runtime.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("fail start", "did not start: “Cannot find MPS control daemon process”"),
        ("silent-start start", "does not answer"),
        ("hang start", "did not answer “-d” within"),
        ("garbage get_server_list", "MPS listed as processes: “[31m%$#! segfault at 0x0 --”"),
    ],
)
def test_a_control_program_that_fails_is_told_in_bounded_time(
    tmp_path: Path, behaviour: str, said: str
) -> None:
    start_seconds = 0.3 if behaviour.startswith("hang") else 10.0
    with MPSBench(tmp_path, start_seconds=start_seconds) as bench:
        bench.mps.behave(behaviour)
        began = time.monotonic()
        reason = bench.rung.impossible(bench.gpu())
        assert said in reason
        assert bench.rung.impossible(bench.gpu()) == reason
        with pytest.raises(MPSError):
            bench.rung.put(bench.site(bench.mps.process()))
        assert time.monotonic() - began < 15
        bench.mps.behave()
        assert bench.left() == []


@pytest.mark.slow
def test_a_hanging_control_program_hangs_neither_a_look_nor_an_end(tmp_path: Path) -> None:
    with MPSBench(tmp_path, call_seconds=5.0) as bench:
        holder = bench.mps.process()
        site = bench.site(holder)
        put = bench.rung.put(site)
        bench.call_seconds = 0.3
        bench.rung = bench.agent()
        bench.mps.behave("hang")
        assert "did not answer “get_server_list” within" in bench.look(site, put)[MEMORY].note
        began = time.monotonic()
        bench.rung.quiesce(site, put.record, [holder.pid])
        assert time.monotonic() - began < 3
        holder.end()
        bench.rung.take_away("lease_a", put.record)
        assert bench.left() == []


def test_a_server_that_does_not_say_what_it_limits_still_has_clients(bench: MPSBench) -> None:
    holder = bench.mps.process()
    site = bench.site(holder)
    put = bench.rung.put(site)
    bench.start_cuda(holder, put)
    bench.mps.behave("garbage get_server_status")
    found = bench.look(site, put)[MEMORY]
    assert (found.verified, found.strength) == (Verified.READ_BACK, Strength.SOFT)
    assert "does not say what it limits" in found.note


def test_limits_that_the_server_does_not_take_are_told(bench: MPSBench) -> None:
    bench.mps.behave(
        "garbage set_default_device_pinned_mem_limit", "garbage get_default_device_pinned_mem_limit"
    )
    put = bench.rung.put(bench.site(bench.mps.process()))
    assert put.notices[0].startswith("The limits are only in the environment of the process")


@pytest.mark.slow
def test_a_put_that_fails_leaves_nothing(bench: MPSBench) -> None:
    bench.mps.behave("fail set_default_active_thread_percentage", "fail get_server_list")
    with pytest.raises(MPSError):
        bench.rung.put(bench.site(bench.mps.process()))
    assert bench.left() == []


class Lives:
    """Holders that come, start CUDA or not, are killed, and go, while daemons and agents die."""

    def __init__(self, bench: MPSBench, dice: random.Random) -> None:
        self.bench = bench
        self.dice = dice
        self.live: dict[str, tuple[FakeClient, Site]] = {}

    def begin(self, lease: str) -> None:
        """Let a lease begin, as far as the daemon lets it."""
        holder = self.bench.mps.process()
        site = self.bench.site(holder, lease=lease, milli=self.dice.choice([100, 250, 500]))
        self.live[lease] = (holder, site)
        try:
            put = self.bench.rung.put(site)
        except MPSError:  # its daemon was killed, and others still use it
            return
        if self.dice.random() < 0.7:
            self.bench.start_cuda(holder, put)
            self.bench.look(site, put)

    def disturb(self) -> None:
        """Kill a process of MPS, or the agent, now and then."""
        if self.dice.random() < 0.2 and (victims := self.bench.mps.processes()):
            os.kill(self.dice.choice(victims), signal.SIGKILL)
        if self.dice.random() < 0.2:
            self.bench.rung = self.bench.agent()

    def end(self, lease: str) -> None:
        """Let a lease end, with or without care."""
        holder, site = self.live.pop(lease)
        if self.dice.random() < 0.5:
            self.bench.rung.quiesce(site, self.bench.rung.intent(site), [holder.pid])
        holder.end()
        self.bench.rung.take_away(lease, self.bench.rung.intent(site))


@pytest.mark.slow
def test_fifty_random_lives_with_kills_leave_nothing(tmp_path: Path) -> None:
    dice = random.Random(4)
    with MPSBench(tmp_path) as bench:
        lives = Lives(bench, dice)
        for number in range(50):
            lives.begin(f"lease_{number}")
            lives.disturb()
            while len(lives.live) > dice.randrange(1, 4):
                lives.end(dice.choice(sorted(lives.live)))
        for lease in sorted(lives.live):
            lives.end(lease)
        bench.rung.tidy()
        assert bench.left() == []
