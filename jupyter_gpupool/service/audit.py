"""What administrators did to others: who, what, when.

Rules of this module: a line is on disk before the deed is done, and what cannot be written down is not done;
the file only grows, and is for the eyes of who runs the service (0600).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.protocol.administration import AuditDoc

_log = logging.getLogger(__name__)

#: File name in the data directory: one JSON document a line.
AUDIT_FILE = "audit.jsonl"
#: How many are shown.
SHOWN = 200
#: How much of the end of the file is read at a start, bytes.
_TAIL_BYTES = 200_000


class AuditUnavailable(GPUPoolError):
    """Raised when a deed cannot be written down, and so is not done. Make room on the service's disk."""

    code = "audit_unavailable"


class AuditLog:
    """The log of one service.

    Parameters
    ----------
    path : Path
        Its file.
    wall_ms : callable
        UTC, milliseconds.
    """

    def __init__(self, path: Path, wall_ms: Callable[[], int]) -> None:
        self._path = path
        self._wall_ms = wall_ms
        self._recent: deque[AuditDoc] = deque(_read_end(path), maxlen=SHOWN)
        self._turn = asyncio.Lock()

    def recent(self) -> list[AuditDoc]:
        """Return the newest, newest first."""
        return list(reversed(self._recent))

    async def note(self, *, who: str, action: str, subject: str, owner: str, detail: str) -> None:
        """Write down what is about to be done.

        Raises
        ------
        AuditUnavailable
            If that is not possible.
        """
        doc = AuditDoc(
            wall_ms=self._wall_ms(), who=who, action=action, subject=subject, owner=owner, detail=detail
        )
        async with self._turn:
            try:
                await asyncio.to_thread(self._append, codec.encode(doc) + b"\n")
            except OSError as error:
                raise AuditUnavailable(
                    f"This cannot be written down ({error.strerror}), so it was not done.",
                    hint="Make room on the disk of the pool service.",
                ) from error
            self._recent.append(doc)
        whose = f" of {owner}" if owner else ""
        _log.warning("%s: %s %s%s: %s", who, action, subject, whose, detail)

    def _append(self, line: bytes) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)


def _read_end(path: Path) -> list[AuditDoc]:
    """Read the newest lines; one that cannot be read (of a crash, or another version) is left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(codec.decode(line, AuditDoc))
        except codec.BadMessage:
            _log.debug("A line of %s cannot be read", path)
    return found
