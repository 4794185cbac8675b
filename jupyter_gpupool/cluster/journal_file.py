"""Opening the journal's file: where it may lie, whether it is whole, and who else has it.

Rule of this module: a file that is there is never replaced by an empty one.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import IO

from jupyter_gpupool.cluster.journal_errors import (
    JournalCorrupt,
    JournalInUse,
    JournalTooNew,
    JournalUnavailable,
    NetworkFilesystem,
)
from jupyter_gpupool.cluster.journal_schema import APPLICATION_ID, SCHEMA_VERSION, migrate
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.filesystems import network_filesystem

#: How long a statement waits for another connection's lock, milliseconds.
BUSY_TIMEOUT_MS = 5000
#: First bytes of a write-ahead log, in either byte order.
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def refuse_network_filesystem(path: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Raise `NetworkFilesystem` where SQLite's locks and its write-ahead log would not be safe."""
    kind = network_filesystem(path, mounts)
    if kind:
        raise NetworkFilesystem(
            f"The journal {path} would lie on a network filesystem ({kind}), where it is not safe.",
            hint=f"Set {names.ENV_DATA_DIR} to a directory on a local disk.",
        )


def lock_file(path: Path) -> IO[str]:
    """Take the lock beside the journal; it is held for as long as the returned file is open."""
    import fcntl

    lock = path.with_name(path.name + ".lock")
    try:
        file = os.fdopen(os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+")
    except OSError as error:
        raise unavailable(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise JournalInUse(
            f"Another pool service uses the journal {path}.",
            hint=f"Stop it, or set {names.ENV_DATA_DIR} to another directory.",
        ) from error
    return file


def unavailable(path: Path, error: object) -> JournalUnavailable:
    """Make the error for a journal that cannot be read or written."""
    return JournalUnavailable(
        f"The journal {path} cannot be used: {error}.",
        hint="Check that its disk has room and is writable; the pool goes on by itself then.",
    )


def corrupt(path: Path, cause: object) -> JournalCorrupt:
    """Make the error for a damaged journal."""
    return JournalCorrupt(
        f"The journal {path} is damaged: {cause}.",
        hint="Restore it from a backup, or, to begin with an empty one, move it and its “-wal” file aside "
        f"(mv {path} {path}.damaged).",
    )


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    database.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return database


def _create(path: Path) -> None:
    """Make an empty journal under another name, and move it into place when it is whole."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    database = _connect(draft)
    try:
        migrate(database)
    finally:
        database.close()
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _check_before(path: Path) -> None:
    """Refuse what SQLite would take for an empty database, or silently drop."""
    log = path.with_name(path.name + "-wal")
    head = log.read_bytes()[:32] if log.exists() else b""
    if not path.exists():
        if head.strip(b"\0"):
            raise corrupt(path, f"it is missing, but its log {log} is there")
        return
    if path.stat().st_size == 0:
        raise corrupt(path, "it is empty")
    if head.strip(b"\0") and head[:4] not in _WAL_MAGIC:
        raise corrupt(path, f"its log {log} is not a write-ahead log")


def check_open(database: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is no journal of ours, of a newer version, or damaged.

    Raises
    ------
    JournalCorrupt, JournalTooNew
        See there; the messages name ``path``.
    """
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if mark != APPLICATION_ID:
        raise corrupt(path, "it is a database, but not a journal of jupyter_gpupool")
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"The journal {path} has format {version}; this version knows formats up to {SCHEMA_VERSION}.",
            hint="Install the newer jupyter_gpupool that wrote it.",
        )
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise corrupt(path, verdict)


def open_database(path: Path, *, create: bool = True) -> sqlite3.Connection:
    """Open the journal, migrated (and made) where needed, in WAL mode with every commit on the disk.

    Raises
    ------
    JournalCorrupt, JournalTooNew, JournalUnavailable
        See there.
    """
    try:
        _check_before(path)
        if create and not path.exists():
            _create(path)
        database = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise unavailable(path, error) from error
    try:
        check_open(database, path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        migrate(database)
    except sqlite3.OperationalError as error:
        database.close()
        raise unavailable(path, error) from error
    except sqlite3.DatabaseError as error:
        database.close()
        raise corrupt(path, error) from error
    except (JournalCorrupt, JournalTooNew):
        database.close()
        raise
    return database
