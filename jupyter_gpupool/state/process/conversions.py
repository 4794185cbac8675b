"""How sqlite turns values of Python into its own and back, as the user has registered it.

Rule of this module: what Python itself registers is left as it is.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_NAME = "sqlite"
_TABLES = ("adapters", "converters")


def _tables() -> dict[str, dict[Any, Any]]:
    module = sys.modules.get("sqlite3.dbapi2")
    return {name: table for name in _TABLES if isinstance(table := getattr(module, name, None), dict)}


def _is_pythons(function: Any) -> bool:
    return getattr(function, "__module__", None) == "sqlite3.dbapi2"


def _take(tell: Tell) -> dict[str, list[tuple[Any, Any]]]:
    return {
        name: [(key, function) for key, function in table.items() if not _is_pythons(function)]
        for name, table in _tables().items()
    }


def _put(value: dict[str, list[tuple[Any, Any]]], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    if not any(value.values()):
        return changes.undo
    importlib.import_module("sqlite3")
    tables = _tables()
    for name, entries in value.items():
        for key, function in entries:
            path = f"sqlite3.{name}[{key!r}]"
            if lost.is_lost(function) or name not in tables:
                changes.failed(path, "it cannot be put back here", "Register it again.")
            else:
                changes.put(tables[name], key, function, path)
    return changes.undo


SECTION = Section(name=_NAME, take=_take, put=_put)
