"""Taking leases back, lazily: only for somebody who waits and is entitled, and never without notice.

Rules of this module: each look plans anew, from what is, how the requests that wait are served; whom the plan
needs is told, whom it needs no more is told that, and whoever was told for long enough is taken. Only as many
as the plan needs are ever told.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.candidates import Candidates
from jupyter_gpupool.core.drains import drain_of
from jupyter_gpupool.core.entitlement import Entitlement, Ground
from jupyter_gpupool.core.events import ActivitySeen, PinRequested
from jupyter_gpupool.core.evictions import Shelf, plan, plan_gang
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState, next_state
from jupyter_gpupool.core.lifecycle import begin_end
from jupyter_gpupool.core.notices import ended_sentence, notice_sentence
from jupyter_gpupool.core.planned import Plan, Rooms, Taken
from jupyter_gpupool.core.policies.evictions import evict_policy
from jupyter_gpupool.core.turn import Turn

#: Looks that nothing is due for are at least so far apart, milliseconds of pool time.
LOOK_MS = 5_000
#: When nothing new is known, somebody looks again after so long, milliseconds: devices may have changed.
QUIET_MS = 30_000
#: While a request waits that could take what is in use, somebody looks at least so often, milliseconds.
AGAIN_MS = 60_000
#: For how many requests one look plans, and for how many of these it looks at what is in use.
_REQUESTS, _DESERVING = 16, 4


# --- what is told -------------------------------------------------------------------------------


def on_activity_seen(turn: Turn, event: ActivitySeen) -> None:
    """Note what a holder does; one that does something keeps what was to be taken because it was idle."""
    lease = turn.ledger.leases.get(event.lease_id)
    if lease is None or lease.state is not LeaseState.ACTIVE:
        return
    book, config = turn.ledger.activity, turn.config
    if not event.busy:
        book.idle(lease, turn.now_ms - event.idle_ms)
        since_ms = book.idle_since_ms(lease.id)
        for length_ms in (config.reclaim_idle_ms, config.release_idle_ms):
            if length_ms is not None and since_ms is not None:
                book.wake_by(max(turn.now_ms, since_ms + length_ms))
        return
    book.busy(lease.id)
    if lease.notice_ms is not None and lease.notice_idle:
        _withdraw(turn, lease)
        book.wake_by(turn.now_ms)


def on_pin_requested(turn: Turn, event: PinRequested) -> None:
    """Pin a lease, as far as the quota allows it, or unpin it."""
    lease = turn.live(event.lease_id)
    next_state(lease, LeaseEvent.PINNED)
    if lease.pinned is event.pinned:
        return
    if event.pinned:
        hooks.check_pin(turn, lease)
    turn.move(lease, LeaseEvent.PINNED, pinned=event.pinned)
    turn.ledger.activity.wake_by(turn.now_ms)


# --- the look -----------------------------------------------------------------------------------


def reclaim(turn: Turn) -> None:
    """Look who should be taken back, if it is time to."""
    book = turn.ledger.activity
    if not turn.ledger.accepting or not Candidates.any(turn):
        book.wake_ms, book.news = None, True
        return
    passed_ms = None if book.looked_ms is None else turn.now_ms - book.looked_ms
    due = book.wake_ms is not None and book.wake_ms <= turn.now_ms
    if not due and passed_ms is not None:
        if not book.news and passed_ms < QUIET_MS:
            return
        if passed_ms < LOOK_MS and turn.ledger.any_waiting():
            book.wake_by(turn.now_ms - passed_ms + LOOK_MS)
            return
    book.wake_ms, book.looked_ms = None, turn.now_ms
    _Look(turn).act()
    book.news = False


class _Decision(NamedTuple):
    """What was planned, for whom (None for nobody), and whether they have less than they deserve."""

    plan: Plan
    request: Lease | None = None
    less: bool = False


class _Look:
    """One look: plans first, then acts."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._book = turn.ledger.activity
        self._entitlement = Entitlement(turn)
        self._candidates = Candidates(turn)
        self._rooms = Rooms(turn.ledger)
        self._places: dict[str, tuple[int, ...]] = {}
        self._key = evict_policy(turn.config.evict)

    def act(self) -> None:
        """Plan, tell, withdraw and take."""
        decisions = [*self._long_idle()]
        if self._turn.ledger.any_waiting():
            decisions += self._for_requests()
        needed = {it.lease.id for one in decisions for it in one.plan.victims}
        for lease_id in list(self._book.noticed):
            lease = self._turn.ledger.leases[lease_id]
            if lease_id not in needed and drain_of(self._turn.ledger, lease) is None:
                _withdraw(self._turn, lease)
        for one in decisions:
            self._carry_out(one)

    def _carry_out(self, one: _Decision) -> None:
        """Tell those of a plan who do not know yet; once all have known it for long enough, take them."""
        turn, due_ms = self._turn, 0
        told = True
        for taken in one.plan.victims:
            lease = turn.ledger.leases[taken.lease.id]
            if lease.notice_ms is None:
                lease, told = self._notify(taken, one), False
            due_ms = max(due_ms, lease.notice_ms or 0)
        if due_ms > turn.now_ms or not told:  # without any grace it is taken with the next event
            self._book.wake_by(max(turn.now_ms, due_ms))
            return
        for taken in one.plan.victims:
            lease = turn.ledger.leases[taken.lease.id]
            if lease.state is LeaseState.ACTIVE:
                detail = ended_sentence(lease.notice_detail)
                begin_end(turn, lease, LeaseEvent.RECLAIMED, EndReason.RECLAIMED, detail)
        if one.request is not None:
            self._book.served[one.request.id] = turn.now_ms

    def _notify(self, taken: Taken, one: _Decision) -> Lease:
        turn = self._turn
        own = one.request is not None and one.request.owner == taken.lease.owner
        idle_ms = self._entitlement.victim(taken.lease).idle_ms
        return turn.move(
            taken.lease,
            LeaseEvent.NOTICED,
            notice_ms=turn.now_ms + turn.config.notice_ms,
            notice_detail=notice_sentence(taken.ground, idle_ms, less=one.less, own=own),
            notice_idle=taken.ground in (Ground.IDLE, Ground.IDLE_LONG),
        )

    # --- plans ----------------------------------------------------------------------------------

    def _long_idle(self) -> Iterator[_Decision]:
        """Plan the end of what has been idle for so long that nobody has to wait for it."""
        length_ms = self._turn.config.release_idle_ms
        for lease in self._candidates.idle(length_ms):
            if lease.notice_ms is None or lease.notice_idle:
                self._entitlement.lose(lease)
                self._rooms.lose(lease)
                yield _Decision(Plan((Taken(lease, Ground.IDLE_LONG, ()),), ()))
        self._wake_when_idle(length_ms)

    def _for_requests(self) -> Iterator[_Decision]:
        """Plan for the requests in the order of the queue."""
        length_ms, left_out, deserving = self._turn.config.reclaim_idle_ms, False, 0
        idle = [*self._candidates.noticed(), *self._candidates.idle(length_ms)]
        nothing, shelf = Shelf((), self._order), Shelf(idle, self._order)
        all_of_it: Shelf | None = None
        for blocked in self._turn.queue.blocked(self._turn.now_ms, _REQUESTS):
            request = blocked.lease
            if blocked.by_policy:
                continue
            if self._was_served(request):  # that others got the room takes no more leases
                self._plan(request, nothing)
                continue
            busy = deserving < _DESERVING and self._entitlement.wants_busy(request)
            deserving += busy
            less = self._entitlement.has_less(request)
            if busy and all_of_it is None:
                all_of_it = Shelf([*idle, *self._candidates.busy()], self._order)
            one = self._plan(request, all_of_it if busy and all_of_it is not None else shelf)
            if one is None:
                left_out = True
                self._rooms.kept.update(blocked.reserved)
                if busy:
                    self._book.wake_by(self._turn.now_ms + AGAIN_MS)
            elif one.victims:
                yield _Decision(one, request, less)
        if left_out:
            self._wake_when_idle(length_ms)

    def _was_served(self, request: Lease) -> bool:
        """Whether leases were taken back for a request a moment ago."""
        served_ms = self._book.served.get(request.id)
        if served_ms is None or served_ms + AGAIN_MS <= self._turn.now_ms:
            return False
        self._book.wake_by(served_ms + AGAIN_MS)
        return True

    def _plan(self, request: Lease, shelf: Shelf) -> Plan | None:
        """Plan for one request, and count it as done."""
        if not shelf.there and not self._rooms.touched:
            return None
        spared: set[str] = set()
        while True:
            one = self._planned(request, shelf, spared)
            # several victims of one owner, together, must leave the owner what they deserve
            more = None if one is None else self._too_much(request, one)
            if more is None:
                break
            spared.add(more.lease.id)
        if one is not None:
            self._rooms.do(one, request)
            self._entitlement.get(request)
            for taken in one.victims:
                self._entitlement.lose(taken.lease)
        return one

    def _planned(self, request: Lease, shelf: Shelf, spared: Set[str]) -> Plan | None:
        def may(lease: Lease) -> Taken | None:
            if lease.id in self._rooms.gone or lease.id in spared:
                return None
            ground = self._entitlement.ground(request, lease)
            return None if ground is None else Taken(lease, ground, self._order(lease))

        if request.want.count == 1 and not request.want.asks_host:
            return plan(self._rooms, request, shelf, self._candidates.finder(request.want), may)
        usable = self._candidates.near(request.want, [*self._rooms.touched, *shelf.there])
        return plan_gang(self._rooms, request, shelf, usable, may)

    def _too_much(self, request: Lease, one: Plan) -> Taken | None:
        """Return the victim with whom an owner would lose more than they may; None when there is none."""
        if len(one.victims) < 2:
            return None
        trial = self._entitlement.copy()
        for taken in one.victims:
            if trial.ground(request, taken.lease) is None:
                return taken
            trial.lose(taken.lease)
        return None

    def _order(self, lease: Lease) -> tuple[int, ...]:
        """Return where a lease stands: what has been told already goes first."""
        place = self._places.get(lease.id)
        if place is None:
            told = lease.notice_ms is not None
            place = (0 if told else 1, *self._key(self._entitlement.victim(lease)))
            self._places[lease.id] = place
        return place

    def _wake_when_idle(self, length_ms: int | None) -> None:
        """Look again when the next lease has been idle for so long."""
        if length_ms is None:
            return
        since_ms = self._book.next_idle_ms(self._turn.now_ms - length_ms)
        if since_ms is not None:
            self._book.wake_by(since_ms + length_ms)


def _withdraw(turn: Turn, lease: Lease) -> None:
    turn.move(lease, LeaseEvent.NOTICE_WITHDRAWN, notice_ms=None, notice_detail="", notice_idle=False)
