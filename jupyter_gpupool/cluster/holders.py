"""Records of holders on disk, by which the next agent adopts what this one attached.

Rules of this module: a record is complete or not there (written beside, then renamed); one that cannot be
read is put aside and named in the log, never guessed at. Nothing is synced to the disk: a record matters only
as long as the processes that it names, and those do not survive what the page cache does not survive.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import msgspec

from jupyter_gpupool.backends.base import Attachment, ProcessMark
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import AttachReply

logger = logging.getLogger(__name__)

_LEASE_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


class HolderRecord(msgspec.Struct, kw_only=True):
    """A holder that is under its limits.

    Attributes
    ----------
    format : int
        Format number of this file.
    lease_id, generation, owner
        What it is attached to.
    holder : ProcessMark
        The process.
    attachments : list of Attachment
        What is in force, one for each share.
    beside : Attachment or None
        Limits of the node's processor and memory beside these shares.
    begun : bool
        True from before the first limit is set until all of them are: what was begun is undone by the next
        agent, and never adopted.
    resizing : bool
        True while other limits are put in force: the next agent sets those of the record again.
    """

    format: int
    lease_id: str
    generation: int
    owner: str
    holder: ProcessMark
    attachments: list[Attachment]
    beside: Attachment | None = None
    begun: bool = False
    resizing: bool = False

    @property
    def all(self) -> list[Attachment]:
        """All that is in force, limits beside the shares first."""
        return [*([] if self.beside is None else [self.beside]), *self.attachments]

    @property
    def isolation(self) -> list[IsolationDoc]:
        """What is in force, of all shares and beside them."""
        beside = [] if self.beside is None else self.beside.isolation
        return [doc for attachment in self.attachments for doc in attachment.isolation] + beside

    @property
    def notices(self) -> list[str]:
        """What the person at the process should read."""
        return [notice for attachment in self.all for notice in attachment.notices]

    def reply(self) -> AttachReply:
        """Tell the process what it applies to itself."""
        environment: dict[str, str] = {}
        for attachment in self.all:
            environment.update(attachment.environment)
        threads = [item.threads for item in self.all if item.threads is not None]
        return AttachReply(
            lease_id=self.lease_id,
            environment=environment,
            threads=min(threads, default=None),
            isolation=self.isolation,
            caps=[cap for attachment in self.attachments for cap in attachment.caps],
            notices=self.notices,
        )


class HolderBook:
    """The records of one agent.

    Parameters
    ----------
    directory : Path
        Private directory; made if it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)

    def save(self, record: HolderRecord) -> None:
        """Write a record in place of an older one of the same lease."""
        path = self._path(record.lease_id)
        beside = path.with_suffix(".new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(codec.encode(record))
        beside.replace(path)

    def remove(self, lease_id: str) -> None:
        """Remove a record; nothing happens if there is none."""
        self._path(lease_id).unlink(missing_ok=True)

    def load(self) -> list[HolderRecord]:
        """Read all records; drafts that an agent was killed over are removed: this one is alone here."""
        for draft in self._directory.glob("*.new"):
            draft.unlink(missing_ok=True)
        records = (self._read(path) for path in sorted(self._directory.glob("*.json")))
        return [record for record in records if record is not None]

    def _read(self, path: Path) -> HolderRecord | None:
        try:
            record = codec.decode(path.read_bytes(), HolderRecord)
            if record.format == names.FORMAT and self._path(record.lease_id) == path:
                return record
            reason = f"it has format {record.format} and names lease {record.lease_id}"
        except (OSError, codec.BadMessage, InvalidValue) as error:
            reason = str(error)
        logger.error("The record %s of a holder cannot be used and is put aside: %s", path, reason)
        path.replace(path.with_suffix(".unreadable"))
        return None

    def _path(self, lease_id: str) -> Path:
        """Return the file of a lease; an id comes from elsewhere, so it is checked first."""
        if not _LEASE_ID.fullmatch(lease_id):
            raise InvalidValue(f"“{lease_id[:80]}” is not the id of a lease.")
        return self._directory / f"{lease_id}.json"
