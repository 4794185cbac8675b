"""The small parts of a service: clocks, ids, tickets, principals, validation, waking."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import EndReason, Holder, Lease, LeaseState, Want
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseRequest
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.activity import Activity
from jupyter_gpupool.service.auth import Authenticator, Principal, Unauthenticated
from jupyter_gpupool.service.errors import STATUS, answer_for
from jupyter_gpupool.service.ids import LeaseIds
from jupyter_gpupool.service.tickets import SPARE_MS, TICKET_MS, TicketBook
from jupyter_gpupool.service.waiters import Waiters
from jupyter_gpupool.service.watch import Watch
from jupyter_gpupool.service.words import ENDED
from tests.support.service_bench import HandClock

ANN, BOB = "anns-token-0123456789", "bobs-token-0123456789"


def a_lease(owner: str = "ann", kernel_id: str = "") -> Lease:
    return Lease(
        id="lease_1",
        owner=owner,
        holder=Holder(key="k", kernel_id=kernel_id),
        want=Want(compute_milli=1),
        state=LeaseState.ATTACHING,
        requested_ms=0,
        requested_wall_ms=0,
        generation=1,
    )


class TestClock:
    """Pool time."""

    def test_begins_where_it_was_told_to(self) -> None:
        assert HandClock().clock(5000).now_ms() == 5000

    def test_follows_the_monotonic_clock_only(self) -> None:
        hands = HandClock()
        clock = hands.clock()
        hands.wall_seconds -= 1_000_000
        hands.monotonic_seconds += 1.5
        now = clock.read()
        assert now.now_ms == 1500
        assert now.wall_ms == int(hands.wall_seconds * 1000)


class TestIds:
    """Ids of leases."""

    def test_sort_in_the_order_in_which_they_were_made(self) -> None:
        times = iter([5, 5, 4, 3, 9])
        ids = LeaseIds(lambda: next(times))
        minted = [ids.mint() for _ in range(5)]
        assert minted == sorted(minted)
        assert len(set(minted)) == 5

    def test_are_uuids_of_version_7(self) -> None:
        import uuid

        made = uuid.UUID(LeaseIds(lambda: 1_700_000_000_000).mint().removeprefix("lease_"))
        assert made.version == 7
        assert made.variant == uuid.RFC_4122
        assert made.int >> 80 == 1_700_000_000_000


class TestTickets:
    """Tickets."""

    def test_one_stays_the_same_while_it_is_good(self) -> None:
        hands = HandClock()
        book = TicketBook(hands.clock().now_ms)
        ticket = book.for_order(a_lease())
        assert book.for_order(a_lease()) == ticket
        assert len(ticket.value) >= 43
        assert ticket.value not in ticket.sha256

    def test_one_is_handed_out_only_while_it_is_announced_to_the_agent(self) -> None:
        book = TicketBook(HandClock().clock().now_ms)
        ticket = book.for_order(a_lease())
        assert book.ready(a_lease()) is None
        book.note(ticket, announced=True)
        assert book.ready(a_lease()) == ticket
        book.note(ticket, announced=False)
        assert book.ready(a_lease()) is None

    def test_one_that_is_about_to_expire_is_replaced(self) -> None:
        hands = HandClock()
        clock = hands.clock()
        book = TicketBook(clock.now_ms)
        ticket = book.for_order(a_lease())
        assert book.left_seconds(ticket) == TICKET_MS / 1000
        hands.pass_seconds((TICKET_MS - SPARE_MS) / 1000)
        newer = book.for_order(a_lease())
        assert newer.value != ticket.value
        book.note(ticket, announced=True)
        assert book.ready(a_lease()) is None

    def test_a_restarted_kernel_needs_a_new_one(self) -> None:
        book = TicketBook(HandClock().clock().now_ms)
        ticket = book.for_order(a_lease())
        assert book.good(replace(a_lease(), generation=2)) is None
        assert book.for_order(replace(a_lease(), generation=2)).value != ticket.value

    def test_one_is_forgotten_with_its_use(self) -> None:
        book = TicketBook(HandClock().clock().now_ms)
        book.note(book.for_order(a_lease()), announced=True)
        book.forget("lease_1")
        assert book.ready(a_lease()) is None


class TestPrincipals:
    """Who is behind a token."""

    @pytest.mark.parametrize("header", [f"Bearer {ANN}", f"bearer {ANN}", f"token {ANN}", f"Bearer   {ANN} "])
    def test_an_owners_token_is_its_owner(self, header: str) -> None:
        assert Authenticator({"ann": ANN, "bob": BOB}).principal(header) == Principal(owner="ann")

    @pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {ANN}", ANN, "Bearer ünïcode"])
    def test_anything_else_is_nobody(self, header: str | None) -> None:
        with pytest.raises(Unauthenticated):
            Authenticator({"ann": ANN}).principal(header)

    def claim(self, generation: int = 1, owner: str = "ann", kernel_id: str = "k") -> KernelClaim:
        return KernelClaim(owner=owner, kernel_id=kernel_id, generation=generation)

    def test_a_kernels_token_is_that_kernel(self) -> None:
        token = mint_kernel_token(ANN, self.claim())
        assert Authenticator({"ann": ANN}).principal(f"Bearer {token}") == Principal(
            owner="ann", kernel_id="k"
        )

    def test_only_the_newest_generation_of_a_kernel_counts(self) -> None:
        auth = Authenticator({"ann": ANN})
        first, second = (mint_kernel_token(ANN, self.claim(number)) for number in (1, 2))
        auth.principal(f"Bearer {first}")
        auth.principal(f"Bearer {second}")
        with pytest.raises(Unauthenticated, match="earlier run"):
            auth.principal(f"Bearer {first}")

    @pytest.mark.parametrize(
        "claim_of",
        [
            lambda test: (BOB, test.claim()),
            lambda test: (ANN, test.claim(owner="bob")),
            lambda test: (ANN, test.claim(owner="eve")),
            lambda test: (ANN, test.claim(kernel_id="")),
        ],
    )
    def test_a_kernels_token_of_somebody_else_is_nobodys(self, claim_of: object) -> None:
        assert callable(claim_of)
        secret, claim = claim_of(self)
        with pytest.raises(Unauthenticated):
            Authenticator({"ann": ANN, "bob": BOB}).principal(f"Bearer {mint_kernel_token(secret, claim)}")

    def test_a_lease_belongs_to_its_owner_and_to_its_kernel(self) -> None:
        lease = a_lease(kernel_id="k")
        assert Principal(owner="ann").may_touch(lease)
        assert Principal(owner="ann", kernel_id="k").may_touch(lease)
        assert not Principal(owner="ann", kernel_id="other").may_touch(lease)
        assert not Principal(owner="bob").may_touch(lease)
        assert not Principal(owner="bob", kernel_id="k").may_touch(lease)


class TestValidation:
    """What the shape of a message does not say."""

    @pytest.mark.parametrize(
        "wanted",
        [
            LeaseRequest(compute_milli=0),
            LeaseRequest(compute_milli=1001),
            LeaseRequest(compute_milli=1, memory_bytes=0),
            LeaseRequest(compute_milli=1, memory_bytes=2**60),
            LeaseRequest(compute_milli=1, device="x" * 201),
            LeaseRequest(compute_milli=1, device="a\0b"),
            LeaseRequest(compute_milli=1, wait_seconds=float("inf")),
            LeaseRequest(compute_milli=1, wait_seconds=-0.1),
            LeaseRequest(compute_milli=1, hold_seconds=0.0),
            LeaseRequest(compute_milli=1, holder=HolderRequest(key="a\nb")),
        ],
    )
    def test_what_means_nothing_is_refused(self, wanted: LeaseRequest) -> None:
        with pytest.raises(InvalidValue):
            validate.lease_request(wanted)

    def test_nothing_is_refused_for_a_label(self) -> None:
        assert validate.label("a\nb\x1b[31m" + "x" * 300) == "a b [31m" + "x" * 192

    def test_durations_are_rounded_up_to_milliseconds(self) -> None:
        assert validate.milliseconds(0.0001) == 1
        assert validate.milliseconds(None) is None

    def test_only_some_reasons_are_for_clients(self) -> None:
        assert validate.end_reason("kernel_dead") is EndReason.KERNEL_DEAD
        with pytest.raises(InvalidValue, match="released"):
            validate.end_reason("agent_lost")


def test_every_reason_to_end_has_a_sentence() -> None:
    assert set(ENDED) == set(EndReason)


def test_an_error_that_is_not_in_the_table_is_a_bug() -> None:
    from jupyter_gpupool.core.errors import GPUPoolError, InvariantBroken

    assert answer_for(InvariantBroken("x"))[0] == 500
    assert GPUPoolError.code not in STATUS


def test_activity_counts_open_clients_and_the_last_request() -> None:
    hands = HandClock()
    activity = Activity(lambda: hands.monotonic_seconds)
    hands.pass_seconds(5)
    assert activity.idle_seconds == 5
    with activity.open():
        hands.pass_seconds(100)
        assert activity.idle_seconds == 0
    hands.pass_seconds(3)
    assert activity.idle_seconds == 3
    activity.touch()
    assert activity.idle_seconds == 0


class TestWaking:
    """Waking those who wait."""

    @pytest.mark.asyncio
    async def test_a_change_wakes_who_waits_for_that_lease(self) -> None:
        watch = Watch()
        one, two = (asyncio.ensure_future(watch.lease(name, 5.0)) for name in ("a", "b"))
        await asyncio.sleep(0)
        assert watch.watchers == 2
        watch.leases_changed(["a"])
        assert await one
        assert not two.done()
        two.cancel()
        await asyncio.gather(two, return_exceptions=True)
        assert watch.watchers == 0

    @pytest.mark.asyncio
    async def test_nothing_for_a_while_is_no_change(self) -> None:
        assert not await Watch().lease("a", 0.01)
        assert not await Watch().pool(0, 0.01)

    @pytest.mark.asyncio
    async def test_a_change_that_came_before_is_not_missed(self) -> None:
        watch = Watch()
        seen = watch.version
        watch.pool_changed()
        assert await watch.pool(seen, 0.0)

    @pytest.mark.asyncio
    async def test_a_request_in_the_queue_is_woken_by_changes_of_the_pool(self) -> None:
        watch = Watch()
        waiting = asyncio.ensure_future(watch.lease("a", 5.0, queued=True))
        await asyncio.sleep(0)
        watch.pool_changed()
        assert await waiting

    @pytest.mark.asyncio
    async def test_a_waiter_that_is_cancelled_stays_cancelled(self) -> None:
        waiting = asyncio.ensure_future(Watch().lease("a", 5.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


class TestWaiters:
    """Requests whose waiter is gone."""

    @pytest.mark.asyncio
    async def test_one_without_a_listener_is_lost_after_the_grace_period(self) -> None:
        lost: asyncio.Queue[str] = asyncio.Queue()
        waiters = Waiters(0.01, lost.put_nowait)
        waiters.queued("a")
        assert await asyncio.wait_for(lost.get(), 5) == "a"

    @pytest.mark.asyncio
    async def test_one_with_a_listener_is_kept_until_the_last_one_leaves(self) -> None:
        lost: asyncio.Queue[str] = asyncio.Queue()
        waiters = Waiters(0.01, lost.put_nowait)
        waiters.queued("a")
        with waiters.listening("a", still_queued=lambda: True):
            with waiters.listening("a", still_queued=lambda: True):
                pass
            waiters.queued("b")
            assert await asyncio.wait_for(lost.get(), 5) == "b"
        assert await asyncio.wait_for(lost.get(), 5) == "a"

    @pytest.mark.asyncio
    async def test_one_that_has_left_the_queue_is_not_lost(self) -> None:
        lost: asyncio.Queue[str] = asyncio.Queue()
        waiters = Waiters(0.01, lost.put_nowait)
        with waiters.listening("a", still_queued=lambda: False):
            pass
        waiters.queued("b")
        waiters.close()
        waiters.queued("c")
        assert await asyncio.wait_for(lost.get(), 5) == "c"
        assert lost.empty()
