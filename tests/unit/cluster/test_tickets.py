"""Tickets: single use, bounded in time, the newest only."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from jupyter_gpupool.cluster import tickets
from jupyter_gpupool.cluster.errors import StaleTicket
from jupyter_gpupool.cluster.tickets import TicketBook
from jupyter_gpupool.protocol.messages import PrepareOrder


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _order(ticket: str, *, lease_id: str = "lease_1", generation: int = 1) -> PrepareOrder:
    digest = hashlib.sha256(ticket.encode()).hexdigest()
    return PrepareOrder(
        lease_id=lease_id,
        generation=generation,
        owner="ann",
        ticket_sha256=digest,
        expires_seconds=60,
        shares=[],
    )


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "ANNOUNCE_SECONDS", 0.05)


@pytest.mark.asyncio
async def test_a_ticket_gives_its_order_once() -> None:
    book = TicketBook()
    order = _order("a")
    book.expect(order)
    assert await book.redeem("a") is order
    with pytest.raises(StaleTicket, match="used before"):
        await book.redeem("a")


@pytest.mark.asyncio
async def test_tickets_from_before_a_pool_was_joined_are_refused() -> None:
    book = TicketBook()
    book.expect(_order("a"))
    book.forget_all()
    with pytest.raises(StaleTicket):
        await book.redeem("a")


@pytest.mark.asyncio
async def test_an_expired_ticket_is_refused() -> None:
    clock = _Clock()
    book = TicketBook(clock)
    book.expect(_order("a"))
    clock.now = 60.0
    with pytest.raises(StaleTicket, match="expired"):
        await book.redeem("a")


@pytest.mark.asyncio
async def test_a_ticket_that_is_announced_a_moment_later_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tickets, "ANNOUNCE_SECONDS", 10)
    book = TicketBook()
    early = asyncio.ensure_future(book.redeem("a"))
    await asyncio.sleep(0)
    book.expect(_order("b", lease_id="lease_2"))
    await asyncio.sleep(0)
    assert not early.done()
    order = _order("a")
    book.expect(order)
    assert await early is order


@pytest.mark.asyncio
async def test_an_unknown_ticket_is_refused_after_a_short_wait() -> None:
    with pytest.raises(StaleTicket, match="waits for this ticket"):
        await TicketBook().redeem("a")


@pytest.mark.asyncio
async def test_the_newest_ticket_of_a_lease_is_the_only_one() -> None:
    book = TicketBook()
    book.expect(_order("a"))
    book.expect(_order("b"))
    with pytest.raises(StaleTicket):
        await book.redeem("a")
    assert (await book.redeem("b")).lease_id == "lease_1"


@pytest.mark.asyncio
async def test_an_order_of_an_earlier_generation_that_comes_late_changes_nothing() -> None:
    book = TicketBook()
    book.expect(_order("b", generation=2))
    book.expect(_order("a", generation=1))
    assert (await book.redeem("b")).generation == 2


@pytest.mark.asyncio
async def test_the_ticket_of_a_lease_that_ended_is_refused() -> None:
    book = TicketBook()
    book.expect(_order("a", generation=2))
    book.revoke("lease_1", 1)
    book.revoke("lease_2", 9)
    assert (await book.redeem("a")).generation == 2
    book.expect(_order("b", generation=2))
    book.revoke("lease_1", 2)
    with pytest.raises(StaleTicket, match="ended"):
        await book.redeem("b")


@pytest.mark.asyncio
async def test_what_expired_long_ago_is_forgotten() -> None:
    clock = _Clock()
    book = TicketBook(clock)
    book.expect(_order("a"))
    clock.now = 200.0
    book.expect(_order("b", lease_id="lease_2"))
    with pytest.raises(StaleTicket, match="waits for this ticket"):
        await book.redeem("a")
