"""Memory of other devices goes through the host in pieces, and to the CPU where its device is not there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.memory import devices
from jupyter_gpupool.state.memory.pointers import bytes_at
from jupyter_gpupool.state.memory.roots import RootTable
from jupyter_gpupool.state.memory.tensors import make_generator
from jupyter_gpupool.state.model import CHUNK_BYTES, FindingKind, Root, RootKind
from tests.support.memory_trip import Trip, save

torch: Any = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[4]
#: A device that no machine has.
ELSEWHERE = "xpu:7"


def moved_away(trip: Trip) -> Trip:
    """Say of a trip that its memory was on a device that is not here."""
    roots = trip.details.roots
    roots[:] = [Root(nbytes=one.nbytes, chunks=one.chunks, kind=one.kind, device=ELSEWHERE) for one in roots]
    return trip


def test_a_devices_memory_is_fetched_in_pieces_through_one_buffer() -> None:
    content = torch.arange(3 * CHUNK_BYTES // 8 + 5)
    storage = content.untyped_storage()
    table = RootTable()
    table.region(
        storage.data_ptr(),
        storage.nbytes(),
        storage,
        kind=RootKind.TORCH,
        device="cuda:0",
        fetch=devices.fetcher(storage),
    )
    (memory,), _ = table.merge()
    pieces = []
    for piece in memory.chunks():
        assert len(piece) <= CHUNK_BYTES
        pieces.append(bytes(piece))
    assert len(pieces) == 4
    assert b"".join(pieces) == bytes(content.numpy())


def test_a_devices_memory_is_put_there_in_pieces() -> None:
    content = bytes(range(256)) * (CHUNK_BYTES // 128 + 3)
    cut = {bytes([n]): content[n * CHUNK_BYTES : (n + 1) * CHUNK_BYTES] for n in range(3)}
    longest = 0

    def read(chunks: list[bytes], target: memoryview) -> None:
        nonlocal longest
        longest = max(longest, len(target))
        target[:] = cut[chunks[0]]

    root = Root(nbytes=len(content), chunks=list(cut), kind=RootKind.TORCH, device="cuda:0")
    made = devices.upload(root, "cpu", read)
    assert bytes_at(made.data_ptr(), len(content)) == content
    assert longest == CHUNK_BYTES


def test_tensors_of_a_device_that_is_not_there_go_to_the_cpu_and_say_so() -> None:
    weight = torch.nn.Parameter(torch.ones(5000))
    weight.grad = torch.zeros(5000)
    saved = moved_away(save(weight=weight, part=weight.data[3:]))
    back = saved.back()
    assert back["weight"].device.type == "cpu"
    back["weight"].data[3] = 9
    assert back["part"][0] == 9
    assert saved.loaded is not None
    assert {kind for kind, _ in saved.loaded.notes} == {FindingKind.CHANGED}
    assert all(f"it was on {ELSEWHERE}, and is on cpu now" in reason for _, reason in saved.loaded.notes)


def test_a_person_says_where_a_devices_memory_goes() -> None:
    asked = []

    def place(device: str) -> str:
        asked.append(device)
        return "cpu"

    saved = moved_away(save(tensor=torch.ones(5000), host=3))
    assert saved.back(place=place)["tensor"].sum() == 5000
    assert asked == [ELSEWHERE]


def test_streams_of_random_numbers_of_a_device_that_is_not_there_are_lost() -> None:
    saved = save(nothing=0)
    saved.back()
    assert saved.loaded is not None
    token = loading.LOADING.set(saved.loaded)  # type: ignore[arg-type]
    try:
        make_generator(ELSEWHERE, torch.Generator().get_state())
    finally:
        loading.LOADING.reset(token)
    assert "is not there" in saved.loaded.losses[0].reason


def test_a_device_is_there_only_with_that_number() -> None:
    assert devices.is_there("cpu")
    assert devices.is_there("meta")
    assert not devices.is_there(ELSEWHERE)
    assert not devices.is_there("nosuchdevice:0")
    assert devices.is_there(f"cuda:{torch.cuda.device_count()}") is False


@pytest.mark.slow  # compiles a device for torch
@pytest.mark.timeout(300)
def test_tensors_of_another_device_come_back_there(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    source, library = ROOT / "tests" / "support" / "standin" / "standin.cpp", tmp_path / "standin.so"
    home = Path(torch.__file__).parent
    folders = [f"-I{home / 'include'}", f"-L{home / 'lib'}"]
    linked = ["-lc10", "-ltorch_cpu", "-ltorch", "-o", str(library)]
    built = [compiler, "-O0", "-std=c++20", "-fPIC", "-shared", *folders, str(source), *linked]
    subprocess.run(built, check=True, timeout=250)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.standin_process", str(library)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
