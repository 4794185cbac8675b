"""Probes run in the background, on idle devices, and make room at once for a holder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_gpupool.backends import cpu_probe
from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.hand import Hand, HandFailed
from jupyter_gpupool.backends.nvidia.probe import judge_multiprocessors
from jupyter_gpupool.backends.nvidia.prober import Prober
from jupyter_gpupool.backends.nvidia.rungs.base import RungName
from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook
from jupyter_gpupool.backends.proving import CPUProver, Note, Proving
from jupyter_gpupool.core.leases import Resource
from tests.support.fake_gpus import FakeGPUs
from tests.support.gpu_bench import GPUBench
from tests.support.waiting import until


def proving(job: Callable[[str, Note], bool]) -> Proving:
    return Proving(job, delay_seconds=0.0, retry_seconds=0.01)


@pytest.mark.asyncio
async def test_each_device_is_probed_once() -> None:
    done: list[str] = []

    def job(device_id: str, note: Note) -> bool:
        done.append(device_id)
        return True

    prover = proving(job)
    prover.prove(["one", "two"])
    prover.prove(["two"])
    await until(prover.idle, what="all are probed")
    assert sorted(done) == ["one", "two"]
    prover.close()


@pytest.mark.asyncio
async def test_a_busy_device_is_looked_at_again_until_it_is_idle() -> None:
    looks: list[str] = []

    def job(device_id: str, note: Note) -> bool:
        looks.append(device_id)
        return len(looks) == 4

    prover = proving(job)
    prover.prove(["one"])
    await until(prover.idle, what="it was idle at last")
    assert len(looks) == 4
    prover.close()


@pytest.mark.asyncio
async def test_a_busy_device_keeps_no_other_waiting() -> None:
    done: list[str] = []

    def job(device_id: str, note: Note) -> bool:
        if device_id == "busy":
            return False
        done.append(device_id)
        return True

    prover = Proving(job, delay_seconds=0.0, retry_seconds=600.0)
    prover.prove(["busy", "one", "two"])
    await until(lambda: done == ["one", "two"], what="the others are probed")
    prover.close()


@pytest.mark.asyncio
async def test_a_probe_that_breaks_off_is_tried_three_times() -> None:
    tries: list[str] = []

    def job(device_id: str, note: Note) -> bool:
        tries.append(device_id)
        raise BackendError("It broke off.")

    prover = proving(job)
    prover.prove(["one"])
    await until(prover.idle, what="it was given up")
    assert len(tries) == 3
    prover.close()


@pytest.mark.asyncio
async def test_a_holder_that_comes_has_the_device_at_once_and_the_probe_comes_again() -> None:
    held, broken = threading.Event(), []

    def job(device_id: str, note: Note) -> bool:
        if broken:
            return True
        hand = cpu_probe.start_child(note)
        held.set()
        try:
            hand.ask("spin", processes=1, seconds=60.0, within_seconds=60.0)
        except HandFailed as error:
            broken.append(error)
            hand.close()
            raise
        return True

    prover = proving(job)
    prover.prove(["one"])
    await until(held.is_set, what="the probe runs")
    assert len(prover.pids()) == 1
    prover.make_room("another")
    assert prover.pids()
    prover.make_room("one")
    assert not prover.pids()
    await until(prover.idle, what="the probe was made afterwards")
    assert broken
    prover.close()


def test_a_child_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    with pytest.raises(HandFailed, match=r"within 0\.1 s"), cpu_probe.start_child() as hand:
        hand.ask("spin", processes=1, seconds=60.0, within_seconds=0.1)
    assert not hand.alive()


def test_a_child_that_ends_is_told() -> None:
    hand = Hand("-c", "raise SystemExit(3)")
    with pytest.raises(HandFailed, match="has ended"):
        hand.ask("ready")
    hand.close()


@pytest.mark.asyncio
async def test_the_limits_of_this_cpu_are_probed_and_kept(tmp_path: Path) -> None:
    backend = CPUBackend()
    (device,) = backend.discover()
    book = ProbeBook(tmp_path / PROBES_FILE)
    prover = CPUProver(book, CPUBackend, lambda: False, delay_seconds=0.0)
    prover.proving.prove([device.id])
    await until(prover.proving.idle, what="the CPU is probed")
    with cpu_probe.start_child() as hand:
        made = backend.attach("lease_0192f0c1", cpu_probe.order(device), hand.mark)
        (memory,) = [each for each in made.isolation if each.resource is Resource.MEMORY]
        backend.detach(made)
    found = book.result(device.id, cpu_probe.kernel_release(), memory.mechanism)
    assert found is not None
    assert found.proves(Resource.MEMORY)
    assert "refused" in found.detail
    prover.proving.close()


@pytest.mark.asyncio
async def test_a_mig_instance_is_probed_in_the_background_when_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ProbeBook(tmp_path / PROBES_FILE)
    busy = ["somebody has it"]
    with FakeGPUs(tmp_path / "gpus").h100_mig("1g.10gb") as gpus:
        monkeypatch.setenv("LD_LIBRARY_PATH", gpus.environment()["LD_LIBRARY_PATH"])
        bench = GPUBench(gpus)
        prober = Prober(
            book,
            list(bench.backend.rungs.values()),
            gpu=bench.backend.gpu,
            busy=lambda _uuid: busy[0],
            folder=tmp_path,
            delay_seconds=0.0,
            retry_seconds=0.01,
        )
        instance = gpus.uuid(0, 0)
        prober.prove([instance])
        busy[0] = ""
        await until(prober.idle, what="the instance is probed")
        prober.close()
        bench.backend.close()
    found = book.result(instance, "615.71", RungName.MIG.value)
    assert found is not None
    assert (found.proved, found.failed) == ((Resource.MEMORY, Resource.COMPUTE), {})
    assert "on 16 of 16 multiprocessors" in found.detail
    assert not (tmp_path / "probe-open.json").exists()


@pytest.mark.parametrize(
    ("seen", "promised", "whole", "held"),
    [
        (54, 54, 108, True),
        (53, 53, 108, True),
        (55, 55, 108, False),
        (108, 108, 108, False),
        (67, 66, 133, True),
        (60, 54, 108, None),
        (0, 54, 108, None),
        (54, 54, 0, None),
    ],
)
def test_multiprocessors_are_compared_with_the_share_rounded_up(
    seen: int, promised: int, whole: int, held: bool | None
) -> None:
    assert judge_multiprocessors(seen, promised, whole, 500).held is held
