"""Records of processes on disk, by which the next agent takes over what this one has.

Rules of this module: a record is complete or not there (written beside, then renamed); one that cannot be
read is put aside and named in the log, never guessed at. Nothing is synced to the disk: a record matters only
as long as the processes that it names, and those do not survive what the page cache does not survive.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol import codec, names

logger = logging.getLogger(__name__)


class Record(Protocol):
    """Something with a format number."""

    format: int


R = TypeVar("R", bound=Record)


class RecordBook(Generic[R]):
    """The records of one kind of one agent: a file each, named by an id.

    Parameters
    ----------
    directory : Path
        Private directory; made if it is missing.
    """

    #: The structure of a record.
    kind: ClassVar[type]
    #: The attribute that is its id.
    key: ClassVar[str]
    #: What it may be, as it becomes the name of a file and comes from elsewhere.
    ids: ClassVar[re.Pattern[str]]
    #: What has that id, and what the record is of, for people.
    named: ClassVar[str]
    subject: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)

    def save(self, record: R) -> None:
        """Write a record in place of an older one of the same id."""
        path = self._path(getattr(record, self.key))
        beside = path.with_suffix(".new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(codec.encode(record))
        beside.replace(path)

    def remove(self, record_id: str) -> None:
        """Remove a record; nothing happens if there is none."""
        self._path(record_id).unlink(missing_ok=True)

    def load(self) -> list[R]:
        """Read all records; drafts that an agent was killed over are removed: this one is alone here."""
        for draft in self._directory.glob("*.new"):
            draft.unlink(missing_ok=True)
        records = (self._read(path) for path in sorted(self._directory.glob("*.json")))
        return [record for record in records if record is not None]

    def _read(self, path: Path) -> R | None:
        try:
            record: R = codec.decode(path.read_bytes(), self.kind)
            record_id = getattr(record, self.key)
            if record.format == names.FORMAT and self._path(record_id) == path:
                return record
            reason = f"it has format {record.format} and names {self.named} {record_id}"
        except (OSError, codec.BadMessage, InvalidValue) as error:
            reason = str(error)
        logger.error("The record %s of %s cannot be used and is put aside: %s", path, self.subject, reason)
        path.replace(path.with_suffix(".unreadable"))
        return None

    def _path(self, record_id: str) -> Path:
        """Return the file of an id, which is checked first."""
        if not self.ids.fullmatch(record_id):
            raise InvalidValue(f"“{record_id[:80]}” is not the id of a {self.named}.")
        return self._directory / f"{record_id}.json"
