"""Where quotas, standings, estimates and reclaim take part in what the pool decides.

Rule of this module: one function for each question that the queue asks of them, and nothing else; the
answers are worked out elsewhere, in the same turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from jupyter_gpupool.core.activity import ActivityBook
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import Lease, Share, Want
from jupyter_gpupool.core.policies.order import Standing
from jupyter_gpupool.core.quotas import ask
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.quotas.usage import OwnerUsage

if TYPE_CHECKING:
    from jupyter_gpupool.core.ledger import Ledger
    from jupyter_gpupool.core.turn import Turn


class StandingsBook(Protocol):
    """What is kept of owners, lease by lease."""

    def note(self, before: Lease | None, after: Lease | None) -> None:
        """Take over one change of one lease; None for one that is new, or has ended."""

    def capacity(self, milli: Mapping[DeviceKind, int]) -> None:
        """Take over how much compute the pool has of each kind, thousandths of devices."""

    def of(self, owners: Iterable[str], now_ms: int) -> Mapping[str, Standing]:
        """Say how some owners stand at a pool time."""

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Take over one moment in pool time and UTC; every event is one."""

    def rows(self, owners: Iterable[str] | None = None) -> list[OwnerUsage]:
        """Return what must be written down of some owners (of all)."""


class NoStandings:
    """What is kept of owners where nothing depends on it."""

    def note(self, before: Lease | None, after: Lease | None) -> None:
        """Take over one change of one lease."""

    def capacity(self, milli: Mapping[DeviceKind, int]) -> None:
        """Take over how much compute the pool has."""

    def of(self, owners: Iterable[str], now_ms: int) -> Mapping[str, Standing]:
        """Say that owners stand alike."""
        return {}

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Take over one moment."""

    def rows(self, owners: Iterable[str] | None = None) -> list[OwnerUsage]:
        """Return nothing."""
        return []


def standings_book(config: PoolConfig, usage: Iterable[OwnerUsage] = ()) -> StandingsBook:
    """Make the book for a pool; `Ledger.put` calls its ``note`` for every change of a lease.

    Parameters
    ----------
    config : PoolConfig
        The pool's rules.
    usage : iterable of OwnerUsage
        What the journal says that owners have used.
    """
    return Book(config.quotas, half_life_ms=config.half_life_ms, aging_ms=config.aging_ms, usage=usage)


def check_request(turn: Turn, owner: str, want: Want) -> Want:
    """See that an owner's quotas could allow a request at all; what would fit later may wait.

    Returns
    -------
    Want
        The request; a smaller one where it says ``at_most`` and the quota allows no more.

    Raises
    ------
    QuotaExceeded
        If they never could; the message names the limit, whose it is, what is used, and what would fit.
    """
    return ask.check_request(turn, owner, want)


def check_now(turn: Turn, lease: Lease) -> None:
    """See that quotas and reservations allow a request now, for who would not wait.

    Raises
    ------
    QuotaExceeded, DoesNotFitNow
        If they do not.
    """
    ask.check_now(turn, lease.owner, lease.want)
    reserved = turn.ledger.reservations.reason(turn.ledger, lease, turn.now_ms)
    if reserved and turn.queue.fits_without(lease, frozenset()):
        raise DoesNotFitNow(f"This is not granted now: {reserved}.", hint="Ask for less time, or wait.")


def may_grant(
    ledger: Ledger, config: PoolConfig, lease: Lease, shares: tuple[Share, ...], now_ms: int
) -> bool:
    """Whether quotas and reservations allow that a request gets these shares; else it waits, by policy."""
    devices = tuple(it.device_id for it in shares)
    if not ledger.reservations.may_grant(ledger, lease, devices, now_ms):
        return False
    return ask.may_grant(ledger, lease, shares, now_ms)


def quota_reason(ledger: Ledger, config: PoolConfig, lease: Lease, now_ms: int) -> str:
    """Say which quota keeps a request from being granted, as a clause; empty when none does."""
    return ask.reason(ledger, lease, now_ms)


def quota_wakes_ms(ledger: Ledger) -> int | None:
    """Pool time at which requests that wait for the next week, or the end of a reservation, may go on.

    None when nobody can wait for that.
    """
    if not ledger.any_waiting():
        return None
    times = (ask.next_week_ms(ledger), ledger.reservations.wakes_ms(ledger))
    return min((it for it in times if it is not None), default=None)


def check_resize(turn: Turn, lease: Lease, shares: tuple[Share, ...]) -> None:
    """See that the quotas allow a held lease another size.

    Raises
    ------
    QuotaExceeded
        If they do not.
    """
    ask.check_resize(turn, lease, shares)


def check_move(turn: Turn, lease: Lease, want: Want, shares: tuple[Share, ...]) -> None:
    """See that quotas and reservations allow a held lease these shares in place of its own.

    Raises
    ------
    QuotaExceeded, DoesNotFitNow
        If they do not.
    """
    ask.check_move(turn, lease, want, shares)
    devices = tuple(it.device_id for it in shares)
    if not turn.ledger.reservations.may_grant(turn.ledger, replace(lease, want=want), devices, turn.now_ms):
        raise DoesNotFitNow("That is reserved for others by now, or soon.", hint="Ask for less, or wait.")


def check_pin(turn: Turn, lease: Lease) -> None:
    """See that the quotas allow that one more lease is pinned.

    Raises
    ------
    QuotaExceeded
        If they do not.
    """
    ask.check_pin(turn, lease)


def expected_end_ms(ledger: Ledger, lease: Lease, now_ms: int) -> int | None:
    """Pool time at which a granted lease is expected to end by its owner's history; None when unknown.

    The queue asks only of leases that say nothing of it themselves (``hold_ms``).
    """
    end = ledger.history.end(lease, now_ms)
    return None if end is None else end.middle_ms


def activity_book() -> ActivityBook:
    """Make the book of what holders do; `Ledger.put` calls its ``follow`` for every change of a lease."""
    return ActivityBook()


def reclaim(turn: Turn) -> None:
    """Take leases back, or tell their owners that they will be, while somebody entitled is blocked.

    Called after every pass through the queue, and when time has passed. `Queue.blocked` says who waits for
    what, and `Queue.could_use` where.
    """
    from jupyter_gpupool.core.reclaim import reclaim as look

    look(turn)
