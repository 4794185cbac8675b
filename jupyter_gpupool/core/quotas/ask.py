"""What the pool asks of quotas, in the turn in which it decides.

Rule of this module: one look at the book for each question; where nothing is limited there is nothing to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease, Share, Want
from jupyter_gpupool.core.quotas import check
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.shares import proportional_memory

if TYPE_CHECKING:
    from jupyter_gpupool.core.ledger import Ledger
    from jupyter_gpupool.core.turn import Turn


def _book(ledger: Ledger) -> Book | None:
    """Return the book; None where nothing is limited."""
    book = ledger.standings
    return book if isinstance(book, Book) and not book.quotas.say_nothing else None


def check_request(turn: Turn, owner: str, want: Want) -> Want:
    """See that a request could be allowed at all, and trim it where it says so."""
    book, kind = _book(turn.ledger), want.kind
    if book is None:
        return want
    check.check_priority(book, owner, want.priority)
    if kind is None:
        return want  # no device is known yet: this is looked at again when it would be granted
    sizes = []
    if want.memory_bytes is None and any(
        it.what == "memory" for it in check.bounds(book, owner, kind, turn.now_ms)
    ):
        # it gets its part of the memory of a device, so that their sizes matter
        sizes = [device.memory_bytes for _, device in turn.queue.matching(want)]
    if want.at_most:
        want = check.trimmed(book, owner, kind, want, turn.now_ms, max(sizes, default=None))
    more = check.more_of(want)
    if sizes:
        least = proportional_memory(want.compute_milli, min(sizes))
        more = more._replace(memory_bytes=least * want.count)
    bound = check.never(book, owner, kind, more, turn.now_ms)
    if bound is not None:
        raise check.refusal(bound, owner, alone=True)
    return want


def check_now(turn: Turn, owner: str, want: Want) -> None:
    """See that a request is allowed now."""
    book = _book(turn.ledger)
    if book is not None and want.kind is not None:
        check.check_grow(book, owner, want.kind, check.more_of(want), turn.now_ms)


def _in_the_way(
    ledger: Ledger, lease: Lease, kind: DeviceKind | None, shares: tuple[Share, ...], now_ms: int
) -> check.Bound | None:
    book = _book(ledger)
    if book is None or kind is None:
        return None
    return check.exceeded(book, lease.owner, kind, check.more_of(lease.want, shares), now_ms)


def may_grant(ledger: Ledger, lease: Lease, shares: tuple[Share, ...], now_ms: int) -> bool:
    """Whether a request may get these shares now."""
    kind = lease.want.kind
    if kind is None and shares:
        device = ledger.account(shares[0].device_id).device
        kind = device.kind if device is not None else None
    return _in_the_way(ledger, lease, kind, shares, now_ms) is None


def reason(ledger: Ledger, lease: Lease, now_ms: int) -> str:
    """Say which limit keeps a request waiting; empty when none does."""
    bound = _in_the_way(ledger, lease, lease.want.kind, (), now_ms)
    return check.describe_bound(bound, lease.owner) if bound is not None else ""


def check_resize(turn: Turn, lease: Lease, shares: tuple[Share, ...]) -> None:
    """See that a held lease may have another size."""
    book, kind = _book(turn.ledger), lease.want.kind
    if book is not None and kind is not None:
        check.check_grow(book, lease.owner, kind, check.more_in_resize(lease, shares), turn.now_ms)


def check_move(turn: Turn, lease: Lease, want: Want, shares: tuple[Share, ...]) -> None:
    """See that a held lease may have other shares in place of its own."""
    book = _book(turn.ledger)
    if book is not None and want.kind is not None:
        more = check.more_in_move(lease, want, shares)
        check.check_grow(book, lease.owner, want.kind, more, turn.now_ms)


def check_pin(turn: Turn, lease: Lease) -> None:
    """See that one more lease of its owner may be pinned."""
    book = _book(turn.ledger)
    if book is not None:
        check.check_pin(book, lease.owner)


def next_week_ms(ledger: Ledger) -> int | None:
    """Return the pool time at which what waits for the next week may go on; None when nothing does."""
    book = _book(ledger)
    return book.next_week_ms() if book is not None and ledger.any_waiting() else None
