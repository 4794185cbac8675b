"""Who is next, and where: the requests that wait, and what is kept for the first of each kind.

An event changes the room on a few nodes, and brings a few requests; only requests that could gain from that
are looked at, and of those that are alike only the first. What does not fit stays out of sight.

Rules of this module: it looks at the ledger and chooses, and changes nothing there. Whoever is first in
line of a kind, and fits nowhere, has a reservation; later ones are granted wherever they do not delay it. A
request none of whose devices is offered holds nobody up meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from itertools import islice
from operator import attrgetter

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.backfill import Reservation, renewed, reserve
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.entries import Blocked, Known, QueueEntry
from jupyter_gpupool.core.fields import Fields
from jupyter_gpupool.core.leases import Lease, LeaseState, Priority, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.meant import Meant
from jupyter_gpupool.core.placement.rooms import fits
from jupyter_gpupool.core.placing import Choice, Placer
from jupyter_gpupool.core.policies.order import OrderPolicy
from jupyter_gpupool.core.policies.score import ScorePolicy
from jupyter_gpupool.core.waiting import Group, Shape, want_of

__all__ = ["Blocked", "Queue", "QueueEntry"]

#: Groups with their requests, in the order of arrival.
_Groups = Iterable[tuple[Group, list[tuple[int, str]]]]
#: Requests are sorted by that in the order of arrival.
_ARRIVAL = attrgetter("requested_ms", "id")
#: How many shapes are remembered with what they mean.
_MOST_SHAPES = 1024
#: So many of a line are compared with those who have come since it was ordered.
_COMPARED = 8
#: How long the first in line is the first, unless somebody comes who is before it; pool time.
_FIRST_MS = 15_000


class Queue:
    """The waiting requests of a ledger, seen through an order and a score of nodes."""

    def __init__(self, ledger: Ledger, order: OrderPolicy, score: ScorePolicy, config: PoolConfig) -> None:
        self._ledger = ledger
        self._order = order
        self._config = config
        self.fields = Fields(ledger, score)
        self.meant = Meant(ledger, self.fields)
        self._placer = Placer(ledger, self.fields, score)
        #: The first in line of each kind, what is kept for it, and since when.
        self._firsts: dict[DeviceKind, Reservation] = {}
        self._since_ms: dict[DeviceKind, int] = {}
        #: Shapes whose groups are to be looked at where there is room for them, but for these that were; and
        #: groups to be looked at at all events: there may be room for them that is not for others.
        self._open: dict[Shape, set[Group]] = {}
        self._special: dict[Group, None] = {}
        #: Groups that only a quota keeps, and blocked requests that come before the first in line.
        self._by_policy: dict[Group, None] = {}
        self._before: dict[DeviceKind, Lease] = {}
        self._touched: dict[str, None] = {}
        #: What shapes mean, as long as no node is described anew.
        self._shapes: dict[Shape, Known] = {}
        #: The line of each kind as it was ordered last, and who has come since.
        self._lines: dict[DeviceKind, deque[Lease]] = {}
        self._late: dict[DeviceKind, list[Lease]] = {}
        ledger.watch(self)

    def device_changed(self, node_id: str, device_id: str) -> None:
        """Note that what is taken of one device of a node has changed."""
        self._touched[node_id] = None

    def node_changed(self, node_id: str) -> None:
        """Note that what is taken of a node, or whether it is offered, has changed."""
        self._touched[node_id] = None

    def node_described(self, node_id: str) -> None:
        """Note that the devices of a node are others, or are described anew."""
        self._touched[node_id] = None
        self._shapes.clear()  # which models there are may have changed

    # --- grants -------------------------------------------------------------------------------------

    def grants(self, now_ms: int) -> Iterator[tuple[Lease, Choice]]:
        """Yield each request for which there is room, the first in line first.

        The caller grants what is yielded before it asks for the next: room is looked at anew each time.
        """
        self._special.update(self._by_policy)
        self._by_policy.clear()
        self._before.clear()
        while True:
            self._take_note(now_ms)
            found = self._next(now_ms)
            if found is not None:
                yield found
                if not self._firsts and not self._ledger.any_waiting():
                    self._open.clear()  # nobody is left who could gain from anything
                    self._special.clear()
                    return
            elif not self._appoint(now_ms):
                return

    def place_for(self, newcomer: Lease, now_ms: int) -> Choice | None:
        """Find room for a request that would be granted at once; None when it would have to wait."""
        self._take_note(now_ms)
        first = self._first(self.kind_of(newcomer.want))
        lifted: Set[str] = frozenset()
        if first is not None:
            ahead = self._ordered([self._ledger.leases[first.lease_id], newcomer], now_ms)[0]
            lifted = self._lifted(newcomer, first, now_ms, first_seen=ahead.id == first.lease_id)
        choice = self._choose(newcomer, lifted)
        if choice is None or not self._allowed(newcomer, choice, now_ms):
            return None
        return choice

    def place_elsewhere(self, lease: Lease, want: Want, now_ms: int) -> Choice | None:
        """Find room on another node for what a lease is to have; nothing that is kept for others counts."""
        self._take_note(now_ms)
        return self._placer.elsewhere(lease, want)

    def _next(self, now_ms: int) -> tuple[Lease, Choice] | None:
        """Find the first request that is to be looked at for which there is room."""
        while candidates := self._candidates():
            found = self._first_with_room(self._ordered(candidates, now_ms), now_ms)
            if found is not None:
                return found
        self._open.clear()
        return None

    def _first_with_room(self, ordered: Iterable[Lease], now_ms: int) -> tuple[Lease, Choice] | None:
        """Find the first of some requests for which there is room; close those for which there is none."""
        seen: set[DeviceKind] = set()
        for lease in ordered:
            kind = self.kind_of(lease.want)
            first = self._first(kind)
            is_first = first is not None and first.lease_id == lease.id
            if is_first and kind is not None:
                seen.add(kind)
            group = self._ledger.waitlist.group(lease)
            if group not in self._special and group in self._open.get(group.shape, {group}):
                continue
            choice = self._choose(lease, self._lifted(lease, first, now_ms, first_seen=kind in seen))
            if choice is not None and self._allowed(lease, choice, now_ms):
                return lease, choice
            if group.shape in self._open:
                self._open[group.shape].add(group)
            self._special.pop(group, None)
            if choice is not None:
                self._by_policy[group] = None
                if is_first and kind is not None:
                    self._drop(kind)
            elif kind is not None and first is not None and kind not in seen:
                self._before.setdefault(kind, lease)
        return None

    def _candidates(self) -> list[Lease]:
        """List the requests of which one is next, and who is first in line.

        Of all that an owner asks for with one priority only the earliest can be next.
        """
        earliest: dict[tuple[str, Priority, DeviceKind | None], tuple[int, str]] = {}
        found = earliest.get
        for kind, groups in (*self._roomy(), *self._still_special()):
            for group, requests in groups:
                whose = (group.owner, group.priority, kind)
                known, first = found(whose), requests[0]
                if known is None or first < known:
                    earliest[whose] = first
        if not earliest:
            return []
        ids = dict.fromkeys([lease_id for _, lease_id in earliest.values()])
        ids.update(dict.fromkeys([it.lease_id for it in self._firsts.values()]))
        return [self._ledger.leases[it] for it in ids]

    def _roomy(self) -> Iterator[tuple[DeviceKind | None, _Groups]]:
        """Yield the open groups of each shape for which anybody would have room."""
        shapes = self._ledger.waitlist.shapes
        for shape, looked_at in self._open.items():
            if shape in shapes and self._has_room(shape):
                groups = shapes[shape].items()
                yield shape.kind, [it for it in groups if it[0] not in looked_at] if looked_at else groups

    def _still_special(self) -> Iterator[tuple[DeviceKind | None, _Groups]]:
        """Yield the special groups that still have a request."""
        groups = self._ledger.waitlist.groups
        for group in list(self._special):
            if (requests := groups.get(group)) is not None:
                yield group.shape.kind, ((group, requests),)
            else:
                del self._special[group]

    def _has_room(self, shape: Shape) -> bool:
        """Whether anybody could have what is asked for now."""
        known = self._known(shape)
        return any(field.index.best(known.least) is not None for field in self.fields.of(known.want))

    def _known(self, shape: Shape) -> Known:
        known = self._shapes.get(shape)
        if known is None:
            if len(self._shapes) > _MOST_SHAPES:
                self._shapes.clear()
            want = want_of(shape)
            least = self.fields.ask(want, devices=1 if want.spread else None)
            known = self._shapes[shape] = Known(want, least)
        return known

    def _lifted(self, lease: Lease, first: Reservation | None, now_ms: int, *, first_seen: bool) -> Set[str]:
        """Say for whom nothing is kept that this request may not take: it is before them, or over in time."""
        if first is None:
            return frozenset()
        soon = (
            first.ready_ms is not None
            and lease.hold_ms is not None
            and now_ms + lease.hold_ms <= first.ready_ms
        )
        if not first_seen or soon or first.lease_id == lease.id:
            return {first.lease_id}
        return frozenset()

    def _choose(self, lease: Lease, lifted: Set[str]) -> Choice | None:
        return self._placer.choose(lease.want, lease.owner, lease.holder, lifted=lifted)

    def _allowed(self, lease: Lease, choice: Choice, now_ms: int) -> bool:
        return hooks.may_grant(self._ledger, self._config, lease, choice.shares, now_ms)

    def _ordered(self, leases: Iterable[Lease], now_ms: int) -> list[Lease]:
        arrived = sorted(leases, key=_ARRIVAL)
        if len(arrived) < 2:
            return arrived
        standings = self._ledger.standings.of({it.owner for it in arrived}, now_ms)
        return list(self._order(arrived, now_ms, standings))

    def kind_of(self, want: Want) -> DeviceKind | None:
        """Return the kind of device that a request means; None while no such device is known."""
        if want.kind is not None:
            return want.kind
        if not want.device:
            return self.fields.default_kind()
        found = self.fields.of(want)[:1]
        kinds = {kind for field in found for kind, count in field.kinds.items() if count}
        kinds = kinds or {device.kind for _, device in self.matching(want)}
        return DeviceKind.CUDA if DeviceKind.CUDA in kinds else next(iter(kinds), None)

    def matching(self, want: Want) -> list[tuple[Account, Device]]:
        """Return the devices that a request means, offered or not, large enough or not."""
        return self.meant.matching(want)

    # --- what has changed ---------------------------------------------------------------------------

    def _take_note(self, now_ms: int) -> None:
        """Open the groups that could gain from what has changed since this was called last."""
        waitlist = self._ledger.waitlist
        for group in waitlist.fresh:
            self._special[group] = None
            kind = self.kind_of(self._known(group.shape).want)
            if kind is not None and group in waitlist.groups:
                newest = waitlist.groups[group][-1][1]
                self._late.setdefault(kind, []).append(self._ledger.leases[newest])
        waitlist.fresh.clear()
        for kind in list(self._firsts):
            self._renew(kind, now_ms)
        touched, self._touched = self._touched, {}
        if not touched:
            return
        for shape in waitlist.shapes:
            if self._gains(shape):
                self._open[shape] = set()
        self._note_special(touched, now_ms)
        for field in self.fields:
            field.grown.clear()

    def _renew(self, kind: DeviceKind, now_ms: int) -> None:
        """Look at a reservation anew if its request or its devices have changed."""
        first = self._firsts[kind]
        lease = self._ledger.leases.get(first.lease_id)
        if lease is None or lease.state is not LeaseState.QUEUED:
            self._drop(kind)
        elif not self._touched.keys().isdisjoint(first.nodes):
            again = renewed(self._ledger, self.fields, lease, first, now_ms)
            if again is None:
                self._drop(kind)
            else:
                self._firsts[kind] = again
                self.fields.keep(again.kept)
            self._special[self._ledger.waitlist.group(lease)] = None

    def _drop(self, kind: DeviceKind) -> None:
        first = self._firsts.pop(kind)
        self.fields.release(first.kept)
        self._touched.update(dict.fromkeys(first.nodes))

    def _first(self, kind: DeviceKind | None) -> Reservation | None:
        return self._firsts.get(kind) if kind is not None else None

    def _gains(self, shape: Shape) -> bool:
        """Whether there may be room for requests of a shape that was not there before."""
        known = self._known(shape)
        for field in self.fields.of(known.want):
            if any(fits(known.least, field.index.room(it)) for it in field.grown if it in field.members):
                return True
        return False

    def _note_special(self, touched: dict[str, None], now_ms: int) -> None:
        """Open the groups for which there may be room that is not for others.

        These are owners of devices on the nodes that take leases of one owner, requests that are over before
        the first in line has room, and those whose holder has a part of a node already.
        """
        waitlist = self._ledger.waitlist
        self._special.update(waitlist.apart)
        if self.fields.any_one_owner:
            owners = self.fields.sharing(touched)
            for group in waitlist.groups if owners else ():
                if group.owner in owners:
                    self._special[group] = None
        for first in self._firsts.values():
            if first.ready_ms is None or touched.keys().isdisjoint(first.nodes):
                continue
            for shape, groups in waitlist.shapes.items():
                over = [it for it in groups if it.hold_ms and now_ms + it.hold_ms <= first.ready_ms]
                if over and self._fits_meanwhile(shape, first):
                    self._special.update(dict.fromkeys(over))

    def _fits_meanwhile(self, shape: Shape, first: Reservation) -> bool:
        """Whether there is room for a shape on the devices that are kept, until they are needed."""
        known = self._known(shape)
        return any(
            fits(known.least, self.fields.room(field, node_id, "", {first.lease_id}))
            for field in self.fields.of(known.want)
            for node_id in first.nodes
            if node_id in field.members
        )

    # --- first in line ------------------------------------------------------------------------------

    def _appoint(self, now_ms: int) -> bool:
        """See that the first in line of each kind has a reservation; tell whether one was given up."""
        given_up = False
        wanted = {self.kind_of(self._known(it).want) for it in self._ledger.waitlist.shapes}
        for kind in DeviceKind:
            if kind not in wanted:
                continue
            first, before = self._firsts.get(kind), self._before.pop(kind, None)
            if before is not None and before.id in self._ledger.leases:
                candidates: Iterable[Lease] = [before]
            elif now_ms - self._since_ms.get(kind, now_ms - _FIRST_MS) >= _FIRST_MS:
                candidates = self._in_line(kind, now_ms)
            elif first is None:
                candidates = self._next_in_line(kind, now_ms)
            else:
                continue
            given_up = self._appoint_one(kind, candidates, now_ms) or given_up
        return given_up

    def _in_line(self, kind: DeviceKind, now_ms: int) -> Iterator[Lease]:
        """Order the first request of each group of a kind, but those that only a quota keeps."""
        waitlist = self._ledger.waitlist
        found = [
            self._ledger.leases[waitlist.groups[group][0][1]]
            for shape, groups in waitlist.shapes.items()
            if self.kind_of(self._known(shape).want) is kind
            for group in groups
            if group not in self._by_policy
        ]
        self._since_ms[kind] = now_ms
        self._lines[kind] = deque(self._ordered(found, now_ms))
        self._late[kind] = []
        return iter(tuple(self._lines[kind]))

    def _next_in_line(self, kind: DeviceKind, now_ms: int) -> Iterator[Lease]:
        """List who is next, by the line as it was ordered last and those who have come since."""
        yield from self._ordered(self._ahead(kind, _COMPARED), now_ms)
        yield from self._in_line(kind, now_ms)

    def _ahead(self, kind: DeviceKind, most: int) -> list[Lease]:
        """List those who are first in the line as it was ordered last, and those who have come since."""
        line, late = self._lines.get(kind, deque()), self._late.get(kind, [])
        while line and not self._waits(line[0]):
            line.popleft()
        late[:] = [it for it in late if self._waits(it)]
        ahead = (it for it in line if self._waits(it))
        return list({it.id: it for it in (*islice(ahead, most), *late)}.values())

    def _waits(self, lease: Lease) -> bool:
        now = self._ledger.leases.get(lease.id)
        return now is not None and now.state is LeaseState.QUEUED

    def _appoint_one(self, kind: DeviceKind, candidates: Iterable[Lease], now_ms: int) -> bool:
        """Keep devices for the first of some requests for which there are any."""
        hopeless: set[Shape] = set()
        first = self._firsts.get(kind)
        for lease in candidates:
            if first is not None and lease.id == first.lease_id:
                return False
            shape = self._ledger.waitlist.group(lease).shape
            if shape in hopeless or not hooks.may_grant(self._ledger, self._config, lease, (), now_ms):
                continue
            found = reserve(self._ledger, self.fields, lease, now_ms)
            if found is None:
                hopeless.add(shape)
                continue
            if first is not None:
                self._drop(kind)
            self._firsts[kind] = found
            self.fields.keep(found.kept)
            return first is not None
        return False

    # --- what can be seen -----------------------------------------------------------------------------

    def blocked(self, now_ms: int, most: int | None = None) -> list[Blocked]:
        """List the requests that wait, the first in line first; of those that are alike only the first.

        Parameters
        ----------
        now_ms : int
            Pool time.
        most : int or None
            So many of each kind are enough: then the line may be as it was a few seconds ago.
        """
        leases = self._ledger.leases
        if most is None:
            found = [leases[of_group[0][1]] for of_group in self._ledger.waitlist.groups.values()]
        else:
            waiting = (it for kind in self._lines for it in self._ahead(kind, most))
            found = list({it.id: it for it in waiting}.values())
        kept = {it.lease_id: it for it in self._firsts.values()}
        return [
            Blocked(
                lease,
                tuple(kept[lease.id].kept) if lease.id in kept else (),
                kept[lease.id].ready_ms if lease.id in kept else None,
                self._ledger.waitlist.group(lease) in self._by_policy,
            )
            for lease in self._ordered(found, now_ms)
        ][:most]

    def reservation(self, lease_id: str) -> Reservation | None:
        """Return what is kept for a request; None when it is not first in line."""
        return next((it for it in self._firsts.values() if it.lease_id == lease_id), None)

    def kept_for_first(self, lease: Lease) -> tuple[str, ...]:
        """List the devices that are kept for who is first in line for the kind of device of a request."""
        first = self._first(self.kind_of(lease.want))
        return () if first is None else tuple(first.kept)

    def kept_beside(self, device_id: str) -> tuple[int, int] | None:
        """Return what of a device others may take, thousandths and bytes; None when nothing is kept of it."""
        kept = self.fields.kept.get(device_id)
        return None if kept is None else (kept.compute_milli, kept.memory_bytes)

    def fits_without(self, lease: Lease, gone: Set[str]) -> bool:
        """Whether there would be room for a request if some leases ended."""
        first = self._first(self.kind_of(lease.want))
        own = first is not None and first.lease_id == lease.id
        lifted = frozenset({lease.id} if own else ())
        found = self._placer.choose(lease.want, lease.owner, lease.holder, lifted=lifted, gone=gone)
        return found is not None

    def could_ever(self, want: Want) -> bool:
        """Whether a request would surely fit if nothing were taken of a node on offer."""
        if want.spread and want.count > 1:
            return False
        ask = self.fields.ask(want)
        return any(field.could_ever(ask) for field in self.fields.of(want))

    def could_use(self, want: Want) -> list[tuple[Account, Device]]:
        """List the devices on offer that are large enough for a request."""
        return self.meant.usable(want, self.meant.offered())

    def contradiction(self, now_ms: int) -> str:
        """Look at every room and every request: say what is not as it should be; empty when all is."""
        wrong = self.fields.contradiction()
        if wrong:
            return wrong
        for lease in self._ledger.waiting():
            first = self._first(self.kind_of(lease.want))
            choice = self._choose(lease, self._lifted(lease, first, now_ms, first_seen=True))
            if choice is not None and self._allowed(lease, choice, now_ms):
                return f"{lease.id} waits although there is room for it"
        return ""

    def positions(self, now_ms: int) -> dict[str, int]:
        """Return the position of each request by lease id: 1 for the next of its device kind."""
        counts: dict[DeviceKind | None, int] = {}
        positions = {}
        for ahead, lease in enumerate(self._ordered(self._ledger.waiting(), now_ms)):
            kind = lease.want.kind
            competing = ahead if kind is None else counts.get(kind, 0) + counts.get(None, 0)
            positions[lease.id] = competing + 1
            counts[kind] = counts.get(kind, 0) + 1
        return positions
