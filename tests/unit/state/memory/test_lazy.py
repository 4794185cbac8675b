"""Arrays that are mapped from files are their own: writing them reaches no file."""

from __future__ import annotations

import fcntl
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_gpupool.state.memory.lazy import Mapped
from tests.support.memory_trip import Trip, save

np = pytest.importorskip("numpy")


class Place(NamedTuple):
    """A stretch of a file."""

    path: str
    offset: int
    nbytes: int
    chunks: tuple[tuple[bytes, int], ...] = ()


class Pack:
    """Chunks of a trip in a file, each on a page; every third one apart from those before."""

    def __init__(self, trip: Trip, path: Path) -> None:
        self.path, self.places = path, dict[bytes, tuple[int, int]]()
        with path.open("wb") as file:
            for number, (one, content) in enumerate(trip.chunks.items()):
                start = -(-file.tell() // mmap.PAGESIZE) * mmap.PAGESIZE + (number % 3) * mmap.PAGESIZE
                file.seek(start)
                file.write(content)
                self.places[one] = start, len(content)

    def where(self, chunks: Sequence[bytes]) -> list[Place]:
        """Say where chunks lie."""
        return [Place(str(self.path), *self.places[one]) for one in chunks]


def test_large_arrays_are_mapped_and_private(tmp_path: Path) -> None:
    large = np.random.default_rng(0).standard_normal(2_000_000)
    saved = save(large=large, part=large[5:], small=np.arange(3))
    pack = Pack(saved, tmp_path / "pack")
    before = pack.path.read_bytes()
    back = saved.back(mapper=Mapped(pack.where))
    assert np.array_equal(back["large"], large)
    back["large"][:] = 1
    assert back["part"][0] == 1
    assert pack.path.read_bytes() == before


def test_a_mapped_file_is_held_until_nothing_looks_at_it(tmp_path: Path) -> None:
    saved = save(large=np.ones(2_000_000))
    pack = Pack(saved, tmp_path / "pack")
    back = saved.back(mapper=Mapped(pack.where))
    part = back.pop("large")[10:20]
    saved.loaded = None
    with pack.path.open("rb") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert part.sum() == 10
        del part
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_tensors_look_at_what_is_mapped(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    large = torch.arange(2_000_000)
    saved = save(large=large, part=large[7:])
    back = saved.back(mapper=Mapped(Pack(saved, tmp_path / "pack").where))
    back["large"][7] = -1
    assert back["part"][0] == -1
    assert torch.equal(back["large"][8:], large[8:])


def test_what_cannot_be_mapped_is_read() -> None:
    large = np.ones(2_000_000)
    saved = save(large=large)
    for where in (lambda chunks: None, lambda chunks: [Place("/nowhere/at/all", 0, large.nbytes)]):
        assert np.array_equal(saved.back(mapper=Mapped(where))["large"], large)


def test_what_is_moved_before_it_is_held_is_looked_for_again(tmp_path: Path) -> None:
    large = np.ones(2_000_000)
    saved = save(large=large)
    packs = [Pack(saved, tmp_path / name) for name in ("one", "other", "other")]
    asked = iter([packs[0].where, packs[1].where, packs[2].where])
    back = saved.back(mapper=Mapped(lambda chunks: next(asked)(chunks)))
    assert np.array_equal(back["large"], large)
