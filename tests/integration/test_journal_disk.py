"""A real service whose journal cannot be written or trusted: clear errors, no grant that is not written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names, paths
from tests.support.pool_process import PoolProcess, running_pool, wait_for

EMULATE = "2xA100-80GB"


def serve() -> subprocess.CompletedProcess[str]:
    """Run ``serve`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", "serve", "--emulate", EMULATE],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def journal_path() -> Path:
    """Path of the journal of a service with emulated devices."""
    return paths.data_dir() / "emulated" / "journal.sqlite3"


def states() -> dict[str, str]:
    """Return what the journal says of each lease."""
    database = sqlite3.connect(journal_path())
    try:
        return dict(database.execute("SELECT id, state FROM leases"))
    finally:
        database.close()


@pytest.fixture
def small_disk(pool_environment: dict[str, str]) -> Iterator[Path]:
    """Mount a filesystem of 2 MiB as the data directory."""
    data = Path(os.environ[names.ENV_DATA_DIR])
    data.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "none", str(data)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small filesystem cannot be mounted here: {mounted.stderr.strip()}")
    yield data
    subprocess.run(["umount", "-l", str(data)], check=True)


def fill(disk: Path) -> Path:
    """Write until nothing more can be written."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            return filler


def test_on_a_full_disk_nothing_is_granted_and_ends_still_happen(small_disk: Path) -> None:
    with running_pool(emulate=EMULATE) as pool:
        held = [pool.request(10)["id"] for _ in range(3)]
        filler = fill(small_disk)
        answers = [
            pool.ask("POST", "/api/v1/leases", {"compute_milli": 10, "device": "x" * 150}) for _ in range(2)
        ]
        answer = wait_for(lambda: _refused(pool), "the journal to be full")
        assert answer.headers["Retry-After"]
        assert str(journal_path()) in answer.body["message"] or "journal" in answer.body["message"]
        assert all(it.status in (422, 503) for it in answers)
        granted = {lease["id"] for lease in pool.get("/api/v1/leases").body}
        assert granted == states().keys()
        assert pool.get("/health").body["status"] == "journal_unavailable"
        warnings = pool.get("/api/v1/pool").body["warnings"]
        assert any("Nothing is granted" in warning and str(journal_path()) in warning for warning in warnings)

        assert pool.release(held[0])["state"] == "ended"
        assert states()[held[0]] == "attaching"

        filler.unlink()
        wait_for(lambda: pool.get("/health").body["status"] == "ok", "the journal to be written again")
        wait_for(lambda: states()[held[0]] == "ended", "the end to be written down")
        lease = wait_for(lambda: _granted(pool), "a grant")
        assert states()[lease] == "attaching"


def _refused(pool: PoolProcess) -> object:
    answer = pool.ask("POST", "/api/v1/leases", {"compute_milli": 1})
    assert answer.status in (201, 503), answer
    return answer if answer.status == 503 else None


def _granted(pool: PoolProcess) -> str | None:
    answer = pool.ask("POST", "/api/v1/leases", {"compute_milli": 1})
    return answer.body["id"] if answer.status == 201 else None


@pytest.mark.slow
def test_a_service_that_is_killed_on_a_full_disk_finds_what_was_written(small_disk: Path) -> None:
    with running_pool(emulate=EMULATE) as pool:
        kept, ended = pool.request(10)["id"], pool.request(10)["id"]
        filler = fill(small_disk)
        wait_for(lambda: _refused(pool), "the journal to be full")
        pool.release(ended)
        pool.kill()
        filler.unlink()
        pool.restart()
        assert pool.lease(kept)["state"] == "attaching"
        assert pool.lease(ended)["state"] in ("attaching", "ending", "ended")  # its end was not written down
        assert pool.release(ended)["state"] == "ended"


def test_a_full_disk_at_the_start_is_a_sentence(small_disk: Path) -> None:
    fill(small_disk)
    done = serve()
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_read_only_disk_is_a_sentence(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = serve()
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert str(small_disk) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_disk_that_becomes_read_only_between_two_services_is_a_sentence(small_disk: Path) -> None:
    with running_pool(emulate=EMULATE) as pool:
        pool.request(10)
        pool.stop()
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        done = serve()
        assert done.returncode == 1
        assert str(journal_path()) in done.stderr
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        pool.restart()
        assert len(pool.get("/api/v1/leases").body) == 1


@pytest.mark.slow
def test_a_damaged_journal_is_refused_with_its_path_and_what_to_do(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        lease = pool.request(10)["id"]
        pool.stop()
        path = journal_path()
        good = path.read_bytes()
        path.write_bytes(b"not a database any more" * 500)
        done = serve()
        assert done.returncode == 1
        for text in (str(path), "damaged", "backup", "aside"):
            assert text in done.stderr
        assert path.read_bytes().startswith(b"not a database any more")
        path.write_bytes(good)
        pool.restart()
        assert pool.lease(lease)["state"] == "attaching"


@pytest.mark.slow
def test_two_pools_cannot_share_one_journal(pool_environment: dict[str, str], tmp_path: Path) -> None:
    with running_pool(emulate=EMULATE):
        environment = {**os.environ, names.ENV_RUNTIME_DIR: str(tmp_path / "other-run")}
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_gpupool", "serve", "--emulate", EMULATE],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 1
        assert "Another pool service uses the journal" in done.stderr


def test_real_and_emulated_devices_have_journals_of_their_own(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        pool.request(10)
    assert journal_path().exists()
    assert not (paths.data_dir() / "journal.sqlite3").exists()
