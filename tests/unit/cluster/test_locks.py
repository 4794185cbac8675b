"""Machine-wide device locks, and how they say who has them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.locks import DeviceLocks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="device locks exist on Linux")

_OTHER = """
import fcntl, os, sys
path, uid = sys.argv[1], int(sys.argv[2])
if uid:
    os.setgroups([])
    os.setuid(uid)
handle = os.open(path, os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def _locked_elsewhere(path: Path, uid: int = 0) -> Iterator[int]:
    """Have another process, of another user if one is given, lock a file."""
    other = subprocess.Popen(
        [sys.executable, "-I", "-c", _OTHER, os.fspath(path), str(uid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"locked\n"
        yield other.pid
    finally:
        other.stdin.close()
        other.wait(10)
        other.stdout.close()


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a place that other users may enter."""
    base = Path(tempfile.mkdtemp(prefix="jgp-test-"))
    base.chmod(0o755)
    yield base / "lock"
    shutil.rmtree(base)


def _take_and_leave(directory: Path, device_id: str) -> Path:
    locks = DeviceLocks(directory)
    assert locks.take(device_id) == ""
    locks.close()
    return directory / f"{device_id}.lock"


def test_a_free_device_is_taken_for_good(shared: Path) -> None:
    locks = DeviceLocks(shared)
    assert locks.take("CPU-1") == ""
    assert locks.take("CPU-1") == ""
    assert DeviceLocks(shared).take("CPU-1") != ""
    locks.close()
    again = DeviceLocks(shared)
    assert again.take("CPU-1") == ""
    again.close()


def test_every_user_can_lock_the_file_whatever_the_umask(shared: Path) -> None:
    before = os.umask(0o077)
    try:
        path = _take_and_leave(shared, "CPU-1")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_the_pool_that_has_a_device_is_named_by_user_and_process(shared: Path) -> None:
    path = _take_and_leave(shared, "CPU-1")
    with _locked_elsewhere(path) as pid:
        me = DeviceLocks(shared).take("CPU-1")
        assert me.endswith(f"'s pool (pid {pid})")


@pytest.mark.skipif("os.geteuid() != 0", reason="needs root to become another user")
def test_the_pool_of_another_user_is_named(shared: Path) -> None:
    path = _take_and_leave(shared, "GPU-1")
    with _locked_elsewhere(path, uid=65534) as pid:
        assert DeviceLocks(shared).take("GPU-1") == f"nobody's pool (pid {pid})"
    locks = DeviceLocks(shared)
    assert locks.take("GPU-1") == "", "it is free again when that pool ended"
    locks.close()


def test_a_lock_that_cannot_be_opened_counts_as_taken_and_says_why(shared: Path) -> None:
    shared.mkdir()
    (shared / "GPU-1.lock").symlink_to("/etc/passwd")
    assert "cannot be opened" in DeviceLocks(shared).take("GPU-1")
    (shared.parent / "link").symlink_to(shared)
    assert "not a plain directory" in DeviceLocks(shared.parent / "link").take("GPU-2")


def test_an_id_never_leaves_the_directory(shared: Path) -> None:
    locks = DeviceLocks(shared)
    assert locks.take("../../etc/GPU") == ""
    assert [path.parent for path in shared.iterdir()] == [shared]
    locks.close()
