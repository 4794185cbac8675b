"""The journal: every transition of every lease, and the rows as they are now, in one SQLite file.

Rules of this module: what belongs together is one transaction, and it is on the disk when `commit` returns;
a failure is `JournalUnavailable` and has written nothing. It is synchronous: one thread at a time calls it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from jupyter_gpupool.cluster.journal_errors import (
    JournalCorrupt,
    JournalError,
    JournalInUse,
    JournalTooNew,
    JournalUnavailable,
    NetworkFilesystem,
)
from jupyter_gpupool.cluster.journal_file import (
    corrupt,
    lock_file,
    open_database,
    refuse_network_filesystem,
    unavailable,
)
from jupyter_gpupool.cluster.journal_rows import (
    DEMAND,
    DRAIN,
    FORGET_DRAIN,
    FORGET_SNAPSHOTS,
    JUDGED,
    READ_DEMAND,
    READ_DRAINS,
    READ_JUDGED,
    READ_SNAPSHOT_KEY,
    READ_SNAPSHOTS,
    READ_STANDINGS,
    SNAPSHOT_KEY,
    SNAPSHOTS,
    STANDINGS,
    demand_of,
    demand_row,
    inserts,
    standing_of,
    standing_row,
)
from jupyter_gpupool.cluster.journal_spans import SPANS, SpanBook, UsageTables, span_row
from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.estimates import HeldBefore, held_before
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.core.quotas.usage import OwnerUsage
from jupyter_gpupool.protocol import names, paths

__all__ = [
    "IdempotencyRow",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalInUse",
    "JournalTooNew",
    "JournalUnavailable",
    "NetworkFilesystem",
    "UsageRow",
]

_encode = msgspec.json.Encoder().encode
_lease = msgspec.json.Decoder(Lease).decode

# Rows are written many to a statement: Python gives its lock away for every statement, and on a busy service
# getting it back takes longer than the statement. {} stands for the rows.
_TRANSITIONS = "INSERT INTO transitions (lease_id, before, after, event, now_ms, wall_ms, detail) VALUES {}"
_LEASES = (
    "INSERT INTO leases (id, owner, state, row, ended_wall_ms) VALUES {} ON CONFLICT (id) DO UPDATE "
    "SET state = excluded.state, row = excluded.row, ended_wall_ms = excluded.ended_wall_ms"
)
_USAGE = (
    "INSERT INTO usage (owner, used_milli_ms, leases) VALUES {} ON CONFLICT (owner) DO UPDATE "
    "SET used_milli_ms = used_milli_ms + excluded.used_milli_ms, leases = leases + excluded.leases"
)
_KEYS = "INSERT OR REPLACE INTO idempotency (owner, key, body_sha256, lease_id, expires_ms) VALUES {}"
#: Of the oldest so many transitions, those before some moment; the rows say how a lease is now.
_FORGET = (
    "DELETE FROM transitions WHERE seq <= (SELECT MAX(seq) FROM "
    "(SELECT seq, wall_ms FROM transitions ORDER BY seq LIMIT ?) WHERE wall_ms < ?)"
)
_CLOCK = "INSERT OR REPLACE INTO clock (one, now_ms, wall_ms) VALUES (1,?,?)"


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyRow:
    """What a create with an ``Idempotency-Key`` made.

    Attributes
    ----------
    owner, key : str
        The key is scoped to its owner.
    body_sha256 : str
        Hash of the body it came with.
    lease_id : str
        The lease it made.
    expires_ms : int
        Pool time at which the key may be used anew.
    """

    owner: str
    key: str
    body_sha256: str
    lease_id: str
    expires_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRow:
    """What an owner's ended leases have used: thousandths of a device x milliseconds, and how many."""

    owner: str
    used_milli_ms: int
    leases: int


def _transition_row(write: WriteDown) -> tuple[object, ...]:
    lease = write.lease
    reason = lease.end_reason.value if lease.end_reason else ""
    return (
        lease.id,
        write.before.value if write.before else None,
        lease.state.value,
        write.event.value if write.event else None,
        write.now_ms,
        write.wall_ms,
        ": ".join(part for part in (reason, lease.end_detail) if part),
    )


def _lease_row(write: WriteDown) -> tuple[object, ...]:
    lease = write.lease
    ended = write.wall_ms if lease.state is LeaseState.ENDED else None
    return (lease.id, lease.owner, lease.state.value, _encode(lease), ended)


def _key_row(row: IdempotencyRow) -> tuple[object, ...]:
    return (row.owner, row.key, row.body_sha256, row.lease_id, row.expires_ms)


def _statements(
    writes: Sequence[WriteDown], keys: Sequence[IdempotencyRow], standings: Sequence[OwnerUsage]
) -> Iterator[tuple[str, list[object]]]:
    """Return what a transaction consists of: statements, each with its values."""
    last = {write.lease.id: write for write in writes}
    yield from inserts(_TRANSITIONS, [_transition_row(write) for write in writes])
    yield from inserts(_LEASES, [_lease_row(write) for write in last.values()])
    ended = [write.lease for write in writes if write.lease.state is LeaseState.ENDED]
    yield from inserts(_USAGE, [(lease.owner, lease.used_milli_ms, 1) for lease in ended])
    yield from inserts(STANDINGS, [standing_row(row) for row in standings])
    yield from inserts(_KEYS, [_key_row(row) for row in keys])


class Journal:
    """One open journal; make it with `Journal.open`."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: IO[str]) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        self._inode = path.stat().st_ino
        self._broken = False
        self._spans: SpanBook | None = None
        #: Who held what from when to when.
        self.spent = UsageTables(self._rows, self._write)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open the journal at ``path``, created or migrated where needed.

        Raises
        ------
        JournalCorrupt, JournalTooNew, JournalInUse, NetworkFilesystem, JournalUnavailable
            See there; the messages name the path and what to do.
        """
        refuse_network_filesystem(path)
        try:
            paths.private_directory(path.parent, variable=names.ENV_DATA_DIR)
        except OSError as error:
            raise unavailable(path, error) from error
        lock = lock_file(path)
        try:
            return cls(path, open_database(path), lock)
        except JournalError:
            lock.close()
            raise

    def close(self) -> None:
        """Close the file and let its lock go."""
        try:
            self._database.close()
        finally:
            self._lock.close()

    def commit(
        self,
        writes: Sequence[WriteDown],
        *,
        now_ms: int,
        wall_ms: int,
        keys: Sequence[IdempotencyRow] = (),
        standings: Sequence[OwnerUsage] = (),
    ) -> None:
        """Write transitions, the rows after them, what follows from them, and the clock in one transaction.

        Parameters
        ----------
        writes : sequence of WriteDown
            The transitions.
        now_ms, wall_ms : int
            Pool time and UTC, milliseconds.
        keys : sequence of IdempotencyRow
            Keys of the requests among them.
        standings : sequence of OwnerUsage
            How the owners stand who hold something else now.

        Raises
        ------
        JournalUnavailable
            If it cannot be written; then nothing of it was.
        """
        database = self._ready()
        if self._spans is None:
            self._spans = SpanBook(self.live_leases())
        statements = list(_statements(writes, keys, standings))
        statements += inserts(SPANS, [span_row(span) for span in self._spans.ended_by(writes)])
        try:
            database.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                database.execute(statement, values)
            database.execute(_CLOCK, (now_ms, wall_ms))
            database.execute("COMMIT")
            self._spans.note(writes)
        except sqlite3.Error as error:
            self._rollback()
            raise unavailable(self.path, error) from error
        except BaseException:
            self._rollback()
            raise

    def _ready(self) -> sqlite3.Connection:
        """Return the open connection, if the file is still the one that was opened."""
        try:
            if self._broken:
                self._database = open_database(self.path, create=False)
                self._broken = False
            if self.path.stat().st_ino != self._inode:
                raise unavailable(self.path, "it was replaced by another file")
        except OSError as error:
            raise unavailable(self.path, error) from error
        except JournalCorrupt as error:
            raise unavailable(self.path, error) from error
        return self._database

    def _rollback(self) -> None:
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        except sqlite3.Error:
            # this connection is of no use any more: the next write begins with a new one
            self._database.close()
            self._broken = True

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._ready().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise unavailable(self.path, error) from error

    def _leases(self, rows: Iterable[tuple[Any, ...]]) -> list[Lease]:
        try:
            return [_lease(row) for (row,) in rows]
        except msgspec.DecodeError as error:
            raise corrupt(self.path, f"a lease in it cannot be read ({error})") from error

    def live_leases(self) -> list[Lease]:
        """Return every lease that has not ended, oldest first."""
        return self._leases(self._rows("SELECT row FROM leases WHERE state != 'ended' ORDER BY id"))

    def lease(self, lease_id: str) -> Lease | None:
        """Return one lease, also an ended one; None when there is none."""
        found = self._leases(self._rows("SELECT row FROM leases WHERE id = ?", lease_id))
        return found[0] if found else None

    def recent_holds(self, limit: int = 2000) -> list[HeldBefore]:
        """Return for how long the leases were held that ended last, the latest last."""
        ended = self._leases(
            self._rows(
                "SELECT row FROM leases WHERE ended_wall_ms IS NOT NULL ORDER BY ended_wall_ms DESC LIMIT ?",
                limit,
            )
        )
        return [hold for lease in reversed(ended) if (hold := held_before(lease)) is not None]

    def pool_time(self, wall_ms: int) -> int:
        """Return pool time at start: what was saved, advanced by the wall clock if that went forward."""
        rows = self._rows("SELECT now_ms, wall_ms FROM clock")
        if not rows:
            return 0
        ((now_ms, saved_wall_ms),) = rows
        return int(now_ms) + max(0, wall_ms - int(saved_wall_ms))

    def recall(self, owner: str, key: str, now_ms: int) -> IdempotencyRow | None:
        """Return what a create with this key made, unless it has expired."""
        rows = self._rows(
            "SELECT body_sha256, lease_id, expires_ms FROM idempotency "
            "WHERE owner = ? AND key = ? AND expires_ms > ?",
            owner,
            key,
            now_ms,
        )
        for body_sha256, lease_id, expires_ms in rows:
            return IdempotencyRow(
                owner=owner, key=key, body_sha256=body_sha256, lease_id=lease_id, expires_ms=expires_ms
            )
        return None

    def recent_keys(self, now_ms: int, limit: int) -> list[IdempotencyRow]:
        """Return up to ``limit`` keys that have not expired, newest first."""
        rows = self._rows(
            "SELECT owner, key, body_sha256, lease_id, expires_ms FROM idempotency "
            "WHERE expires_ms > ? ORDER BY expires_ms DESC LIMIT ?",
            now_ms,
            limit,
        )
        return [
            IdempotencyRow(owner=row[0], key=row[1], body_sha256=row[2], lease_id=row[3], expires_ms=row[4])
            for row in rows
        ]

    def usage(self) -> list[UsageRow]:
        """Return what each owner's ended leases have used, exact also after `prune`."""
        rows = self._rows("SELECT owner, used_milli_ms, leases FROM usage ORDER BY owner")
        return [UsageRow(owner=row[0], used_milli_ms=row[1], leases=row[2]) for row in rows]

    def standings(self) -> list[OwnerUsage]:
        """Return how owners stood when what they hold last changed."""
        return [standing_of(row) for row in self._rows(READ_STANDINGS)]

    def demand(self) -> list[tuple[Shape, int]]:
        """Return what was asked for so far, and how often."""
        return [demand_of(row) for row in self._rows(READ_DEMAND)]

    def write_demand(self, rows: Iterable[tuple[Shape, int]]) -> None:
        """Write down what was asked for so far.

        Raises
        ------
        JournalUnavailable
            If it cannot be written; then nothing of it was.
        """
        self._write(inserts(DEMAND, [demand_row(*row) for row in rows]))

    def judged(self) -> str:
        """Return whether the latest estimates of waits were right."""
        return "".join(str(row[0]) for row in self._rows(READ_JUDGED))

    def write_judged(self, judged: str) -> None:
        """Write down whether the latest estimates of waits were right.

        Raises
        ------
        JournalUnavailable
            If it cannot be written.
        """
        self._write([(JUDGED, (judged,))])

    def drains(self) -> list[Drain]:
        """Return which nodes are drained."""
        rows = self._rows(READ_DRAINS)
        return [Drain(node_id=it[0], hostname=it[1], message=it[2], until_ms=it[3]) for it in rows]

    def write_drain(self, drain: Drain) -> None:
        """Write down that a node is drained, in place of what was said of it before.

        Raises
        ------
        JournalUnavailable
            If it cannot be written.
        """
        self._write([(DRAIN, (drain.node_id, drain.hostname, drain.message, drain.until_ms))])

    def forget_drain(self, node_id: str) -> None:
        """Write down that a node is not drained any more.

        Raises
        ------
        JournalUnavailable
            If it cannot be written.
        """
        self._write([(FORGET_DRAIN, (node_id,))])

    def _write(self, statements: Iterable[tuple[str, Sequence[object]]]) -> None:
        """Carry statements out in one transaction of their own."""
        database = self._ready()
        try:
            database.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                database.execute(statement, values)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            raise unavailable(self.path, error) from error

    def snapshot_key(self, owner: str, fresh: bytes) -> bytes:
        """Return the key of an owner's snapshots; ``fresh`` becomes it where there is none yet.

        Raises
        ------
        JournalUnavailable
            If there is none and it cannot be written.
        """
        if not (rows := self._rows(READ_SNAPSHOT_KEY, owner)):
            self._write([(SNAPSHOT_KEY, (owner, fresh))])
            rows = self._rows(READ_SNAPSHOT_KEY, owner)
        return bytes(rows[0][0])

    def snapshots(self, owner: str) -> list[bytes]:
        """Return what was said of each store that an owner has snapshots in, as it was said."""
        return [bytes(docs) for (docs,) in self._rows(READ_SNAPSHOTS, owner)]

    def write_snapshots(self, owner: str, store: str, docs: bytes, *, wall_ms: int, stores: int) -> None:
        """Write down what was said of a store, in place of what was said before.

        Parameters
        ----------
        owner, store : str
            Whose, and where.
        docs : bytes
            What was said.
        wall_ms : int
            When: UTC, milliseconds.
        stores : int
            Of how many stores of one owner something is kept: those that were spoken of last.

        Raises
        ------
        JournalUnavailable
            If it cannot be written; then nothing of it was.
        """
        self._write([(SNAPSHOTS, (owner, store, docs, wall_ms)), (FORGET_SNAPSHOTS, (owner, owner, stores))])

    def prune(self, *, ended_before_wall_ms: int, now_ms: int, limit: int = 1000) -> int:
        """Forget up to ``limit`` leases that ended long ago, old transitions, and expired keys.

        Returns the number of leases forgotten; their usage stays counted.
        """
        old = self._rows(
            "SELECT id FROM leases WHERE ended_wall_ms < ? ORDER BY ended_wall_ms LIMIT ?",
            ended_before_wall_ms,
            limit,
        )
        database = self._ready()
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM idempotency WHERE expires_ms <= ?", (now_ms,))
            database.execute(_FORGET, (10 * limit, ended_before_wall_ms))
            database.executemany("DELETE FROM leases WHERE id = ?", old)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            raise unavailable(self.path, error) from error
        return len(old)
