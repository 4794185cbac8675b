"""Tickets: which processes the agent expects.

Rules of this module: an agent knows digests, never tickets; each is good for one use, whatever came of it;
the newest for a lease is the only one.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gpupool.cluster.errors import StaleTicket
from jupyter_gpupool.protocol.messages import PrepareOrder

#: How long a process waits for a ticket that the pool has not announced yet, seconds: an agent that was just
#: started again may take some to be told.
ANNOUNCE_SECONDS = 5.0
#: How long it is known, beyond its time, why a ticket is no good, and how often the rest is dropped, seconds.
REMEMBER_SECONDS = 60.0
FORGET_EVERY_SECONDS = 5.0
_NEW_ONE = "Ask the pool for the lease again: it gives a new ticket while the lease still waits."


@dataclass(slots=True)
class _Expected:
    order: PrepareOrder
    until: float
    #: Why it is good for nothing any more; empty while it is.
    spent: str = ""


class TicketBook:
    """The tickets that an agent expects.

    Parameters
    ----------
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_lease: dict[str, _Expected] = {}
        self._by_digest: dict[str, _Expected] = {}
        self._forget_at = 0.0
        self._announced = asyncio.Event()

    def expect(self, order: PrepareOrder) -> None:
        """Expect the holder of a lease instead of what was expected for it; ignore older generations."""
        known = self._by_lease.get(order.lease_id)
        if known is not None and known.order.generation > order.generation:
            return
        self._forget_old()
        if known is not None:
            self._by_digest.pop(known.order.ticket_sha256, None)
        expected = _Expected(order, self._clock() + order.expires_seconds)
        self._by_lease[order.lease_id] = self._by_digest[order.ticket_sha256] = expected
        self._announced.set()
        self._announced = asyncio.Event()

    def revoke(self, lease_id: str, generation: int) -> None:
        """Expect nobody for this lease any more."""
        known = self._by_lease.get(lease_id)
        if known is not None and known.order.generation <= generation:
            known.spent = "is of a lease that has ended"

    def forget_all(self) -> None:
        """Expect nobody any more: a pool that is joined says anew for whom it waits."""
        self._by_lease.clear()
        self._by_digest.clear()

    async def redeem(self, ticket: str) -> PrepareOrder:
        """Use a ticket up, and return what was ordered for it.

        Raises
        ------
        StaleTicket
            If it is unknown (also after a short wait), used or expired.
        """
        digest = hashlib.sha256(ticket.encode()).hexdigest()
        try:
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                # how long a look-up takes tells something of the digest at most, and nothing of a ticket
                while (found := self._by_digest.get(digest)) is None:
                    await self._announced.wait()
        except TimeoutError:
            raise StaleTicket("No lease on this node waits for this ticket.", hint=_NEW_ONE) from None
        if not found.spent and self._clock() >= found.until:
            found.spent = "has expired"
        if found.spent:
            raise StaleTicket(f"This ticket of {found.order.lease_id} {found.spent}.", hint=_NEW_ONE)
        found.spent = "was used before"
        return found.order

    def _forget_old(self) -> None:
        """Drop what expired long ago; until then it can be told why a ticket is no good."""
        now = self._clock()
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_EVERY_SECONDS
        old = [it for it in self._by_lease.values() if now > it.until + REMEMBER_SECONDS]
        for expected in old:
            del self._by_lease[expected.order.lease_id]
            self._by_digest.pop(expected.order.ticket_sha256, None)
