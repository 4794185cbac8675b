"""Environment variables that the user has changed since the process began.

Rule of this module: what belongs to the machine is neither saved nor put back; secrets are left out and
listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.process import secrets
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo, finding

_NAME = "environment"


def at_start() -> dict[str, str] | None:
    """Return the environment that this process was started with; None where the system does not tell."""
    try:
        content = Path("/proc/self/environ").read_bytes()
    except OSError:
        return None
    pairs = (pair.partition(b"=") for pair in content.split(b"\0") if b"=" in pair)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def section(patterns: Iterable[str] = secrets.SECRET_ENVIRONMENT) -> Section:
    """Return the section.

    Parameters
    ----------
    patterns : iterable of str
        Names of variables that are secrets, with ``*`` for anything.
    """
    fixed = tuple(patterns)

    def take(tell: Tell) -> dict[str, Any]:
        return _take(fixed, tell)

    return Section(name=_NAME, take=take, put=_put, first=True)


def _take(patterns: tuple[str, ...], tell: Tell) -> dict[str, Any]:
    before = at_start()
    if before is None:
        reason = "this system does not tell what the environment was at the start"
        tell(finding(_NAME, FindingKind.NOT_SAVED, "os.environ", "os._Environ", reason))
        return {"set": {}, "removed": []}
    changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    kept = {}
    for name, value in changed.items():
        if secrets.is_never_saved(name):
            continue
        if secrets.is_secret_environment(name, value, patterns):
            reason = "its name or its value says that it is a secret"
            hint = "Set it again after a restore."
            tell(finding(_NAME, FindingKind.LEFT_OUT, f"os.environ[{name!r}]", "str", reason, hint))
        else:
            kept[name] = value
    removed = [name for name in before if name not in os.environ and not secrets.is_never_saved(name)]
    return {"set": kept, "removed": removed}


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    wanted: dict[str, str | None] = {**value["set"], **dict.fromkeys(value["removed"])}
    for name, new in wanted.items():
        old = os.environ.get(name)
        if old != new and not secrets.is_never_saved(name):
            changes.make(f"os.environ[{name!r}]", _setting(name, new), _setting(name, old))
    return changes.undo


def _setting(name: str, value: str | None) -> Undo:
    def work() -> None:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    return work
