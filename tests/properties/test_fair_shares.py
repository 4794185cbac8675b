"""Standings under any course of leases: they add up, nobody is cheated, and order does not depend on luck."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import HOLDING, Lease, Priority
from jupyter_gpupool.core.policies.order.fair import fair
from jupyter_gpupool.core.quotas import Amount, Group, Quotas, Rules
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.quotas.water import Claim, Vessel
from tests.support.books import Books

CLAIMS = st.lists(
    st.builds(Claim, st.integers(0, 3000), st.integers(0, 8000), st.integers(1, 5000)),
    min_size=1,
    max_size=12,
)
OWNERS = ("ann", "bob", "cyd", "dee", "eve")
NAMED = frozenset({"course", "lab", "uni"})


def shares(available: int, claims: list[Claim]) -> list[int]:
    """Share an amount out among claims."""
    vessel = Vessel()
    for claim in claims:
        vessel.replace(None, claim)
    level = vessel.level(available)
    return [level.share(claim) for claim in claims]


@given(CLAIMS, st.integers(0, 30_000))
@settings(deadline=None)
def test_what_is_shared_out_is_never_more_than_there_is_and_nobody_gets_more_than_asked(
    claims: list[Claim], available: int
) -> None:
    got = shares(available, claims)
    assert sum(got) <= available
    assert all(0 <= it <= claim.base + claim.need for it, claim in zip(got, claims, strict=True))
    asked = sum(claim.base + claim.need for claim in claims)
    # rounding down costs less than one unit for each claim
    assert sum(got) > min(available, asked) - len(claims) - 1


@given(CLAIMS, st.integers(0, 30_000))
@settings(deadline=None)
def test_nobody_is_below_what_they_deserve_where_it_is_there(claims: list[Claim], available: int) -> None:
    deserved = sum(claim.base for claim in claims)
    for it, claim in zip(shares(available, claims), claims, strict=True):
        assert it >= claim.base or deserved > available


@given(CLAIMS, st.integers(0, 30_000), st.integers(1, 5000), st.data())
@settings(deadline=None)
def test_more_weight_never_gives_less(
    claims: list[Claim], available: int, more: int, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(claims) - 1))
    before = shares(available, claims)[number]
    claims[number] = claims[number]._replace(weight=claims[number].weight + more)
    assert shares(available, claims)[number] >= before


@st.composite
def quotas(draw: st.DrawFn) -> Quotas:
    """Make quotas with a tree of three groups."""

    def rules() -> Rules:
        deserved = draw(st.none() | st.integers(0, 2000))
        return Rules(weight_milli=draw(st.integers(1, 3000)), deserved_milli=Amount.each(deserved))

    return Quotas(
        each=rules(),
        groups=(
            Group(name="uni", rules=rules()),
            Group(name="course", parent="uni", rules=rules(), owners=frozenset({"ann", "bob"})),
            Group(name="lab", parent="uni", rules=rules(), each=rules(), owners=frozenset({"cyd"})),
        ),
        owners={"eve": rules()},
    )


def play(books: Books, seed: int, steps: int = 40) -> None:
    """Let leases come and go."""
    chance = random.Random(seed)
    for _ in range(steps):
        books.pass_time(chance.choice((0, 1, 60_000, 3_600_000)))
        live = list(books.leases.values())
        lease = chance.choice(live) if live else None
        what = chance.random()
        if lease is None or what < 0.5:
            size, owner = chance.randrange(1, 1001), chance.choice(OWNERS)
            books.ask(size, owner, count=chance.choice((1, 1, 2)), priority=chance.choice(list(Priority)))
        elif what < 0.8 and lease.state not in HOLDING:
            books.grant(lease)
        else:
            books.end(lease)


@given(quotas(), st.integers(0, 10**6), st.integers(0, 6))
@settings(deadline=None, max_examples=30)
def test_standings_kept_step_by_step_are_those_worked_out_at_once(
    said: Quotas, seed: int, devices: int
) -> None:
    books = Books(said, devices)
    play(books, seed)
    kept = books.book.of(OWNERS, books.now_ms)
    books.restart()
    again = books.book.of(OWNERS, books.now_ms)
    assert {name: it.of_kind(DeviceKind.CUDA) for name, it in again.items()} == {
        name: it.of_kind(DeviceKind.CUDA) for name, it in kept.items()
    }
    _check_sums(books.book, kept, 1000 * devices)


def _check_sums(book: Book, kept: object, capacity: int) -> None:
    """See that no group, and not the pool, gives more than it has."""
    assert isinstance(kept, dict)
    assert sum(it.fair_milli for it in kept.values()) <= capacity
    for standing in kept.values():
        if standing.above:
            assert standing.fair_milli <= standing.above[-1].fair_milli <= capacity


@given(quotas(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_the_order_does_not_depend_on_how_requests_come_in_and_parts_are_ordered_as_the_whole(
    said: Quotas, seed: int
) -> None:
    books = Books(said, 3)
    play(books, seed)
    waiting = [it for it in books.leases.values() if it.state not in HOLDING]
    standings = books.book.of(OWNERS, books.now_ms)
    ordered = list(fair(waiting, books.now_ms, standings))
    assert sorted(it.id for it in ordered) == sorted(it.id for it in waiting)
    chance = random.Random(seed)
    shuffled = chance.sample(waiting, len(waiting))
    assert list(fair(shuffled, books.now_ms, standings)) == ordered
    some = set(chance.sample([it.id for it in waiting], len(waiting) // 2))
    part = [it for it in shuffled if it.id in some]
    assert list(fair(part, books.now_ms, standings)) == [it for it in ordered if it.id in some]
    _check_own_order(ordered)


def _check_own_order(ordered: list[Lease]) -> None:
    """See that of one owner and priority the earlier comes first."""
    for owner in OWNERS:
        for priority in Priority:
            mine = [it for it in ordered if it.owner == owner and it.want.priority is priority]
            assert mine == sorted(mine, key=lambda it: (it.requested_ms, it.id))
