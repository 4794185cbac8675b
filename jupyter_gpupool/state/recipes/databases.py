"""Databases of sqlite: those in memory with what is in them, those in files by their path.

Rules of this module: no file is made, and nothing is committed; a transaction that is open cannot be kept,
and that is said; rows that a cursor has still to yield are lost with it.
"""

from __future__ import annotations

import gc
import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes import peek
from jupyter_gpupool.state.recipes.plain import extra, new, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_PRAGMAS = ("foreign_keys", "recursive_triggers", "synchronous", "cache_size", "temp_store", "busy_timeout")
_AGAIN = "Connect again after a restore."


def _sqlite() -> Any:
    return importlib.import_module("sqlite3")


@cache
def _detect_types_at() -> int | None:
    sqlite = _sqlite()
    probes = [(sqlite.connect(":memory:", detect_types=kinds), kinds) for kinds in (3, 2, 0)]
    try:
        return peek.place(probes, lambda probe: [peek.low_int(word) for word in peek.words(probe)])
    finally:
        for probe, _ in probes:
            probe.close()


def _connection(value: Any, capturing: Capturing) -> Reduced:
    sqlite = sys.modules["sqlite3"]
    try:
        value.total_changes  # noqa: B018 (raises where it is closed)
    except sqlite.ProgrammingError as error:
        if "closed" in str(error):
            return make_closed, (type(value),), extra(value), None, None, set_attributes
        return capturing.lose(value, str(error), "Save from the thread that connected.")
    if not hasattr(value, "serialize"):
        return capturing.lose(value, "this Python's sqlite cannot read a database out of memory", _AGAIN)
    detect_at = _detect_types_at()
    if detect_at is None:
        return capturing.lose(value, "this Python does not show how it converts types", _AGAIN)
    _say(value, capturing)
    how = {
        "detect_types": peek.low_int(peek.words(value)[detect_at]),
        "isolation_level": value.isolation_level,
        "autocommit": getattr(value, "autocommit", None),
        "pragmas": _pragmas(value),
    }
    state = (value.row_factory, value.text_factory, extra(value) or {})
    return make_connection, (type(value), _databases(value), how), state, None, None, fill_connection


def _rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        return [tuple(row) for row in cursor.execute(query)]
    finally:
        cursor.close()


def _pragmas(value: Any) -> dict[str, int]:
    found = {name: _rows(value, f"PRAGMA {name}") for name in _PRAGMAS}
    return {name: rows[0][0] for name, rows in found.items() if rows}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _databases(value: Any) -> list[tuple[str, str, bytes | None, tuple[int, int] | None]]:
    """Return for each database its name, its file, and its contents or the mark of its file."""
    found: list[tuple[str, str, bytes | None, tuple[int, int] | None]] = []
    for _, name_of, path_of in _rows(value, "PRAGMA database_list"):
        name, path = _text(name_of), _text(path_of or "")
        if name == "temp":
            continue
        if path:
            status = Path(path).stat()
            found.append((name, path, None, (status.st_size, status.st_mtime_ns)))
        else:
            found.append((name, "", value.serialize(name=name), None))
    return found


def _say(value: Any, capturing: Capturing) -> None:
    """Report what of a connection does not come back."""
    reasons = []
    if value.in_transaction:
        reasons.append("it has changes that are not committed: after a restore they cannot be rolled back")
        if any(path for _, _, path in _rows(value, "PRAGMA database_list")):
            reasons[-1] = "it has changes that are not committed, and those are not in its file"
    functions = _own_functions(value)
    if functions:
        reasons.append(f"functions that were made for it have to be made again: {', '.join(functions)}")
    if _rows(value, "SELECT name FROM sqlite_temp_master"):
        reasons.append("its temporary tables are not kept")
    for reason in reasons:
        capturing.note(value, FindingKind.CHANGED, reason)


def _own_functions(value: Any) -> list[str]:
    usual = _usual_functions()
    try:
        rows = _rows(value, "SELECT DISTINCT name FROM pragma_function_list")
        collations = _rows(value, "SELECT name FROM pragma_collation_list")
    except sys.modules["sqlite3"].Error:
        return []  # an old SQLite, which does not tell
    return sorted({_text(name) for (name,) in (*rows, *collations)} - usual)


@cache
def _usual_functions() -> frozenset[str]:
    connection = _sqlite().connect(":memory:")
    try:
        names = _rows(connection, "SELECT DISTINCT name FROM pragma_function_list")
        names += _rows(connection, "SELECT name FROM pragma_collation_list")
    finally:
        connection.close()
    return frozenset(name for (name,) in names)


def make_connection(
    kind: type,
    databases: list[tuple[str, str, bytes | None, tuple[int, int] | None]],
    how: dict[str, Any],
) -> Any:
    """Connect again."""
    for _, path, _, _ in databases:
        if path and not Path(path).is_file():
            reason = f"its file {path} is not there any more"
            return loading.current().lost("sqlite3.Connection", reason, "Put it back, and restore again.")
    value = new(kind)
    options = {"autocommit": how["autocommit"]} if how["autocommit"] is not None else {}
    _sqlite().Connection.__init__(
        value,
        _address(databases[0][1]),
        detect_types=how["detect_types"],
        isolation_level=how["isolation_level"],
        check_same_thread=False,
        uri=True,
        **options,
    )
    for name, path, content, mark in databases:
        _attach(value, name, path, content, mark)
    for name, number in how["pragmas"].items():
        _rows(value, f"PRAGMA {name} = {int(number)}")
    return value


def _address(path: str) -> str:
    return f"file:{quote(path)}?mode=rw" if path else ":memory:"


def _attach(value: Any, name: str, path: str, content: bytes | None, mark: tuple[int, int] | None) -> None:
    if name != "main":
        cursor = value.cursor()
        quoted = name.replace('"', '""')
        cursor.execute(f'ATTACH DATABASE ? AS "{quoted}"', (_address(path),))
        cursor.close()
    if content:
        value.deserialize(content, name=name)
    if path and mark is not None:
        status = Path(path).stat()
        if (status.st_size, status.st_mtime_ns) != tuple(mark):
            reason = f"its file {path} has changed since the snapshot"
            loading.current().note(value, FindingKind.CHANGED, reason)


def fill_connection(value: Any, state: tuple[Any, Any, dict[str, Any]]) -> None:
    """Give a connection what makes its rows and texts."""
    value.row_factory, value.text_factory, attributes = state
    set_attributes(value, attributes)


def make_closed(kind: type) -> Any:
    """Make a connection that is closed."""
    value = new(kind)
    _sqlite().Connection.__init__(value, ":memory:")
    value.close()
    return value


def _cursor(value: Any, capturing: Capturing) -> Reduced:
    if any(type(held).__name__ == "Statement" for held in gc.get_referents(value)):
        reason = "a cursor with rows that have not been fetched cannot be saved"
        return capturing.lose(value, reason, "Fetch its rows, or execute it again after a restore.")
    if value.description is not None or value.lastrowid is not None:
        reason = "it comes back as a fresh cursor: description, lastrowid and rowcount are those of none"
        capturing.note(value, FindingKind.REBUILT, reason)
    state = (value.arraysize, value.row_factory, extra(value) or {})
    return make_cursor, (type(value), value.connection), state, None, None, fill_cursor


def make_cursor(kind: type, connection: Any) -> Any:
    """Make a cursor."""
    value = new(kind)
    _sqlite().Cursor.__init__(value, connection)
    return value


def fill_cursor(value: Any, state: tuple[int, Any, dict[str, Any]]) -> None:
    """Give a cursor what it was set to."""
    value.arraysize, value.row_factory, attributes = state
    set_attributes(value, attributes)


def _row(value: Any, capturing: Capturing) -> Reduced:
    return make_row, (type(value), value.keys(), tuple(value))


def make_row(kind: Any, names: list[str], values: tuple[Any, ...]) -> Any:
    """Make a row with such columns."""
    connection = _sqlite().connect(":memory:")
    try:
        columns = ", ".join('0 AS "{}"'.format(name.replace('"', '""')) for name in names)
        cursor = connection.execute(f"SELECT {columns}")
        return kind(cursor, values)
    finally:
        connection.close()


RECIPES = (
    Recipe(module="sqlite3", qualname="Connection", reduce=_connection, subclasses=True),
    Recipe(module="sqlite3", qualname="Cursor", reduce=_cursor, subclasses=True),
    Recipe(module="sqlite3", qualname="Row", reduce=_row, subclasses=True),
)
