"""Buffers of the standard library are looked at again by whoever looked at them."""

from __future__ import annotations

import array as arrays
import ctypes
import mmap
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.state.model import FindingKind
from tests.support.memory_trip import save, trip


def test_a_memoryview_looks_at_its_owner() -> None:
    owner = bytearray(range(200))
    view = memoryview(owner)
    back = trip(owner=owner, view=view, part=view[10:20], turned=view[::-3], frozen=view.toreadonly())
    back["owner"][11] = 0
    assert back["part"][1] == 0
    assert back["part"].obj is back["owner"]
    assert back["turned"].tolist() == list(back["owner"][::-3])
    assert back["frozen"].readonly
    back["part"][0] = 77
    assert back["owner"][10] == back["frozen"][10] == 77


def test_a_memoryview_keeps_its_format_and_shape() -> None:
    owner = bytearray(96)
    square = memoryview(owner).cast("d", (3, 4))
    numbers = memoryview(owner)[8:40].cast("i")
    back = trip(owner=owner, square=square, numbers=numbers, few=numbers[1:6:2])
    assert (back["square"].format, back["square"].shape) == ("d", (3, 4))
    back["numbers"][3] = 5
    assert back["few"].tolist() == [0, 5, 0]
    assert back["owner"][20] == 5


def test_a_released_memoryview_is_released_again() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released"):
        trip(view=view)["view"][0]


@pytest.mark.parametrize("count", [3, 3000])
def test_arrays_of_the_standard_library_share_with_numpy(count: int) -> None:
    np = pytest.importorskip("numpy")
    owner = arrays.array("d", range(count))
    back = trip(owner=owner, view=memoryview(owner)[1:], array=np.frombuffer(owner))
    assert back["owner"] == owner
    back["owner"][1] = -1
    assert back["view"][0] == back["array"][1] == -1


class Point(ctypes.Structure):
    """A point."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_double * 500))


def test_objects_of_ctypes_share_their_memory() -> None:
    np = pytest.importorskip("numpy")
    point = Point(3)
    numbers = (ctypes.c_int * 5)(1, 2, 3)
    buffer = bytearray(80)
    inside = (ctypes.c_int * 4).from_buffer(buffer, 8)
    back = trip(
        point=point,
        y=point.y,
        numbers=numbers,
        array=np.frombuffer(numbers, "i4"),
        buffer=buffer,
        inside=inside,
    )
    assert back["point"].x == 3
    back["point"].y[2] = 2.5
    assert back["y"][2] == 2.5
    back["numbers"][0] = 9
    assert back["array"].tolist() == [9, 2, 3, 0, 0]
    back["inside"][0] = 1
    assert back["buffer"][8] == 1


def mapped(path: Path, **how: Any) -> mmap.mmap:
    """Map a file of two pages."""
    path.write_bytes(bytes(range(256)) * 32)
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0, **how)


def test_a_mapped_file_is_mapped_again(tmp_path: Path) -> None:
    there = mapped(tmp_path / "data")
    there.seek(7)
    there[0] = 99
    back = trip(there=there, view=memoryview(there)[:4])
    assert back["there"].tell() == 7
    back["there"][1] = 98
    back["there"].flush()
    assert (tmp_path / "data").read_bytes()[:2] == bytes([99, 98])
    assert there[1] == back["view"][1] == 98


def test_a_private_map_keeps_what_was_written_into_it(tmp_path: Path) -> None:
    there = mapped(tmp_path / "data", access=mmap.ACCESS_COPY)
    there[5000] = 1
    back = trip(there=there)["there"]
    assert back[5000] == 1
    assert (tmp_path / "data").read_bytes()[5000] == 5000 % 256


def test_a_mapped_file_that_is_gone_is_said(tmp_path: Path) -> None:
    saved = save(there=mapped(tmp_path / "data"))
    (tmp_path / "data").unlink()
    saved.back()
    assert saved.loaded is not None
    assert "is not there" in saved.loaded.losses[0].reason


def test_a_mapped_file_that_was_written_since_is_said(tmp_path: Path) -> None:
    saved = save(there=mapped(tmp_path / "data"))
    (tmp_path / "data").write_bytes(bytes(9000))
    saved.back()
    assert saved.loaded is not None
    assert [kind for kind, _ in saved.loaded.notes] == [FindingKind.CHANGED]


def test_memory_without_a_file_comes_back_and_closed_maps_stay_closed(tmp_path: Path) -> None:
    memory, closed = mmap.mmap(-1, 5000), mapped(tmp_path / "data")
    memory[4000] = 5
    closed.close()
    back = trip(memory=memory, view=memoryview(memory)[4000:], closed=closed)
    assert back["view"][0] == 5
    back["memory"][4000] = 6
    assert back["view"][0] == 6
    assert back["closed"].closed


def test_a_memmap_is_one_of_the_same_file(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    there = np.memmap(tmp_path / "mm", dtype="f4", mode="w+", shape=(2000,), offset=16)
    there[:] = 1
    back = trip(there=there, part=there[5:10])
    assert type(back["there"]) is np.memmap
    assert back["there"].offset == 16
    back["part"][0] = 5
    back["there"].flush()
    assert np.fromfile(tmp_path / "mm", "f4", offset=16)[5] == 5
