"""The fair order, criterion by criterion, and that nothing starves under it."""

from __future__ import annotations

import random

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import HOLDING, Holder, Lease, LeaseState, Priority, Want
from jupyter_gpupool.core.policies.order import AGING_MS, Part, Standing
from jupyter_gpupool.core.policies.order.classes import ADVANTAGE_MS, rank
from jupyter_gpupool.core.policies.order.fair import fair
from tests.support.books import DEVICE_HOUR, HOUR_MS, Books

LOW, NORMAL, HIGH = Priority.LOW, Priority.NORMAL, Priority.HIGH


def a_request(owner: str, requested_ms: int = 0, priority: Priority = NORMAL) -> Lease:
    """Make a request of 0.25 of a CUDA device."""
    return Lease(
        id=f"lease_{requested_ms}_{owner}",
        owner=owner,
        holder=Holder(key=owner),
        want=Want(compute_milli=250, kind=DeviceKind.CUDA, priority=priority),
        state=LeaseState.QUEUED,
        requested_ms=requested_ms,
        requested_wall_ms=0,
    )


FULL = Standing(held_milli=1000, fair_milli=1000)
LATER = AGING_MS - 1


@pytest.mark.parametrize(
    ("ann", "bob", "asked"),
    [
        pytest.param(Standing(), Standing(), (NORMAL, NORMAL), id="arrival, where all else is alike"),
        pytest.param(
            Standing(held_milli=3000, fair_milli=1000, oldest="lease_0_ann", aging_ms=5),
            Standing(deserved_milli=1000),
            (LOW, HIGH),
            id="the oldest request of an owner that has waited too long, before all",
        ),
        pytest.param(
            Standing(held_milli=900, deserved_milli=1000),
            Standing(fair_milli=500),
            (NORMAL, HIGH),
            id="below what is deserved, before what is not deserved",
        ),
        pytest.param(
            Standing(held_milli=100, deserved_milli=1000),
            Standing(held_milli=900, deserved_milli=1000),
            (NORMAL, HIGH),
            id="further below what is deserved",
        ),
        pytest.param(
            Standing(held_milli=500, fair_milli=2000),
            Standing(held_milli=500, fair_milli=1000),
            (NORMAL, HIGH),
            id="a less full fair share",
        ),
        pytest.param(
            Standing(held_milli=900, fair_milli=1000, above=(Part(1000, 0, 4000),)),
            Standing(fair_milli=1000, above=(Part(4000, 0, 4000),)),
            (NORMAL, HIGH),
            id="the group that has less of its fair share, whatever its owners have",
        ),
        pytest.param(FULL, FULL, (HIGH, NORMAL), id="the higher class"),
        pytest.param(FULL, FULL, (NORMAL, LOW), id="low gives way"),
        pytest.param(
            Standing(urgent_ms=ADVANTAGE_MS // 2),
            Standing(urgent_ms=ADVANTAGE_MS),
            (HIGH, HIGH),
            id="the high priority that was held for less long",
        ),
        pytest.param(
            Standing(used_milli_ms=DEVICE_HOUR),
            Standing(used_milli_ms=4 * DEVICE_HOUR),
            (NORMAL, NORMAL),
            id="less faded usage",
        ),
        pytest.param(
            Standing(used_milli_ms=4 * DEVICE_HOUR, weight_milli=8000),
            Standing(used_milli_ms=DEVICE_HOUR),
            (NORMAL, NORMAL),
            id="less faded usage by weight",
        ),
        pytest.param(
            Standing(attained_milli_ms=DEVICE_HOUR // 5),
            Standing(attained_milli_ms=DEVICE_HOUR),
            (NORMAL, NORMAL),
            id="less attained service since being idle",
        ),
    ],
)
def test_who_is_first(ann: Standing, bob: Standing, asked: tuple[Priority, Priority]) -> None:
    hers, his = a_request("ann", 0, asked[0]), a_request("bob", 0, asked[1])
    standings = {"ann": ann, "bob": bob}
    assert list(fair([his, hers], LATER, standings)) == [hers, his]
    # the other way round as well, so that it is not for her name
    swapped = {
        "ann": bob._replace(oldest=""),
        "bob": ann._replace(oldest="lease_0_bob" if ann.oldest else ""),
    }
    hers, his = a_request("ann", 1, asked[1]), a_request("bob", 0, asked[0])
    assert list(fair([hers, his], LATER, swapped)) == [his, hers]


def test_a_high_priority_is_worth_no_more_than_a_normal_one_after_an_hour() -> None:
    ranks = [rank(HIGH, minutes * 60_000) for minutes in (0, 15, 30, 45, 60, 600)]
    assert ranks == [200, 175, 150, 125, 100, 100]
    assert rank(NORMAL, HOUR_MS) == 100
    assert rank(LOW, HOUR_MS) == 0


def test_only_the_oldest_request_of_an_owner_ages() -> None:
    """Nobody gets ahead of others by asking a hundred times."""
    books = Books(devices=1)
    books.hold(1000, "ann")
    mine = [books.ask(250, "ann") for _ in range(3)]
    books.pass_time(AGING_MS)
    his = books.ask(250, "bob")
    ordered = fair([*mine, his], books.now_ms, books.book.of(["ann", "bob"], books.now_ms))
    assert [it.id for it in ordered] == [mine[0].id, his.id, mine[1].id, mine[2].id]


def serve(books: Books, free_milli: int) -> None:
    """Grant in the fair order until the first that does not fit, as one device does."""
    waiting = [it for it in books.leases.values() if it.state not in HOLDING]
    owners = {it.owner for it in waiting}
    for lease in fair(waiting, books.now_ms, books.book.of(owners, books.now_ms)):
        if lease.want.compute_milli > free_milli:
            return
        free_milli -= lease.want.compute_milli
        books.grant(lease)


@pytest.mark.parametrize("seed", range(3))
def test_every_request_is_served_in_bounded_time_whatever_others_do(seed: int) -> None:
    """One device, leases of ten minutes; a crowd that always asks for more, also with high priority."""
    chance = random.Random(seed)
    books, minute = Books(devices=1), 60_000
    victim, ends = None, 0
    for step in range(600):
        books.pass_time(minute)
        for lease in list(books.leases.values()):
            if lease.granted_ms is not None and books.now_ms - lease.granted_ms >= 10 * minute:
                books.end(lease)
        for name in range(chance.randrange(4)):
            size = chance.choice((100, 250, 500))
            books.ask(size, f"rival{chance.randrange(8)}-{name}", priority=chance.choice((NORMAL, HIGH)))
        if step == 60:
            victim = books.ask(1000, "victim", priority=LOW).id
        held = sum(it.want.compute_milli for it in books.leases.values() if it.state in HOLDING)
        serve(books, 1000 - held)
        if victim is not None and books.leases[victim].state in HOLDING:
            ends = step
            break
    # it ages for half an hour; then at most one request of each of 32 rivals is older, ten minutes each
    assert 60 < ends < 60 + 30 + 32 * 10
