"""Records of holders, by which the next agent adopts what this one attached."""

from __future__ import annotations

import re

import msgspec

from jupyter_gpupool.backends.base import Attachment, ProcessMark
from jupyter_gpupool.cluster.records import RecordBook
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import AttachReply


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


class HolderBook(RecordBook[HolderRecord]):
    """The holders of one agent, by lease."""

    kind = HolderRecord
    key = "lease_id"
    ids = re.compile(r"[A-Za-z0-9_-]{1,80}")
    named = "lease"
    subject = "a holder"
