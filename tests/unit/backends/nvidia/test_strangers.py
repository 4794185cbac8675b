"""Use of a device without a lease: who it is, what it takes, and what is done about it."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.processes import GPUProcess
from jupyter_gpupool.backends.nvidia.unmanaged import KILL_SECONDS, Strangers, Unmanaged
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import Action, NodeRules
from tests.support.gpu_bench import GIB, Clock
from tests.support.pool_process import wait_for

A100 = GPU(
    uuid="GPU-1",
    name="cuda0",
    model="NVIDIA A100-SXM4-80GB",
    memory_bytes=80 * GIB,
    multiprocessors=108,
    pci_bus_id="00000000:3B:00.0",
    driver="615.71",
)


class World:
    """What is on the device, what time it is, and which signals were sent."""

    def __init__(self, action: Action, *, send: bool = False) -> None:
        self.clock = Clock()
        self.sent: list[tuple[int, int]] = []
        rules = NodeRules(unmanaged=action, grace_seconds=10.0)
        sender = self._send if send else None
        self.strangers = Strangers(rules, ProcFS(), self.clock, sender)

    def look(
        self, *found: GPUProcess, ours: Sequence[int] = (), leased: bool = False, seconds: float = 0.0
    ) -> Unmanaged:
        self.clock.now += seconds
        return self.strangers.look(A100, found, ours, leased=leased)

    def _send(self, mark: ProcessMark, number: int) -> bool:
        self.sent.append((mark.pid, number))
        return True


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that does not end when it is asked to."""
    script = tmp_path / "train.py"
    script.write_text(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\nsignal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-I", str(script)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate(timeout=10)


def test_they_are_named_with_what_they_take(stranger: subprocess.Popen[bytes]) -> None:
    found = World(Action.SHOW).look(
        GPUProcess(pid=stranger.pid, memory_bytes=3 * GIB),
        GPUProcess(pid=os.getpid(), memory_bytes=GIB),
        ours=[os.getpid()],
    )
    [doc] = found.processes
    assert (doc.pid, doc.memory_bytes, found.memory_bytes) == (stranger.pid, 3 * GIB, 3 * GIB)
    assert doc.user == pwd.getpwuid(os.geteuid()).pw_name
    assert doc.name.endswith("train.py")


def test_what_the_driver_does_not_say_is_unknown_and_not_nothing() -> None:
    pid = os.getppid()
    assert World(Action.SHOW).look(GPUProcess(pid=pid, memory_bytes=None)).memory_bytes is None
    assert World(Action.SHOW).look().memory_bytes == 0


def test_a_process_of_another_pid_namespace_may_be_a_leases_where_there_are_leases() -> None:
    hidden = GPUProcess(pid=4711, memory_bytes=GIB, visible=False)
    world = World(Action.END, send=True)
    assert world.look(hidden).memory_bytes == GIB
    found = world.look(hidden, leased=True, seconds=100)
    assert found.memory_bytes is None
    assert found.processes[0].name == "a process of another PID namespace"
    assert world.sent == []


@pytest.mark.parametrize("action", [Action.SHOW, Action.WARN])
def test_who_only_looks_signals_nobody(action: Action, caplog: pytest.LogCaptureFixture) -> None:
    world = World(action, send=True)
    for _ in range(3):
        world.look(GPUProcess(pid=os.getppid(), memory_bytes=GIB), seconds=20)
    assert world.sent == []
    told = [record for record in caplog.records if "uses cuda0 without a lease" in record.message]
    assert len(told) == (1 if action is Action.WARN else 0)


def test_after_a_grace_it_is_asked_to_end_and_then_killed(stranger: subprocess.Popen[bytes]) -> None:
    world, process = World(Action.END), GPUProcess(pid=stranger.pid, memory_bytes=GIB)
    world.look(process)
    world.look(process, seconds=9)
    world.look(process, seconds=2)  # asked, and it does not listen
    world.look(process, seconds=KILL_SECONDS - 1)
    assert stranger.poll() is None
    world.look(process, seconds=2)
    assert stranger.wait(10) == -signal.SIGKILL


def test_who_went_away_in_between_has_the_whole_grace_again() -> None:
    world, process = World(Action.END, send=True), GPUProcess(pid=os.getppid(), memory_bytes=GIB)
    world.look(process)
    world.look(seconds=8)
    world.look(process, seconds=8)
    world.look(process, seconds=8)
    assert world.sent == []
    world.look(process, seconds=8)
    assert world.sent == [(os.getppid(), signal.SIGTERM)]


def test_what_draws_the_screen_is_never_ended() -> None:
    world = World(Action.END, send=True)
    for _ in range(3):
        world.look(GPUProcess(pid=os.getppid(), memory_bytes=GIB, graphics=True), seconds=20)
    assert world.sent == []


def test_mps_itself_is_no_stranger_but_what_it_takes_is_not_free(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-cuda-mps-server"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "300"])
    try:
        wait_for(lambda: ProcFS().command(process.pid) or None, "its name")
        world = World(Action.END, send=True)
        found = world.look(GPUProcess(pid=process.pid, memory_bytes=GIB), seconds=20)
        world.look(GPUProcess(pid=process.pid, memory_bytes=GIB), seconds=20)
        assert (found.processes, found.memory_bytes, world.sent) == ((), GIB, [])
    finally:
        process.kill()
        process.wait(10)
