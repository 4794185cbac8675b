"""The current directory, where modules are looked for, and who may read the files that are made.

Rule of this module: nothing that this process needs to find its own modules is taken away.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo, finding


def _take_directory(tell: Tell) -> str | None:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        reason = "the current directory has been deleted"
        tell(finding("directory", FindingKind.NOT_SAVED, "os.getcwd()", "str", reason))
        return None


def _put_directory(value: str | None, tell: Tell) -> Undo:
    changes = Changes("directory", tell)
    try:
        before: Path | None = Path.cwd()
    except FileNotFoundError:
        before = None
    if value is not None and not Path(value).is_dir():
        reason = f"there is no directory {value} here"
        changes.failed("os.getcwd()", reason, "Make it, or change to where the notebook's files are.")
    elif value is not None and str(before) != value:
        back = (lambda: os.chdir(before)) if before is not None else (lambda: None)
        changes.make("os.getcwd()", lambda: os.chdir(value), back)
    return changes.undo


def _take_path(tell: Tell) -> dict[str, Any]:
    return {"path": [str(entry) for entry in sys.path], "prefixes": sorted({sys.prefix, sys.base_prefix})}


def _put_path(value: dict[str, Any], tell: Tell) -> Undo:
    saved, before = value["path"], list(sys.path)
    foreign = [prefix for prefix in value["prefixes"] if prefix not in (sys.prefix, sys.base_prefix)]
    if foreign:  # another Python's own directories are of no use here
        saved = [entry for entry in saved if entry in before or not entry.startswith(tuple(foreign))]
    path = list(dict.fromkeys([*saved, *before]))

    def assign(entries: list[str]) -> None:
        sys.path[:] = entries

    changes = Changes("sys.path", tell)
    if path != before:
        changes.make("sys.path", lambda: assign(path), lambda: assign(before))
    return changes.undo


def _umask() -> int:
    """Return the permissions that new files do not get."""
    known = _umask_of("self")
    if known is None:  # elsewhere it is told only to who sets it
        known = os.umask(0o077)
        os.umask(known)
    return known


def _umask_of(process: int | str) -> int | None:
    """Return the same of a process; None where the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
        return int(status.partition("\nUmask:")[2].split()[0], 8)
    except (OSError, IndexError, ValueError):
        return None


def _begun_with() -> int:
    """Return what this process began with: what its parent has, or had when this was asked for first.

    A machine's own is not carried to another.
    """
    known = _umask_of(os.getppid())
    return _FIRST_SEEN if known is None else known


_FIRST_SEEN = _umask()


def _take_umask(tell: Tell) -> int | None:
    value = _umask()
    return value if value != _begun_with() else None


def _put_umask(value: int | None, tell: Tell) -> Undo:
    changes = Changes("umask", tell)
    before, wanted = _umask(), _begun_with() if value is None else value
    if wanted != before:
        changes.make("os.umask()", lambda: os.umask(wanted), lambda: os.umask(before))
    return changes.undo


DIRECTORY = Section(name="directory", take=_take_directory, put=_put_directory, first=True)
PATH = Section(name="sys.path", take=_take_path, put=_put_path, first=True)
UMASK = Section(name="umask", take=_take_umask, put=_put_umask, first=True)
