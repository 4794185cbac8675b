"""A journal is backed up while it is written, and restored only while nobody uses it."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from jupyter_gpupool.cluster import journal_schema
from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.cluster.journal_backup import BackupThere, NoJournal, back_up, restore
from jupyter_gpupool.cluster.journal_errors import (
    JournalCorrupt,
    JournalInUse,
    JournalTooNew,
    JournalUnavailable,
)
from jupyter_gpupool.core.leases import LeaseState
from tests.unit.service.test_journal import a_lease, commit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.sqlite3"


def ids(path: Path) -> list[str]:
    journal = Journal.open(path)
    try:
        return [lease.id for lease in journal.live_leases()]
    finally:
        journal.close()


def test_a_backup_is_one_private_file_with_all_that_was_committed(path: Path, tmp_path: Path):
    journal = Journal.open(path)
    commit(journal, a_lease(1, LeaseState.ACTIVE))
    size = back_up(path, tmp_path / "backup")
    commit(journal, a_lease(2, LeaseState.ACTIVE))
    journal.close()
    made = tmp_path / "backup"
    assert size == made.stat().st_size > 0
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert sorted(it.name for it in tmp_path.iterdir()) == ["backup", "data"]
    kept = restore(made, path, suffix=".before")
    assert len(ids(path)) == 1
    assert kept is not None
    assert len(ids(kept)) == 2


def test_backups_beside_a_writer_are_whole_and_hold_it_up_by_nothing_but_time(path: Path, tmp_path: Path):
    journal, stop, count = Journal.open(path), threading.Event(), 0

    def write() -> None:
        nonlocal count
        while not stop.is_set() and count < 500:
            count += 1
            commit(journal, a_lease(count, LeaseState.ACTIVE))

    writer = threading.Thread(target=write)
    writer.start()
    sizes = []
    for number in range(3):
        before = count
        back_up(path, tmp_path / f"backup-{number}")
        copy = tmp_path / f"copy-{number}" / "journal.sqlite3"
        restore(tmp_path / f"backup-{number}", copy, suffix="")
        sizes.append(len(ids(copy)))
        assert sizes[-1] >= before - 1
    stop.set()
    writer.join(30)
    journal.close()
    assert sizes == sorted(sizes)
    assert len(ids(path)) == count


def test_no_restore_while_a_service_has_the_journal(path: Path, tmp_path: Path):
    journal = Journal.open(path)
    commit(journal, a_lease(1, LeaseState.ACTIVE))
    back_up(path, tmp_path / "backup")
    with pytest.raises(JournalInUse, match="Stop it"):
        restore(tmp_path / "backup", path, suffix=".before")
    journal.close()
    assert restore(tmp_path / "backup", path, suffix=".before") is not None


def test_what_is_no_backup_is_refused_and_the_journal_stays(path: Path, tmp_path: Path):
    Journal.open(path).close()
    strange = tmp_path / "strange"
    with pytest.raises(NoJournal):
        restore(strange, path, suffix=".x")
    with pytest.raises(NoJournal):
        back_up(tmp_path / "none", tmp_path / "backup")
    strange.write_text("no database at all, but long enough to be looked at " * 100)
    with pytest.raises(JournalUnavailable):
        restore(strange, path, suffix=".x")
    strange.unlink()
    sqlite3.connect(strange).execute("CREATE TABLE other (x)").connection.close()
    with pytest.raises(JournalCorrupt, match="not a journal"):
        restore(strange, path, suffix=".x")
    back_up(path, tmp_path / "newer")
    database = sqlite3.connect(tmp_path / "newer")
    database.execute(f"PRAGMA user_version = {journal_schema.SCHEMA_VERSION + 1}")
    database.close()
    with pytest.raises(JournalTooNew):
        restore(tmp_path / "newer", path, suffix=".x")
    with pytest.raises(BackupThere):
        back_up(path, tmp_path / "newer")
    assert ids(path) == []
    assert sorted(it.name for it in path.parent.iterdir()) == ["journal.sqlite3", "journal.sqlite3.lock"]


def test_a_backup_of_the_previous_version_is_restored_and_brought_up_to_date(path: Path, tmp_path: Path):
    old = tmp_path / "old"
    database = sqlite3.connect(old, isolation_level=None)
    version = journal_schema.SCHEMA_VERSION - 1
    for statement in (it for step in journal_schema.MIGRATIONS[:version] for it in step):
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {journal_schema.APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    assert restore(old, path, suffix=".x") is None
    journal = Journal.open(path)
    commit(journal, a_lease(1, LeaseState.ACTIVE))
    assert journal.spent.spans(0, 2**60) == []
    journal.close()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA user_version").fetchone() == (journal_schema.SCHEMA_VERSION,)
    database.close()
