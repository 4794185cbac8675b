"""The journal's tables, and how an older file becomes a current one.

Rule of this module: a migration that was released is never edited; a change is a further migration.
"""

from __future__ import annotations

import sqlite3

#: Marks the file as ours (``file`` and SQLite show it): "jgpj".
APPLICATION_ID = 0x6A67706A

#: Migration n (from 1) takes a file from ``user_version`` n - 1 to n, in one transaction.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE transitions (
            seq INTEGER PRIMARY KEY,
            lease_id TEXT NOT NULL,
            before TEXT,
            after TEXT NOT NULL,
            event TEXT,
            now_ms INTEGER NOT NULL,
            wall_ms INTEGER NOT NULL,
            detail TEXT NOT NULL DEFAULT ''
        )""",
        """CREATE TABLE leases (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            state TEXT NOT NULL,
            row BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX leases_live ON leases (state) WHERE state != 'ended'",
        "CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), now_ms INTEGER, wall_ms INTEGER)",
    ),
    (
        """CREATE TABLE idempotency (
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            body_sha256 TEXT NOT NULL,
            lease_id TEXT NOT NULL,
            expires_ms INTEGER NOT NULL,
            PRIMARY KEY (owner, key)
        ) WITHOUT ROWID""",
        """CREATE TABLE usage (
            owner TEXT PRIMARY KEY,
            used_milli_ms INTEGER NOT NULL,
            leases INTEGER NOT NULL
        ) WITHOUT ROWID""",
        """INSERT INTO usage
            SELECT owner, SUM(json_extract(CAST(row AS TEXT), '$.used_milli_ms')), COUNT(*)
            FROM leases WHERE state = 'ended' GROUP BY owner""",
    ),
    (
        "ALTER TABLE leases ADD COLUMN ended_wall_ms INTEGER",
        "CREATE INDEX leases_ended ON leases (ended_wall_ms) WHERE ended_wall_ms IS NOT NULL",
    ),
    (
        """CREATE TABLE standings (
            owner TEXT NOT NULL,
            kind TEXT NOT NULL,
            at_ms INTEGER NOT NULL,
            used_milli_ms INTEGER NOT NULL,
            attained_milli_ms INTEGER NOT NULL,
            week_start_ms INTEGER NOT NULL,
            week_milli_ms INTEGER NOT NULL,
            PRIMARY KEY (owner, kind)
        ) WITHOUT ROWID""",
        """CREATE TABLE demand (
            cpu_milli INTEGER NOT NULL,
            milli INTEGER NOT NULL,
            devices INTEGER NOT NULL,
            models TEXT NOT NULL,
            times INTEGER NOT NULL,
            PRIMARY KEY (cpu_milli, milli, devices, models)
        ) WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE snapshot_keys (
            owner TEXT PRIMARY KEY,
            key BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE snapshots (
            owner TEXT NOT NULL,
            store TEXT NOT NULL,
            docs BLOB NOT NULL,
            wall_ms INTEGER NOT NULL,
            PRIMARY KEY (owner, store)
        ) WITHOUT ROWID""",
    ),
    ("CREATE TABLE estimates (one INTEGER PRIMARY KEY CHECK (one = 1), judged TEXT NOT NULL)",),
    (
        """CREATE TABLE usage_spans (
            seq INTEGER PRIMARY KEY,
            lease_id TEXT NOT NULL,
            owner TEXT NOT NULL,
            device_id TEXT NOT NULL,
            isolation TEXT NOT NULL,
            from_ms INTEGER NOT NULL,
            until_ms INTEGER NOT NULL,
            used_milli_ms INTEGER NOT NULL
        )""",
        "CREATE INDEX usage_spans_until ON usage_spans (until_ms)",
        """CREATE TABLE usage_devices (
            id TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            model TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE usage_measured (
            lease_id TEXT NOT NULL,
            hour INTEGER NOT NULL,
            owner TEXT NOT NULL,
            device_id TEXT NOT NULL,
            isolation TEXT NOT NULL,
            busy_milli_ms INTEGER NOT NULL,
            known_milli_ms INTEGER NOT NULL,
            PRIMARY KEY (lease_id, hour)
        ) WITHOUT ROWID""",
        # of what was used before: one span for each lease, on its first device
        """INSERT INTO usage_spans
                (lease_id, owner, device_id, isolation, from_ms, until_ms, used_milli_ms)
            SELECT id, owner, COALESCE(json_extract(text, '$.shares[0].device_id'), ''),
                COALESCE(json_extract(text, '$.isolation[0].strength'), 'none'),
                COALESCE(begun + json_extract(text, '$.granted_ms'), ended_wall_ms, 0),
                COALESCE(begun + json_extract(text, '$.used_until_ms'), ended_wall_ms, 0),
                json_extract(text, '$.used_milli_ms')
            FROM (SELECT id, owner, ended_wall_ms, CAST(row AS TEXT) AS text,
                json_extract(CAST(row AS TEXT), '$.requested_wall_ms')
                    - json_extract(CAST(row AS TEXT), '$.requested_ms') AS begun FROM leases)
            WHERE json_extract(text, '$.used_milli_ms') > 0""",
    ),
    (
        """CREATE TABLE drains (
            node_id TEXT PRIMARY KEY,
            hostname TEXT NOT NULL,
            message TEXT NOT NULL,
            until_ms INTEGER
        ) WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE memberships (
            owner TEXT NOT NULL,
            since_ms INTEGER NOT NULL,
            in_group TEXT NOT NULL,
            PRIMARY KEY (owner, since_ms)
        ) WITHOUT ROWID""",
    ),
)

#: ``user_version`` of a current file.
SCHEMA_VERSION = len(MIGRATIONS)


def migrate(database: sqlite3.Connection) -> None:
    """Bring an open file to `SCHEMA_VERSION`, one transaction for each step."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    for number in range(version + 1, SCHEMA_VERSION + 1):
        database.execute("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[number - 1]:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")
            database.execute("COMMIT")
        except sqlite3.Error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
