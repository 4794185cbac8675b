"""Where the hardware is the limit: MIG instances and whole GPUs, hard only behind closed device files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends.nvidia.cuda_started import has_started
from jupyter_gpupool.backends.nvidia.rungs.base import Rung, Site
from jupyter_gpupool.backends.nvidia.rungs.mig import MIGRung, WholeRung
from jupyter_gpupool.core.leases import Strength, Verified
from tests.support.fake_cuda import CUDAHolder
from tests.support.fake_gpus import FakeGPUs
from tests.support.gpu_bench import LEASE, GPUBench, mark, share

SOMEBODY = os.geteuid() + 12345


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[GPUBench]:
    """Return a node with an A100, and an H100 with MIG instances."""
    with FakeGPUs(tmp_path / "gpus").a100(1).h100_mig() as gpus:
        made = GPUBench(gpus)
        yield made
        made.close()


@pytest.fixture
def holder(bench: GPUBench) -> Iterator[CUDAHolder]:
    with bench.holder() as process:
        yield process


def machine(root: Path, holder: CUDAHolder, *nodes: str) -> Path:
    """Make a root directory in which the holder is somebody, and sees these device files."""
    proc = root / "proc" / str(holder.pid)
    for name in nodes:
        path = proc / "root/dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o666)
    ids = f"{SOMEBODY}\t{SOMEBODY}\t{SOMEBODY}\t{SOMEBODY}"
    (proc / "status").write_text(f"Name:\tpython\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t{SOMEBODY}\n")
    return root


def site(bench: GPUBench, holder: CUDAHolder, uuid: str) -> Site:
    gpu = bench.backend.gpu(uuid)
    order = share(uuid, 1000, gpu.memory_bytes)
    return Site(lease_id=LEASE, gpu=gpu, share=order, holder=mark(holder), uid=SOMEBODY, cuda_started=False)


OWN = ("nvidia1", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13")


@pytest.mark.parametrize(
    ("nodes", "strength", "note"),
    [
        (OWN, Strength.HARD, ""),
        ((*OWN, "nvidia0"), Strength.SOFT, "/dev/nvidia0 and /dev/nvidia1 are open to it"),
        ((*OWN, "nvidia-caps/nvidia-cap21"), Strength.SOFT, "other MIG instances' files"),
    ],
)
def test_a_mig_instance_is_hard_only_where_the_others_are_closed(
    bench: GPUBench,
    holder: CUDAHolder,
    tmp_path: Path,
    nodes: tuple[str, ...],
    strength: Strength,
    note: str,
) -> None:
    rung = MIGRung(bench.presence, machine(tmp_path, holder, *nodes))
    place = site(bench, holder, bench.gpus.uuid(1, 0))
    docs = rung.look(place, rung.put(place).record)
    assert {doc.strength for doc in docs} == {strength}
    assert all(note in doc.note for doc in docs)
    assert {doc.verified for doc in docs} == {Verified.PENDING}


@pytest.mark.parametrize("nodes", [("nvidia0",), ("nvidia0", "nvidiactl", "nvidia-uvm")])
def test_a_whole_gpu_is_hard_where_it_is_the_only_one(
    bench: GPUBench, holder: CUDAHolder, tmp_path: Path, nodes: tuple[str, ...]
) -> None:
    rung: Rung = WholeRung(bench.presence, machine(tmp_path, holder, *nodes))
    place = site(bench, holder, bench.gpus.uuid(0))
    holder.init(CUDA_VISIBLE_DEVICES=bench.gpus.uuid(0))
    bench.sampler.refresh()
    memory, compute = rung.look(place, rung.put(place).record)
    assert (memory.strength, memory.verified, memory.limit) == (Strength.HARD, Verified.READ_BACK, "80.0 GiB")
    assert compute.limit == "108 multiprocessors"


def test_only_mig_instances_are_mig_instances(bench: GPUBench) -> None:
    rung = MIGRung(bench.presence)
    assert rung.impossible(bench.backend.gpu(bench.gpus.uuid(0))) == "it is not a MIG instance"
    assert rung.impossible(bench.backend.gpu(bench.gpus.uuid(1, 1))) == ""


def test_a_started_cuda_is_seen_by_the_file_that_it_keeps_open(holder: CUDAHolder) -> None:
    assert not has_started(holder.pid)
    holder.init()
    assert has_started(holder.pid)
    assert not has_started(2**22 + 1)
