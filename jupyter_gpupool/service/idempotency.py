"""A create that is sent twice is done once.

Rules of this module: a key belongs to its owner for 24 hours of pool time, and to one body; it is written
down in the transaction that writes the lease, so both are there or neither is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from jupyter_gpupool.cluster.journal import IdempotencyRow
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.service.journaling import JournalThread

#: For how long a key is remembered, milliseconds.
KEY_MS = 24 * 3600 * 1000
#: How many keys are kept at hand; older ones are looked up in the journal.
KEYS = 50_000


class IdempotencyConflict(GPUPoolError):
    """Raised when a key comes again with another body. Use a new key for each new request."""

    code = "idempotency_conflict"


@dataclass(slots=True)
class _Entry:
    row: IdempotencyRow
    #: Done when the lease is written down; None when it was before.
    making: asyncio.Future[None] | None = None


class KeyBook:
    """The keys that are in use.

    Parameters
    ----------
    rows : sequence of IdempotencyRow
        Keys of the journal, newest first.
    journal : JournalThread
        Asked for keys that are not at hand.
    now_ms : callable
        Pool time.
    """

    def __init__(
        self, rows: Sequence[IdempotencyRow], journal: JournalThread, now_ms: Callable[[], int]
    ) -> None:
        self._journal = journal
        self._now_ms = now_ms
        self._complete = len(rows) < KEYS
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict(
            ((row.owner, row.key), _Entry(row)) for row in reversed(rows)
        )

    async def once(
        self,
        row: IdempotencyRow,
        make: Callable[[IdempotencyRow], Awaitable[None]],
    ) -> str:
        """Call ``make`` unless a create with this key was made, and return the id of its lease.

        Raises
        ------
        IdempotencyConflict
            If it was made with another body.
        """
        slot = (row.owner, row.key)
        while (present := self._live(slot)) is not None:
            if await self._made(present, row):
                return present.row.lease_id
        making: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = self._entries[slot] = _Entry(row, making)
        try:
            older = await self._older(row)
            if older is None:
                await make(row)
            else:
                entry.row = older
                await self._made(_Entry(older), row)
        except BaseException:
            self._entries.pop(slot, None)
            making.cancel()
            raise
        entry.making = None
        making.set_result(None)
        self._trim()
        return entry.row.lease_id

    def _live(self, slot: tuple[str, str]) -> _Entry | None:
        entry = self._entries.get(slot)
        return entry if entry is not None and entry.row.expires_ms > self._now_ms() else None

    async def _older(self, row: IdempotencyRow) -> IdempotencyRow | None:
        if self._complete:
            return None
        now_ms = self._now_ms()
        return await self._journal.read(lambda journal: journal.recall(row.owner, row.key, now_ms))

    async def _made(self, entry: _Entry, row: IdempotencyRow) -> bool:
        """Wait for the create that ``row`` repeats; False when that one was refused."""
        if entry.row.body_sha256 != row.body_sha256:
            raise IdempotencyConflict(
                "This Idempotency-Key was used for another request.", hint="Use a new key for each request."
            )
        making = entry.making
        if making is not None:
            await asyncio.wait((making,))
        return making is None or not making.cancelled()

    def _trim(self) -> None:
        while len(self._entries) > KEYS:
            slot, entry = next(iter(self._entries.items()))
            del self._entries[slot]
            self._complete = self._complete and entry.row.expires_ms <= self._now_ms()


def body_sha256(kernel_id: str, body: bytes) -> str:
    """Return the hash by which a repeated request is known as the same."""
    return hashlib.sha256(kernel_id.encode() + b"\0" + body).hexdigest()
