"""A journal is played again, and nothing of it is touched."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.journal import Journal, JournalCorrupt, JournalTooNew, JournalUnavailable
from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.sim.compare import parse_policy, play
from jupyter_gpupool.sim.journal_load import journal_workload
from jupyter_gpupool.sim.pools import parse_pool
from jupyter_gpupool.testing import PoolDriver, a_device


def _write(path: Path) -> Journal:
    """Write a journal: two leases that ended, one that was cancelled, one that is held."""
    driver = PoolDriver([a_device("cuda0")])
    journal = Journal.open(path)
    driver.advance(5000)
    first = driver.hold(1000, owner="ann")
    driver.advance(60_000)
    waits = driver.request(500, owner="bob")
    gone = driver.request(500, owner="cem", key="other")
    driver.advance(20_000)
    driver.release(gone)
    driver.advance(10_000)
    driver.end(first)
    driver.attach(waits)
    driver.advance(10_000)
    driver.end(waits)
    held = driver.hold(250, owner="dan")
    driver.handle(ev.PinRequested(lease_id=held, pinned=True, **driver.when))
    driver.advance(20_000)
    journal.commit(driver.journal.writes, now_ms=driver.now_ms, wall_ms=driver.when["wall_ms"])
    return journal


def _files(folder: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in folder.iterdir()}


@pytest.mark.parametrize("running", [True, False])
def test_what_was_asked_for_is_played_again(tmp_path: Path, running: bool) -> None:
    folder = tmp_path / "data"
    path = folder / "journal.sqlite"
    journal = _write(path)
    if not running:
        journal.close()
    before = _files(folder)
    workload = journal_workload(path)
    # SQLite's own index of the log is the only file that a reader may touch while a service runs
    changed = {name for name, content in _files(folder).items() if before.get(name) != content}
    assert changed <= ({"journal.sqlite-shm"} if running else set())
    if running:
        journal.close()
    visits = {it.owner: it.visits[0] for it in workload.people}
    assert {owner: it.after_ms for owner, it in visits.items()} == {
        "ann": 0,
        "bob": 60_000,
        "cem": 60_000,
        "dan": 100_000,
    }
    assert visits["ann"].cells == ((0, 90_000),)
    assert visits["cem"].patience_ms == 20_000
    assert visits["dan"].cells == ((0, 20_000),)
    assert [owner for owner, it in visits.items() if it.pinned] == ["dan"]
    outcome = play(parse_pool("T4-16GB"), workload, parse_policy("order=fifo"))
    assert (outcome.counts.granted, outcome.counts.cancelled) == (3, 1)
    assert outcome.requests.p95_seconds == 30


def test_an_unreadable_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="no such file"):
        journal_workload(tmp_path / "gone.sqlite")
    with pytest.raises(JournalUnavailable):
        journal_workload(tmp_path)
    other = tmp_path / "other.sqlite"
    other.write_bytes(b"not a database, but long enough to be looked at" * 30)
    with pytest.raises(JournalCorrupt, match=r"other\.sqlite"):
        journal_workload(other)
    strange = tmp_path / "strange.sqlite"
    sqlite3.connect(strange).execute("CREATE TABLE leases (id)").connection.close()
    with pytest.raises(JournalCorrupt, match="no journal of jupyter_gpupool"):
        journal_workload(strange)


def test_a_newer_journal_and_an_empty_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data" / "journal.sqlite"
    Journal.open(path).close()
    with pytest.raises(InvalidValue, match="no leases"):
        journal_workload(path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 9999")
    database.close()
    with pytest.raises(JournalTooNew, match="9999"):
        journal_workload(path)
