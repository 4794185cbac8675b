"""What keeping snapshots costs: saving and reading against the disk and the memory, lists, and collecting.

The limits are measured in the same run: copying memory, hashing, a synced write, a read from the page cache;
and pickle with protocol 5, which every save is compared with. The 10 GB that are collected are allocated on
the disk, but hold no data: collecting reads none.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import blake3
import msgspec
import numpy as np
import xxhash
from _common import HERE, Report, run_benchmark

sys.path.insert(0, str(HERE.parent))
from jupyter_gpupool.state.model import CHUNK_BYTES, Details, Manifest, Root
from jupyter_gpupool.state.store.formats import Codec, Entry, PackIndex, digest, seal_index, seal_manifest
from jupyter_gpupool.state.store.local import LocalFiles
from jupyter_gpupool.state.store.store import Store
from jupyter_gpupool.state.store.writing import Label
from tests.support.snapshot_stores import ENVIRONMENT, KEY, save

MB = 1_000_000
GB = 1_000_000_000
FIRST = "first save"


def measure(report: Report) -> None:
    """Measure everything, on the disk that /var/tmp is on."""
    size = 64 * MB if report.quick else 500 * MB
    times = 2 if report.quick else 5
    folder = Path(tempfile.mkdtemp(prefix="gpupool-bench-", dir="/var/tmp"))
    try:
        data = np.random.default_rng(0).random(size // 8)
        limits = _limits(report, folder, data, times)
        _save_and_read(report, folder, data, times, limits)
        _small(report, folder, times)
        _lists(report, folder, 100 if report.quick else 1000)
        _collect(report, folder, 100 if report.quick else 1000)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _best(work: Callable[[], object], times: int) -> float:
    return min(_seconds(work) for _ in range(times))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _median(work: Callable[[], object], times: int) -> float:
    return float(np.median([_seconds(work) for _ in range(times)]))


def _limits(report: Report, folder: Path, data: Any, times: int) -> dict[str, float]:
    view, target = memoryview(data).cast("B"), np.zeros_like(data)
    pieces = [view[at : at + CHUNK_BYTES] for at in range(0, len(view), CHUNK_BYTES)]
    path = folder / "limit"
    with ThreadPoolExecutor(2) as pool:
        found = {
            "copy memory": _best(lambda: np.copyto(target, data), times),
            "xxh3_128, 2 threads": _best(lambda: list(pool.map(xxhash.xxh3_128_digest, pieces)), times),
            "blake3, 2 threads": _best(lambda: list(pool.map(digest, pieces)), times),
            "blake3, 1 thread": _best(lambda: blake3.blake3(view).digest(), times),
            **_written(folder, data, times),
        }
        _pickle(path, data)
        found["read from the page cache"] = _best(lambda: _read(path, memoryview(target).cast("B")), times)
        found["pickle.load"] = _median(lambda: _unpickle(path), times)
    for name, seconds in found.items():
        if name != FIRST:
            report.add(f"limit: {name}, {len(view) // MB} MB", seconds * 1e3, "ms")
    path.unlink()
    return found


def _written(folder: Path, data: Any, times: int) -> dict[str, float]:
    """Write the same data in three ways turn by turn, so that what else the disk does hits all of them."""
    view, path = memoryview(data).cast("B"), folder / "written"
    taken: dict[str, list[float]] = {"write + fsync": [], "pickle 5 + fsync": [], FIRST: []}
    for _ in range(times):
        taken["write + fsync"].append(_seconds(lambda: _write(path, view)))
        path.unlink()
        taken["pickle 5 + fsync"].append(_seconds(lambda: _pickle(path, data)))
        path.unlink()
        taken[FIRST].append(_seconds(lambda: _save(_store(folder / "first"), view, "first")))
        shutil.rmtree(folder / "first")
    return {name: float(np.median(seconds)) for name, seconds in taken.items()}


def _write(path: Path, view: memoryview) -> None:
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(view), CHUNK_BYTES):
            file.write(view[at : at + CHUNK_BYTES])
        os.fsync(file.fileno())


def _read(path: Path, target: memoryview) -> None:
    with path.open("rb", buffering=0) as file:
        at = 0
        while n := file.readinto(target[at:]):
            at += n


def _pickle(path: Path, data: Any) -> None:
    with path.open("wb") as file:
        pickle.dump(data, file, 5)
        file.flush()
        os.fsync(file.fileno())


def _unpickle(path: Path) -> object:
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301 - ours


def _store(folder: Path) -> Store:
    return Store(LocalFiles(folder), owner="bench", keys=[KEY])


def _save(store: Store, buffer: memoryview, name: str) -> Manifest:
    with store.begin() as writer:
        root = Root(nbytes=len(buffer), chunks=writer.put(buffer))
        details = Details(variables=[], stream=[], roots=[root])
        return writer.commit(details, Label(name=name, environment=ENVIRONMENT, total_bytes=len(buffer)))


def _save_and_read(report: Report, folder: Path, data: Any, times: int, limits: dict[str, float]) -> None:
    view, size = memoryview(data).cast("B"), f"{data.nbytes // MB} MB"
    first = limits[FIRST]
    report.add(f"first save, {size}", first * 1e3, "ms")
    report.ratio("first save / pickle 5 + fsync", first, limits["pickle 5 + fsync"], "< 1.3")
    report.ratio("first save / write + fsync", first, limits["write + fsync"])
    store = _store(folder / "store")
    _save(store, view, "warm")
    unchanged = _median(lambda: _save(store, view, "again"), times)
    report.add(f"unchanged save, {size}", unchanged * 1e3, "ms", "< 100")
    report.ratio("unchanged save / xxh3 with 2 threads", unchanged, limits["xxh3_128, 2 threads"])
    before = _bytes_in(folder / "store")
    _save(store, view, "again")
    report.add("unchanged save: written", (_bytes_in(folder / "store") - before) / 1024, "KiB", "< 64")
    numbers = iter(range(10, 10_000, 7))

    def change() -> None:
        data[next(numbers)] += 1
        _save(store, view, "changed")

    before = _bytes_in(folder / "store")
    changed = _median(change, times)
    written = (_bytes_in(folder / "store") - before) / times
    report.add("one element changed: save", changed * 1e3, "ms", "< 150")
    report.add("one element changed: written", written / MB, "MB", "< 8")
    target = np.zeros_like(data)

    def read() -> None:
        with store.open("changed") as reader:
            reader.read_into(reader.details().roots[0].chunks, memoryview(target).cast("B"))

    seconds = _median(read, times)
    assert (target == data).all()
    report.add(f"read and verify, {size}", seconds * 1e3, "ms")
    report.ratio("read and verify / pickle.load", seconds, limits["pickle.load"], "< 1.2")
    report.ratio("read and verify / read from the page cache", seconds, limits["read from the page cache"])
    shutil.rmtree(folder / "store")


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _small(report: Report, folder: Path, times: int) -> None:
    store = _store(folder / "small")
    chance = random.Random(1)

    def two_thousand() -> None:
        with store.begin() as writer:
            chunks = [chunk for _ in range(2000) for chunk in writer.put(chance.randbytes(40))]
            details = Details(variables=[], stream=[], roots=[Root(nbytes=80_000, chunks=chunks)])
            writer.commit(details, Label(name="small", environment=ENVIRONMENT))

    report.add("2,000 small chunks, saved", _median(two_thousand, times) * 1e3, "ms", "< 50")


def _lists(report: Report, folder: Path, count: int) -> None:
    place = folder / "list"
    first = save(_store(place), name="0")
    for number in range(1, count):
        made = msgspec.structs.replace(first, id=_later(first.id, number), name=f"snapshot {number}")
        (place / "snapshots" / f"{made.id}.snapshot").write_bytes(seal_manifest(made, KEY))
    shutil.rmtree(place / "cache", ignore_errors=True)
    cold = _seconds(lambda: _store(place).list())
    report.add(f"list of {count:,}, first of all processes", cold * 1e3, "ms")
    listed = _median(lambda: _store(place).list(), 5)
    report.add(f"list of {count:,}, new process", listed * 1e3, "ms", "< 50")
    store = _store(place)
    store.list()
    report.add(f"list of {count:,}, again", _median(store.list, 5) * 1e3, "ms", "< 50")


def _later(snapshot: str, number: int) -> str:
    return f"{int(snapshot[:12], 16) + number:012x}{number:010x}"


def _collect(report: Report, folder: Path, count: int) -> None:
    """Collect after half of the snapshots of a 10 GB state were forgotten; each has a chunk of its own."""
    place = folder / "gc"
    store = _store(place)
    shared = _pack(place, f"{1:022x}", 10 * GB // CHUNK_BYTES)
    own = _pack(place, f"{2:022x}", count)
    for number in range(count):
        with store.begin() as writer:
            chunks = [*shared[: len(shared) // 2 + number % 7], own[number]]
            details = Details(variables=[], stream=[], roots=[Root(nbytes=10 * GB, chunks=chunks)])
            writer.commit(details, Label(name=str(number), environment=ENVIRONMENT))
    for number in range(0, count, 2):
        store.forget(str(number))
    used = store.usage().used_bytes
    fresh = _store(place)
    os.sync()  # what was written before is on the disk: collecting does not wait for it
    start = time.perf_counter()
    collected = fresh.gc()
    seconds = time.perf_counter() - start
    assert collected.reason == "", collected.reason
    assert collected.freed_bytes > 4 * GB, collected
    report.add(f"gc of {used / GB:.1f} GB, {count:,} snapshots, half forgotten", seconds, "s")
    report.add("gc, for each 10 GB", seconds / (used / (10 * GB)), "s", "< 1")
    report.add("gc: given back", collected.freed_bytes / GB, "GB")
    report.add("gc with nothing to do", _median(fresh.gc, 3), "s")


def _pack(place: Path, pack: str, count: int) -> list[bytes]:
    """Put a pack of allocated, but empty, chunks into a store; return their ids."""
    packs = place / "packs"
    packs.mkdir(parents=True, exist_ok=True)
    chance = random.Random(pack)
    entries = [
        Entry(chance.randbytes(32), 4096 + number * CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, Codec.RAW)
        for number in range(count)
    ]
    length = 4096 + count * CHUNK_BYTES
    with (packs / f"{pack}.pack").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, length)
    (packs / f"{pack}-0.index").write_bytes(seal_index(PackIndex(length, entries)))
    return [entry.id for entry in entries]


if __name__ == "__main__":
    sys.exit(run_benchmark("What keeping snapshots costs", measure))
