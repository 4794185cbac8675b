"""Reading a journal that may belong to somebody else: nothing of it is changed, locked or migrated.

Rule of this module: it never writes; a pool service that uses the file does not notice.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from jupyter_gpupool.cluster.journal_errors import JournalTooNew
from jupyter_gpupool.cluster.journal_file import corrupt, unavailable
from jupyter_gpupool.cluster.journal_schema import APPLICATION_ID, SCHEMA_VERSION
from jupyter_gpupool.core.leases import Lease


def read_leases(path: Path) -> tuple[list[Lease], int]:
    """Return all leases of a journal, oldest first, and the pool time at which it was written last.

    Raises
    ------
    JournalUnavailable, JournalCorrupt, JournalTooNew
        See there.
    """
    if not path.is_file():
        raise unavailable(path, "there is no such file")
    # without a log nobody writes, and not even SQLite's own files beside it are made
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as database:
            return _read(database, path)
    except sqlite3.OperationalError as error:
        raise unavailable(path, error) from error
    except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
        raise corrupt(path, error) from error


def _read(database: sqlite3.Connection, path: Path) -> tuple[list[Lease], int]:
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if mark != APPLICATION_ID:
        raise corrupt(path, "it is no journal of jupyter_gpupool")
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"The journal {path} has format {version}; this version knows formats up to {SCHEMA_VERSION}.",
            hint="Install the newer jupyter_gpupool that wrote it.",
        )
    decode = msgspec.json.Decoder(Lease).decode
    leases = [decode(row) for (row,) in database.execute("SELECT row FROM leases ORDER BY id")]
    clock = database.execute("SELECT now_ms FROM clock").fetchone()
    return leases, int(clock[0]) if clock is not None else 0
