"""Tickets: what a holder shows to the agent to be attached to its lease.

Rule of this module: a ticket is known to the service and to whoever may attach; the agent gets its SHA-256
only, and none of it is ever written to a file.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gpupool.core.leases import Lease

#: How long a ticket is good, milliseconds.
TICKET_MS = 60_000
#: A ticket with less time than this left is replaced rather than handed out, milliseconds.
SPARE_MS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """One ticket, good for one attach of one generation of one lease."""

    lease_id: str
    generation: int
    value: str
    expires_ms: int

    @property
    def sha256(self) -> str:
        """The only part that leaves the service unasked."""
        return hashlib.sha256(self.value.encode()).hexdigest()


class TicketBook:
    """The tickets that are good now, at most one for each lease.

    Parameters
    ----------
    now_ms : callable
        Pool time.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._tickets: dict[str, Ticket] = {}
        #: Leases whose tickets were announced to their agents.
        self._announced: set[str] = set()

    def for_order(self, lease: Lease) -> Ticket:
        """Return the ticket to prepare the agent with: the present one, or a new one if that is not good."""
        present = self.good(lease)
        return present if present is not None else self._mint(lease)

    def _mint(self, lease: Lease) -> Ticket:
        ticket = self.for_part(lease)
        self._tickets[lease.id] = ticket
        self._announced.discard(lease.id)
        return ticket

    def for_part(self, lease: Lease) -> Ticket:
        """Return a ticket for whoever joins a lease on another of its nodes: a new one each time.

        It is not kept: its one use cannot be seen from here, and who asks again is given another.
        """
        return Ticket(
            lease_id=lease.id,
            generation=lease.generation,
            value=secrets.token_urlsafe(32),
            expires_ms=self._now_ms() + TICKET_MS,
        )

    def good(self, lease: Lease) -> Ticket | None:
        """Return the lease's ticket if it is of this generation and has time left."""
        ticket = self._tickets.get(lease.id)
        if ticket is None or ticket.generation != lease.generation:
            return None
        return ticket if ticket.expires_ms - self._now_ms() > SPARE_MS else None

    def note(self, ticket: Ticket, *, announced: bool) -> bool:
        """Note that the agent hears of this ticket, or did not; return whether that is news.

        It hears of it, at the latest, soon after the ticket is shown to it.
        """
        if self._tickets.get(ticket.lease_id) != ticket or announced is (ticket.lease_id in self._announced):
            return False
        (self._announced.add if announced else self._announced.discard)(ticket.lease_id)
        return True

    def ready(self, lease: Lease) -> Ticket | None:
        """Return the lease's ticket if it is good and was announced to the agent."""
        return self.good(lease) if lease.id in self._announced else None

    def left_seconds(self, ticket: Ticket) -> float:
        """Return for how long a ticket is good, seconds."""
        return max(0.0, (ticket.expires_ms - self._now_ms()) / 1000)

    def forget(self, lease_id: str) -> None:
        """Drop the ticket of a lease that was attached or has ended."""
        self._tickets.pop(lease_id, None)
        self._announced.discard(lease_id)
