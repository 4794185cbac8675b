"""Whose snapshots there are, and the key that they are signed with.

Rules of this module: an owner sees their own and nobody else's, whoever administers the pool; a store is
never opened here: what is told of one is what its holders said. A key is made once, is never logged, and
never changes, because what was signed with it would be lost.
"""

from __future__ import annotations

import base64
import secrets

import msgspec

from jupyter_gpupool.protocol import codec
from jupyter_gpupool.protocol.documents import SnapshotDoc, SnapshotKeyDoc, SnapshotsReport
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.journaling import JournalThread

#: Length of a key, bytes.
KEY_BYTES = 32
#: Of how many stores of one owner something is kept.
STORES = 16


class SnapshotIndex:
    """What is known of owners' snapshots.

    Parameters
    ----------
    journal : JournalThread
        Where it is written down.
    clock : PoolClock
        When.
    """

    def __init__(self, journal: JournalThread, clock: PoolClock) -> None:
        self._journal = journal
        self._clock = clock

    async def key(self, who: Principal) -> SnapshotKeyDoc:
        """Return the key of this owner's snapshots, made when it is first asked for.

        Raises
        ------
        JournalUnavailable
            If it cannot be written down: a key that would be forgotten is not given out.
        """
        fresh = secrets.token_bytes(KEY_BYTES)
        key = await self._journal.read(lambda journal: journal.snapshot_key(who.owner, fresh))
        return SnapshotKeyDoc(key=base64.b64encode(key).decode())

    async def of(self, who: Principal) -> list[SnapshotDoc]:
        """Return this owner's snapshots in all stores, newest first."""
        told = await self._journal.read(lambda journal: journal.snapshots(who.owner))
        docs = [doc for text in told for doc in codec.decode(text, list[SnapshotDoc])]
        return sorted(docs, key=lambda doc: (doc.created_ms, doc.id), reverse=True)

    async def told(self, who: Principal, body: bytes) -> list[SnapshotDoc]:
        """Take what a holder says of a store, and return what is known then.

        Raises
        ------
        BadMessage, InvalidValue
            If it cannot be read, or holds what nobody could show.
        JournalUnavailable
            If it cannot be written down.
        """
        report = validate.snapshots_report(codec.decode(body, SnapshotsReport))
        docs = [msgspec.structs.replace(doc, store=report.store) for doc in report.snapshots]
        text, wall_ms = codec.encode(docs), self._clock.read().wall_ms
        await self._journal.read(
            lambda journal: journal.write_snapshots(
                who.owner, report.store, text, wall_ms=wall_ms, stores=STORES
            )
        )
        return await self.of(who)
