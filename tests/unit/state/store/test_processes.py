"""Several processes with one store, and processes that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.state.errors import StoreFull
from tests.support.snapshot_stores import load, local_store, save

ROOT = Path(__file__).resolve().parents[4]


def script(name: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.support.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_hundred_kills_at_any_moment_lose_nothing_that_was_committed(tmp_path: Path) -> None:
    out, err = script("snapshot_kills", tmp_path, 200).communicate(timeout=350)
    assert "200 kills" in out, err
    assert int(out.split()[2]) > 20, "hardly any save was committed before its process was killed"


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_several_processes_save_read_forget_and_collect_at_once(tmp_path: Path) -> None:
    running = [script("snapshot_crowd", tmp_path, name, 25) for name in ("ann", "bob", "cy", "dee")]
    done = [process.communicate(timeout=150) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0], [err for _, err in done]
    store = local_store(tmp_path)
    left = {name for out, _ in done for name in out.split()}
    assert {manifest.name for manifest in store.list()} == left
    assert store.verify() == []
    assert store.gc().reason == ""
    assert store.verify() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 6 MB, where that is allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_has_room_again_when_something_is_forgotten(small_disk: Path) -> None:
    store, data = local_store(small_disk / "store"), [os.urandom(2_000_000) for _ in range(3)]
    save(store, b"1", data[0], name="one")
    save(store, b"2", data[1], name="two")
    for _ in range(3):
        with pytest.raises(StoreFull, match="no room"):
            save(store, b"3", data[2], os.urandom(1_000_000), name="three")
    assert load(store, "one")[1] == data[:1]
    assert store.verify() == []
    store.forget("one")
    store.gc()
    save(store, b"3", data[2], name="three")
    assert load(store, "two")[1] == data[1:2]
    assert load(local_store(small_disk / "store"), "three")[1] == data[2:]
