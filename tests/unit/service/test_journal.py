"""The journal: what is written is there, and what cannot be read is refused, never replaced."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.cluster import journal_file, journal_schema
from jupyter_gpupool.cluster.journal import (
    IdempotencyRow,
    Journal,
    JournalCorrupt,
    JournalInUse,
    JournalTooNew,
    JournalUnavailable,
    NetworkFilesystem,
    UsageRow,
)
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import (
    EndReason,
    Holder,
    Isolation,
    Lease,
    LeaseEvent,
    LeaseState,
    Resource,
    Share,
    Strength,
    Verified,
    Want,
)
from jupyter_gpupool.protocol.filesystems import filesystem_of

A_SHARE = Share(device_id="GPU-1", compute_milli=250, memory_bytes=2**60)
SOFT = Isolation(
    resource=Resource.MEMORY,
    strength=Strength.SOFT,
    mechanism="soft RLIMIT_DATA",
    limit="2.0 GiB",
    verified=Verified.READ_BACK,
    note="ä “quoted”",
)


def a_lease(
    number: int = 1, state: LeaseState = LeaseState.QUEUED, owner: str = "ann", used: int = 0
) -> Lease:
    return Lease(
        id=f"lease_{number:04d}",
        owner=owner,
        holder=Holder(key="k", kernel_id="kernel", label="Übung.ipynb", restartable=True),
        want=Want(compute_milli=250),
        state=state,
        requested_ms=5,
        requested_wall_ms=1_700_000_000_000,
        shares=(A_SHARE,) if state is not LeaseState.QUEUED else (),
        isolation=(SOFT,) if state is LeaseState.ACTIVE else (),
        end_reason=EndReason.RELEASED if state in (LeaseState.ENDING, LeaseState.ENDED) else None,
        used_milli_ms=used,
    )


def written(lease: Lease, before: LeaseState | None = None, event: LeaseEvent | None = None) -> WriteDown:
    return WriteDown(lease=lease, before=before, event=event, now_ms=10, wall_ms=1_700_000_000_010)


def commit(journal: Journal, *leases: Lease, now_ms: int = 10, wall_ms: int = 1_700_000_000_010) -> None:
    journal.commit([written(lease) for lease in leases], now_ms=now_ms, wall_ms=wall_ms)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "machine" / "journal.sqlite3"


def test_a_lease_comes_back_as_it_was_written(path: Path) -> None:
    lease = a_lease(state=LeaseState.ACTIVE)
    journal = Journal.open(path)
    commit(journal, lease)
    journal.close()
    journal = Journal.open(path)
    assert journal.live_leases() == [lease]
    assert journal.lease(lease.id) == lease
    journal.close()


def test_an_ended_lease_is_kept_but_not_live(path: Path) -> None:
    journal = Journal.open(path)
    lease = a_lease(state=LeaseState.ENDED, used=7)
    commit(journal, a_lease(state=LeaseState.ACTIVE), lease)
    assert journal.live_leases() == []
    assert journal.lease(lease.id) == lease
    assert journal.usage() == [UsageRow(owner="ann", used_milli_ms=7, leases=1)]
    journal.close()


def test_every_transition_is_kept_in_order(path: Path) -> None:
    journal = Journal.open(path)
    queued, ended = a_lease(), a_lease(state=LeaseState.ENDED)
    journal.commit(
        [written(queued), written(ended, LeaseState.QUEUED, LeaseEvent.RELEASED)], now_ms=1, wall_ms=2
    )
    journal.close()
    rows = sqlite3.connect(path).execute("SELECT before, after, event, detail FROM transitions ORDER BY seq")
    assert rows.fetchall() == [
        (None, "queued", None, ""),
        ("queued", "ended", "released", "released"),
    ]


def test_the_file_and_its_directory_are_private(path: Path) -> None:
    Journal.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sqlite3.connect(path).execute("PRAGMA application_id").fetchone() == (
        journal_schema.APPLICATION_ID,
    )


def test_every_commit_is_on_the_disk(path: Path) -> None:
    journal = Journal.open(path)
    assert journal._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._database.execute("PRAGMA synchronous").fetchone() == (2,)
    journal.close()


def test_two_services_cannot_have_one_journal(path: Path) -> None:
    journal = Journal.open(path)
    with pytest.raises(JournalInUse, match="DATA_DIR"):
        Journal.open(path)
    journal.close()
    Journal.open(path).close()


class TestPoolTime:
    """Pool time across a restart."""

    def test_begins_at_zero(self, path: Path) -> None:
        journal = Journal.open(path)
        assert journal.pool_time(1_700_000_000_000) == 0
        journal.close()

    @pytest.mark.parametrize(("elapsed_ms", "advanced_ms"), [(0, 0), (3_000, 3_000), (-86_400_000, 0)])
    def test_advances_with_the_wall_clock_but_never_goes_back(
        self, path: Path, elapsed_ms: int, advanced_ms: int
    ) -> None:
        journal = Journal.open(path)
        commit(journal, now_ms=500, wall_ms=1_700_000_000_000)
        assert journal.pool_time(1_700_000_000_000 + elapsed_ms) == 500 + advanced_ms
        journal.close()


class TestKeys:
    """Idempotency keys."""

    ROW = IdempotencyRow(owner="ann", key="k1", body_sha256="00", lease_id="lease_0001", expires_ms=100)

    def test_are_written_with_their_lease(self, path: Path) -> None:
        journal = Journal.open(path)
        journal.commit([written(a_lease())], now_ms=1, wall_ms=2, keys=[self.ROW])
        assert journal.recall("ann", "k1", 50) == self.ROW
        assert journal.recent_keys(50, 10) == [self.ROW]
        journal.close()

    def test_belong_to_their_owner_and_expire(self, path: Path) -> None:
        journal = Journal.open(path)
        journal.commit([written(a_lease())], now_ms=1, wall_ms=2, keys=[self.ROW])
        assert journal.recall("bob", "k1", 50) is None
        assert journal.recall("ann", "k1", 100) is None
        journal.close()


class TestPruning:
    """Forgetting what ended long ago."""

    def test_forgets_old_leases_and_keeps_their_usage(self, path: Path) -> None:
        journal = Journal.open(path)
        commit(journal, a_lease(1, LeaseState.ENDED, used=5), a_lease(2, LeaseState.ACTIVE))
        assert journal.prune(ended_before_wall_ms=1_700_000_000_000, now_ms=50) == 0
        assert journal.prune(ended_before_wall_ms=1_800_000_000_000, now_ms=50) == 1
        assert journal.lease("lease_0001") is None
        assert [lease.id for lease in journal.live_leases()] == ["lease_0002"]
        assert journal.usage() == [UsageRow(owner="ann", used_milli_ms=5, leases=1)]
        journal.close()
        assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM transitions").fetchall() == [(0,)]

    def test_takes_no_more_than_it_is_asked_to(self, path: Path) -> None:
        journal = Journal.open(path)
        commit(journal, *(a_lease(number, LeaseState.ENDED) for number in range(5)))
        assert journal.prune(ended_before_wall_ms=2**60, now_ms=0, limit=3) == 3
        assert journal.prune(ended_before_wall_ms=2**60, now_ms=0, limit=3) == 2
        journal.close()


#: The version from which it is kept who held what when.
USAGE_SPANS = 7


class TestSchemas:
    """Files of other versions."""

    def make(self, path: Path, version: int) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, mode=0o700)
        database = sqlite3.connect(path, isolation_level=None)
        for statements in journal_schema.MIGRATIONS[:version]:
            for statement in statements:
                database.execute(statement)
        database.execute(f"PRAGMA application_id = {journal_schema.APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {version}")
        return database

    @pytest.mark.parametrize("version", range(1, journal_schema.SCHEMA_VERSION))
    def test_an_older_one_is_brought_up_to_date_with_all_that_is_in_it(
        self, path: Path, version: int
    ) -> None:
        database = self.make(path, version)
        live, ended = a_lease(1, LeaseState.ACTIVE), a_lease(2, LeaseState.ENDED, used=9)
        for lease in (live, ended):
            row = journal_module_encode(lease)
            database.execute(
                "INSERT INTO leases (id, owner, state, row) VALUES (?,?,?,?)",
                (lease.id, lease.owner, lease.state.value, row),
            )
        if version >= 2:
            database.execute("INSERT INTO usage VALUES ('ann', 9, 1)")
        database.close()
        journal = Journal.open(path)
        assert journal.live_leases() == [live]
        assert journal.lease(ended.id) == ended
        assert journal.usage() == [UsageRow(owner="ann", used_milli_ms=9, leases=1)]
        if version < USAGE_SPANS:
            assert sum(span.used_milli_ms for span in journal.spent.spans(-1, 2**60)) == 9
        commit(journal, a_lease(3, LeaseState.ENDED, used=1))
        assert journal.usage() == [UsageRow(owner="ann", used_milli_ms=10, leases=2)]
        journal.close()
        version_now = sqlite3.connect(path).execute("PRAGMA user_version").fetchone()
        assert version_now == (journal_schema.SCHEMA_VERSION,)

    def test_a_newer_one_is_refused_and_left_alone(self, path: Path) -> None:
        Journal.open(path).close()
        database = sqlite3.connect(path)
        database.execute(f"PRAGMA user_version = {journal_schema.SCHEMA_VERSION + 1}")
        database.close()
        with pytest.raises(JournalTooNew, match="newer jupyter_gpupool"):
            Journal.open(path)

    def test_an_interrupted_migration_leaves_the_file_as_it_was(self, path: Path) -> None:
        database = self.make(path, 1)
        database.execute("CREATE TABLE usage (in_the_way INTEGER)")
        database.close()
        with pytest.raises(JournalUnavailable):
            Journal.open(path)
        database = sqlite3.connect(path)
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert "idempotency" not in names


def journal_module_encode(lease: Lease) -> bytes:
    from jupyter_gpupool.cluster import journal

    return journal._encode(lease)


class TestDamage:
    """A journal that cannot be trusted names its path and what to do, and is never begun anew."""

    def full(self, path: Path) -> bytes:
        journal = Journal.open(path)
        for number in range(50):
            commit(journal, a_lease(number, LeaseState.ACTIVE))
        journal.close()
        return path.read_bytes()

    def refused(self, path: Path, match: str) -> None:
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(JournalCorrupt, match=match) as caught:
            Journal.open(path)
        assert str(path) in str(caught.value)
        assert "aside" in str(caught.value)
        assert (path.read_bytes() if path.exists() else None) == before

    def test_that_is_not_a_database_is_refused(self, path: Path) -> None:
        self.full(path)
        path.write_bytes(b"this is not a database, it is a letter to my aunt\n" * 100)
        self.refused(path, "not a database")

    def test_that_is_cut_short_is_refused(self, path: Path) -> None:
        data = self.full(path)
        path.write_bytes(data[: len(data) // 2 // 4096 * 4096])
        self.refused(path, "damaged")

    def test_that_is_empty_is_refused(self, path: Path) -> None:
        self.full(path)
        path.write_bytes(b"")
        self.refused(path, "empty")

    def test_that_has_garbage_inside_is_refused(self, path: Path) -> None:
        data = bytearray(self.full(path))
        data[4096 : 4096 * 6] = os.urandom(4096 * 5)
        path.write_bytes(data)
        self.refused(path, "damaged")

    def test_that_is_another_programs_is_refused(self, path: Path) -> None:
        path.parent.mkdir(parents=True, mode=0o700)
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE cookies (x)")
        database.close()
        self.refused(path, "not a journal")

    def test_whose_log_is_garbage_is_refused(self, path: Path) -> None:
        self.full(path)
        path.with_name(path.name + "-wal").write_bytes(b"garbage" * 1000)
        self.refused(path, "write-ahead log")

    def test_that_is_gone_but_has_left_its_log_is_refused(self, path: Path) -> None:
        journal = Journal.open(path)
        commit(journal, a_lease())
        log = path.with_name(path.name + "-wal").read_bytes()
        journal.close()
        path.unlink()
        path.with_name(path.name + "-wal").write_bytes(log)
        self.refused(path, "missing")

    def test_with_a_lease_that_cannot_be_read_is_refused(self, path: Path) -> None:
        self.full(path)
        database = sqlite3.connect(path)
        database.execute("UPDATE leases SET row = '{}'")
        database.commit()
        database.close()
        journal = Journal.open(path)
        with pytest.raises(JournalCorrupt, match="cannot be read"):
            journal.live_leases()
        journal.close()

    def test_whose_log_ends_in_the_middle_keeps_what_was_committed(self, path: Path) -> None:
        journal = Journal.open(path)
        commit(journal, a_lease(1))
        log = path.with_name(path.name + "-wal")
        whole = log.stat().st_size
        commit(journal, a_lease(2))
        data, torn = path.read_bytes(), log.read_bytes()[: whole + 100]
        journal.close()
        path.write_bytes(data)
        log.write_bytes(torn)
        journal = Journal.open(path)
        assert [lease.id for lease in journal.live_leases()] == ["lease_0001"]
        journal.close()


class TestPlaces:
    """Where a journal may lie."""

    MOUNTS = "\n".join(
        [
            "/dev/sda1 / ext4 rw 0 0",
            "server:/home /home nfs4 rw 0 0",
            "/dev/sdb1 /home/local xfs rw 0 0",
            "me@host: /home/a\\040b fuse.sshfs rw 0 0",
            "garbage",
        ]
    )

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/var/lib/x", "ext4"),
            ("/home/ann/.local", "nfs4"),
            ("/home/local/ann", "xfs"),
            ("/home/a b/c", "fuse.sshfs"),
            ("/homework", "ext4"),
        ],
    )
    def test_the_longest_mount_point_decides(self, path: str, kind: str) -> None:
        assert filesystem_of(Path(path), self.MOUNTS) == kind

    def test_a_network_filesystem_is_refused_and_the_setting_named(self, tmp_path: Path) -> None:
        mounts = tmp_path / "mounts"
        mounts.write_text(f"server:/export {tmp_path} cifs rw 0 0\n")
        with pytest.raises(NetworkFilesystem, match=r"cifs.*JUPYTER_GPUPOOL_DATA_DIR"):
            journal_file.refuse_network_filesystem(tmp_path / "journal.sqlite3", mounts)

    def test_a_directory_that_cannot_be_written_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(JournalUnavailable, match="cannot be used"):
            Journal.open(tmp_path / "file" / "below" / "journal.sqlite3")


class TestFailures:
    """Writes that fail."""

    def test_a_journal_that_was_moved_away_takes_nothing_more(self, path: Path) -> None:
        journal = Journal.open(path)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(JournalUnavailable):
            commit(journal, a_lease())
        path.with_name("elsewhere").rename(path)
        commit(journal, a_lease())
        assert len(journal.live_leases()) == 1
        journal.close()

    def test_a_commit_that_fails_writes_nothing(self, path: Path) -> None:
        journal = Journal.open(path)
        commit(journal, a_lease(1))
        too_large = replace(a_lease(2), requested_ms=1)
        with pytest.raises(OverflowError):
            journal.commit([written(too_large)], now_ms=2**70, wall_ms=0)
        assert [lease.id for lease in journal.live_leases()] == ["lease_0001"]
        commit(journal, a_lease(3))
        assert len(journal.live_leases()) == 2
        journal.close()

    def test_somebody_elses_lock_is_waited_for_and_then_reported(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journal_file, "BUSY_TIMEOUT_MS", 50)
        journal = Journal.open(path)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable, match="locked"):
            commit(journal, a_lease())
        other.execute("ROLLBACK")
        other.close()
        commit(journal, a_lease())
        journal.close()


STATES = st.sampled_from(list(LeaseState))
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 9), STATES), max_size=6), max_size=12)


@settings(max_examples=40, deadline=None)
@given(batches=BATCHES)
def test_the_live_rows_are_always_those_last_written(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, LeaseState]]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "d" / "journal.sqlite3"
    journal = Journal.open(path)
    model: dict[str, Lease] = {}
    transitions = 0
    for batch in batches:
        leases = [a_lease(number, state) for number, state in batch]
        commit(journal, *leases)
        transitions += len(leases)
        model |= {lease.id: lease for lease in leases}
    journal.close()
    journal = Journal.open(path)
    live = [lease for _, lease in sorted(model.items()) if lease.state is not LeaseState.ENDED]
    assert journal.live_leases() == live
    assert all(journal.lease(lease.id) == lease for lease in model.values())
    assert journal._rows("SELECT COUNT(*) FROM transitions") == [(transitions,)]
    journal.close()


WRITER = """
import sys
from pathlib import Path
from tests.unit.service.test_journal import Journal, LeaseState, a_lease, commit
journal = Journal.open(Path(sys.argv[1]))
for number in range(100_000):
    commit(journal, a_lease(number, LeaseState.ACTIVE), a_lease(number + 500_000, LeaseState.QUEUED))
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_every_commit_that_it_reported(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert writer.stdout is not None
    reported = -1
    for line in writer.stdout:
        reported = int(line)
        if reported >= 30:
            break
    writer.kill()
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait(10)
    reported = int(rest[-1]) if rest else reported
    journal = Journal.open(path)
    live = {lease.id for lease in journal.live_leases()}
    journal.close()
    for number in range(reported + 1):
        assert {f"lease_{number:04d}", f"lease_{number + 500_000:04d}"} <= live
    assert len(live) in (2 * (reported + 1), 2 * (reported + 2))
