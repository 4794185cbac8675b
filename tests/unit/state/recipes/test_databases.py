"""Databases of sqlite come back with their contents, or are connected to again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from jupyter_gpupool.state.model import FindingKind
from tests.support.state_trip import Gone, save, trip


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _memory(opened: ExitStack, **options: int) -> sqlite3.Connection:
    database = opened.enter_context(closing(sqlite3.connect(":memory:", **options)))  # type: ignore[call-overload]
    database.execute("CREATE TABLE t (a INT, d TIMESTAMP)")
    database.execute("INSERT INTO t VALUES (5, '2026-01-02 03:04:05')")
    database.commit()
    return database


def test_a_database_in_memory_keeps_what_is_in_it_and_how_it_answers(opened: ExitStack) -> None:
    database = _memory(opened, detect_types=sqlite3.PARSE_DECLTYPES)
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA foreign_keys = 1")
    database.execute("ATTACH ':memory:' AS other")
    database.execute("CREATE TABLE other.u AS SELECT 7 AS b")
    made = opened.enter_context(closing(trip(database)))
    assert made.execute("SELECT a FROM t").fetchone()["a"] == 5
    assert made.execute("SELECT b FROM other.u").fetchone()["b"] == 7
    assert made.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    made.execute("INSERT INTO t VALUES (6, NULL)")
    assert database.execute("SELECT count(*) FROM t").fetchone()[0] == 1


def test_a_database_in_a_file_is_connected_to_again(opened: ExitStack, tmp_path: Path) -> None:
    path = tmp_path / "my data.db"
    database = opened.enter_context(closing(sqlite3.connect(path)))
    database.execute("CREATE TABLE t (a)")
    database.execute("INSERT INTO t VALUES (1)")
    database.commit()
    saved = save(database)
    made = opened.enter_context(closing(saved.back()))
    assert made.execute("SELECT a FROM t").fetchall() == [(1,)]
    assert not saved.said.notes
    database.execute("INSERT INTO t VALUES (2)")
    assert "not in its file" in save(database).said.notes[0][1]
    database.rollback()
    path.unlink()
    gone = saved.back()
    assert isinstance(gone, Gone)
    assert "my data.db is not there any more" in gone.reason
    assert not path.exists()


def test_an_open_transaction_and_functions_of_the_user_are_said(opened: ExitStack) -> None:
    database = _memory(opened)
    database.create_function("twice", 1, lambda x: x * 2)
    database.execute("INSERT INTO t VALUES (6, NULL)")
    saved = save(database)
    opened.enter_context(closing(saved.back()))
    reasons = [reason for kind, reason in saved.said.notes if kind is FindingKind.CHANGED]
    assert "not committed" in reasons[0]
    assert reasons[1].endswith(": twice")


def test_a_cursor_is_lost_only_while_it_has_rows(opened: ExitStack) -> None:
    database = _memory(opened)
    cursor = database.execute("SELECT a FROM t UNION SELECT 9")
    cursor.fetchone()
    assert "not been fetched" in save(cursor).said.lost[0].reason
    cursor.fetchall()
    made, connection = trip((cursor, database))
    opened.enter_context(closing(connection))
    assert made.connection is connection
    assert made.execute("SELECT a FROM t").fetchall() == [(5,)]


def test_rows_and_closed_connections_come_back(opened: ExitStack) -> None:
    database = _memory(opened)
    database.row_factory = sqlite3.Row
    row = trip(database.execute('SELECT a AS "x y", 2 AS b FROM t').fetchone())
    assert (row.keys(), row["x y"], row["b"]) == (["x y", "b"], 5, 2)
    database.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        trip(database).execute("SELECT 1")
