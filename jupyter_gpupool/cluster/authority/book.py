"""The authority's book: join tokens, the certificates of nodes, and what happened to both.

Rules of this module: secrets are kept as hashes; a token is used up in the same transaction in which a
certificate is written down; what happened is written with what it changed, and never removed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from jupyter_gpupool.cluster.errors import AuthorityFault, JoinRefused
from jupyter_gpupool.cluster.journal_file import BUSY_TIMEOUT_MS
from jupyter_gpupool.protocol.join import JoinToken

#: In place of a token's id: the certificate of the pool's own machine, which needed none.
OWN = ""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, secret_sha256 TEXT NOT NULL, note TEXT NOT NULL, created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL, uses_left INTEGER NOT NULL, revoked_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS certificates (
    seq INTEGER PRIMARY KEY, serial TEXT NOT NULL UNIQUE, node_id TEXT NOT NULL, node_name TEXT NOT NULL,
    key_sha256 TEXT NOT NULL, token_id TEXT NOT NULL, signer_sha256 TEXT NOT NULL,
    issued_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, revoked_ms INTEGER
);
CREATE TABLE IF NOT EXISTS audit (
    seq INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL
);
"""
_CERTIFICATES = (
    "SELECT serial, node_id, node_name, key_sha256, token_id, signer_sha256, issued_ms, expires_ms,"
    " revoked_ms FROM certificates"
)


class Audit(Enum):
    """What is written down of the authority; the value is what is stored."""

    #: A join token was made.
    TOKEN_CREATED = "token_created"  # noqa: S105 - the name of an event
    #: A join token was revoked before its time.
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
    #: A machine got its first certificate for a token.
    NODE_JOINED = "node_joined"
    #: A machine was turned away.
    JOIN_REFUSED = "join_refused"
    #: A node's certificate was followed by a new one.
    CERTIFICATE_RENEWED = "certificate_renewed"
    #: A node's certificates were declared void.
    NODE_REVOKED = "node_revoked"
    #: A new authority was made, beside the old one.
    ROTATION_BEGAN = "rotation_began"
    #: The old authority is trusted no more.
    ROTATION_ENDED = "rotation_ended"


class TokenState(Enum):
    """What became of a join token."""

    #: It can be used.
    GOOD = "good"
    #: It was used as often as it may be.
    USED = "used"
    #: Its time is over.
    EXPIRED = "expired"
    #: An administrator revoked it.
    REVOKED = "revoked"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRow:
    """One join token; times are UTC, milliseconds since 1970."""

    id: str
    note: str
    created_ms: int
    expires_ms: int
    uses_left: int
    state: TokenState


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateRow:
    """One certificate of a node; times are UTC, milliseconds since 1970."""

    serial: int
    node_id: str
    node_name: str
    key_sha256: str
    token_id: str
    signer_sha256: str
    issued_ms: int
    expires_ms: int
    revoked_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRow:
    """One thing that happened."""

    wall_ms: int
    what: Audit
    detail: dict[str, str]


def now_ms() -> int:
    """Return the time, UTC, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Book:
    """The book in one file.

    Parameters
    ----------
    path : Path
        Its file, in a private directory that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        with self._open() as database:
            database.executescript(_SCHEMA)

    @contextmanager
    def _open(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction: other processes write it, too."""
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
                database.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
                database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield database  # what is not committed goes when it is closed
                if database.in_transaction:
                    database.execute("COMMIT")
        except sqlite3.Error as error:
            raise AuthorityFault(
                f"The book of the pool's authority, {self.path}, cannot be used: {error}.",
                hint="Check that its disk has room and is writable.",
            ) from error

    def _note(self, database: sqlite3.Connection, what: Audit, **detail: str) -> None:
        database.execute(
            "INSERT INTO audit (wall_ms, what, detail) VALUES (?, ?, ?)",
            (now_ms(), what.value, json.dumps(detail, ensure_ascii=False)),
        )

    def note(self, what: Audit, **detail: str) -> None:
        """Write down what happened, where nothing else is changed."""
        with self._open() as database:
            self._note(database, what, **detail)

    def audit(self) -> list[AuditRow]:
        """Return what happened, oldest first."""
        with self._open(write=False) as database:
            rows = database.execute("SELECT wall_ms, what, detail FROM audit ORDER BY seq").fetchall()
        return [AuditRow(wall_ms=at, what=Audit(what), detail=json.loads(text)) for at, what, text in rows]

    # --- tokens ---------------------------------------------------------------------------------

    def add_token(self, token: JoinToken, *, seconds: float, uses: int, note: str = "") -> None:
        """Keep a new token, for so long and so many nodes."""
        at_ms = now_ms()
        row = (token.id, _hash(token.secret), note, at_ms, at_ms + round(seconds * 1000), uses)
        with self._open() as database:
            database.execute(
                "INSERT INTO tokens (id, secret_sha256, note, created_ms, expires_ms, uses_left)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            self._note(database, Audit.TOKEN_CREATED, token=token.id, uses=str(uses), note=note)

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, oldest first."""
        at_ms = now_ms()
        with self._open(write=False) as database:
            rows = database.execute(
                "SELECT id, note, created_ms, expires_ms, uses_left, revoked_ms FROM tokens"
                " ORDER BY created_ms, id"
            ).fetchall()
        return [
            TokenRow(
                id=it[0],
                note=it[1],
                created_ms=it[2],
                expires_ms=it[3],
                uses_left=it[4],
                state=_state(it[4], it[3], it[5], at_ms),
            )
            for it in rows
        ]

    def revoke_token(self, token_id: str) -> None:
        """Let a token be used no more.

        Raises
        ------
        AuthorityFault
            If there is none of this id.
        """
        with self._open() as database:
            done = database.execute(
                "UPDATE tokens SET revoked_ms = COALESCE(revoked_ms, ?) WHERE id = ?",
                (now_ms(), token_id),
            )
            if not done.rowcount:
                raise AuthorityFault(
                    f"There is no join token “{token_id[:40]}”.",
                    hint="List them with `jupyter gpupool token list`.",
                )
            self._note(database, Audit.TOKEN_REVOKED, token=token_id)

    def redeem(self, token: JoinToken, row: CertificateRow) -> None:
        """Use a token once, for a certificate; a second one for the same node and key is the same use.

        Raises
        ------
        JoinRefused
            If it is not good, or the node has joined already.
        """
        try:
            with self._open() as database:
                self._redeem(database, token, row)
                _insert(database, row)
                self._note(database, Audit.NODE_JOINED, node=row.node_id, name=row.node_name, token=token.id)
        except JoinRefused as error:
            self.note(Audit.JOIN_REFUSED, token=token.id, node=row.node_id, why=error.message)
            raise

    def _redeem(self, database: sqlite3.Connection, token: JoinToken, wanted: CertificateRow) -> None:
        row = database.execute(
            "SELECT secret_sha256, uses_left, expires_ms, revoked_ms FROM tokens WHERE id = ?", (token.id,)
        ).fetchone()
        known = row[0] if row else _hash("")
        if not hmac.compare_digest(known, _hash(token.secret)) or row is None:
            raise JoinRefused("This join token is not one of this pool.", hint=_ANOTHER)
        valid = "node_id = ? AND revoked_ms IS NULL AND expires_ms > ?"
        certificates = database.execute(
            f"SELECT key_sha256, token_id FROM certificates WHERE {valid}",  # noqa: S608 - a constant
            (wanted.node_id, now_ms()),
        ).fetchall()
        state = _state(row[1], row[2], row[3], now_ms())
        if state in (TokenState.EXPIRED, TokenState.REVOKED):
            raise JoinRefused(f"This join token {_SAID[state]}.", hint=_ANOTHER)
        if (wanted.key_sha256, token.id) in certificates:
            return
        if state is TokenState.USED:
            raise JoinRefused(f"This join token {_SAID[state]}.", hint=_ANOTHER)
        if certificates:
            raise JoinRefused(
                f"The node {wanted.node_name} ({wanted.node_id}) has joined already, and has a certificate.",
                hint=f"If it lost that, run `jupyter gpupool certs revoke {wanted.node_id}` at the pool.",
            )
        database.execute("UPDATE tokens SET uses_left = uses_left - 1 WHERE id = ?", (token.id,))

    # --- certificates ---------------------------------------------------------------------------

    def renewed(self, row: CertificateRow, *, after: int) -> None:
        """Keep that a node got its next certificate.

        Raises
        ------
        AuthorityFault
            If the one that it comes ``after`` was revoked meanwhile.
        """
        with self._open() as database:
            valid = "SELECT 1 FROM certificates WHERE serial = ? AND revoked_ms IS NULL"
            if database.execute(valid, (f"{after:x}",)).fetchone() is None:
                raise AuthorityFault(f"The certificate {after:x} of node {row.node_name} is void.")
            _insert(database, row)
            self._note(database, Audit.CERTIFICATE_RENEWED, node=row.node_id, name=row.node_name)

    def replace_own(self, row: CertificateRow) -> None:
        """Keep the certificate of the pool's own machine, which is made anew at each start."""
        with self._open() as database:
            database.execute("DELETE FROM certificates WHERE token_id = ?", (OWN,))
            _insert(database, row)

    def certificates(self) -> list[CertificateRow]:
        """Return the certificates of all nodes, oldest first."""
        with self._open(write=False) as database:
            rows = database.execute(f"{_CERTIFICATES} ORDER BY seq").fetchall()
        return [_certificate(*it) for it in rows]

    def certificate(self, serial: int) -> CertificateRow | None:
        """Return the certificate of a number, revoked or not; None where there is none."""
        with self._open(write=False) as database:
            row = database.execute(f"{_CERTIFICATES} WHERE serial = ?", (f"{serial:x}",)).fetchone()
        return None if row is None else _certificate(*row)

    def newest(self) -> list[CertificateRow]:
        """Return the newest certificate of each node."""
        return list({row.node_id: row for row in self.certificates()}.values())

    def revoke_node(self, name: str) -> None:
        """Declare the certificates of a node void, by its name or id.

        Raises
        ------
        AuthorityFault
            If there is no such node.
        """
        with self._open() as database:
            done = database.execute(
                "UPDATE certificates SET revoked_ms = ?"
                " WHERE (node_id = ? OR node_name = ?) AND revoked_ms IS NULL",
                (now_ms(), name, name),
            )
            if not done.rowcount:
                raise AuthorityFault(
                    f"No node “{name[:80]}” has a certificate.",
                    hint="List them with `jupyter gpupool certs show`.",
                )
            self._note(database, Audit.NODE_REVOKED, node=name)


def _insert(database: sqlite3.Connection, row: CertificateRow) -> None:
    values = (
        *(f"{row.serial:x}", row.node_id, row.node_name, row.key_sha256, row.token_id),
        *(row.signer_sha256, row.issued_ms, row.expires_ms, row.revoked_ms),
    )
    database.execute("INSERT INTO certificates VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


#: What is said of a token that cannot be used.
_SAID = {
    TokenState.USED: "was used already",
    TokenState.EXPIRED: "has expired",
    TokenState.REVOKED: "was revoked",
}
_ANOTHER = "Ask the pool's administrator for one of `jupyter gpupool token create --join`."


def _hash(secret: str) -> str:
    """Hash a secret of 256 random bits, for which no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _state(uses_left: int, expires_ms: int, revoked_ms: int | None, now_ms: int) -> TokenState:
    if revoked_ms is not None:
        return TokenState.REVOKED
    if uses_left < 1:
        return TokenState.USED
    return TokenState.EXPIRED if now_ms >= expires_ms else TokenState.GOOD


def _certificate(serial: str, *rest: object) -> CertificateRow:
    names = ("node_id", "node_name", "key_sha256", "token_id", "signer_sha256", "issued_ms", "expires_ms")
    fields = dict(zip((*names, "revoked_ms"), rest, strict=True))
    return CertificateRow(serial=int(serial, 16), **fields)  # type: ignore[arg-type]
