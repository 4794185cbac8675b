"""A journal's backup, made while its service runs, and the way back.

Rules of this module: a backup is whole or not there, and was looked through before it counts; what a restore
replaces is kept beside it under another name; no restore while a service has the journal.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from jupyter_gpupool.cluster.journal_errors import JournalError
from jupyter_gpupool.cluster.journal_file import check_open, lock_file, refuse_network_filesystem, unavailable
from jupyter_gpupool.protocol import names, paths

#: How long a backup waits for a lock of the service, seconds.
_PATIENCE_SECONDS = 30.0
#: What SQLite keeps beside a file.
_BESIDE = ("-wal", "-shm")


class NoJournal(JournalError):
    """Raised when there is no journal (or no backup) at a path. Name the right one."""

    code = "no_journal"


class BackupThere(JournalError):
    """Raised when a backup would overwrite a file. Name another, or remove it first."""

    code = "backup_there"


def back_up(journal: Path, target: Path) -> int:
    """Write a journal as it is now into one file, also while a service uses it, which it does not hold up.

    Parameters
    ----------
    journal : Path
        The journal.
    target : Path
        The file to make, private (0600); its directory is there.

    Returns
    -------
    int
        Its size, bytes.

    Raises
    ------
    NoJournal, BackupThere, JournalCorrupt, JournalTooNew, JournalUnavailable
        See there; no file was made then.
    """
    if not journal.exists():
        raise NoJournal(f"There is no journal {journal}.", hint="Name one with --journal.")
    if target.exists():
        raise BackupThere(f"{target} is there already.", hint="Name another file, or remove it first.")
    draft = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(journal, draft)
        draft.replace(target)
        _flush_directory(target.parent)
        return target.stat().st_size
    except (OSError, sqlite3.Error) as error:
        raise unavailable(journal, error) from error
    finally:
        for path in (draft, *_beside(draft)):
            path.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a database in one read of it: a writer goes on meanwhile, since it writes to the log."""
    with (
        closing(sqlite3.connect(source, timeout=_PATIENCE_SECONDS)) as reading,
        closing(sqlite3.connect(target, isolation_level=None)) as writing,
    ):
        reading.backup(writing, pages=-1)
        writing.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        check_open(writing, source)


def restore(backup: Path, journal: Path, *, suffix: str) -> Path | None:
    """Put a backup in the place of a journal that no service uses.

    Parameters
    ----------
    backup, journal : Path
        The backup, which stays, and what it takes the place of.
    suffix : str
        With which the present journal is kept beside it.

    Returns
    -------
    Path or None
        Where the present journal is now; None where there was none.

    Raises
    ------
    JournalInUse
        If a service runs on it.
    NoJournal, JournalCorrupt, JournalTooNew, JournalUnavailable
        If the backup cannot be used; the journal is as it was then.
    """
    if not backup.is_file():
        raise NoJournal(f"There is no backup {backup}.", hint="Name a file that `journal backup` has made.")
    refuse_network_filesystem(journal)
    paths.private_directory(journal.parent, variable=names.ENV_DATA_DIR)
    with closing(lock_file(journal)):
        draft = journal.with_name(f".{journal.name}-{os.getpid()}")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _copy(backup, draft)
            kept = _put_aside(journal, suffix)
            draft.replace(journal)
            _flush_directory(journal.parent)
            return kept
        except sqlite3.DatabaseError as error:
            raise unavailable(backup, error) from error
        except OSError as error:
            raise unavailable(journal, error) from error
        finally:
            for path in (draft, *_beside(draft)):
                path.unlink(missing_ok=True)


def _put_aside(journal: Path, suffix: str) -> Path | None:
    """Keep the present journal, with the log beside it, under another name."""
    if not journal.exists():
        return None
    kept = journal.with_name(f"{journal.name}{suffix}")
    for name in ("", *_BESIDE):
        path = journal.with_name(f"{journal.name}{name}")
        if path.exists():
            path.replace(journal.with_name(f"{kept.name}{name}"))
    return kept


def _beside(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}{name}") for name in _BESIDE]


def _flush_directory(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
