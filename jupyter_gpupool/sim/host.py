"""The host of a simulated pool and its agents: makes facts, obeys orders, and measures both.

Rules of this module: `Pool.handle` alone decides. Agents obey at once, and their reports are given to the
pool before anything else happens. Nothing depends on the real time or on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import Detach, Effect, PrepareAttach, WriteDown
from jupyter_gpupool.core.errors import GPUPoolError, QuotaExceeded
from jupyter_gpupool.core.leases import EndReason, Holder, Lease, LeaseEvent, LeaseState, Want
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.sim.measures import Fragmentation, Meter, Played
from jupyter_gpupool.sim.people import Guest
from jupyter_gpupool.sim.pools import SimPool

#: Wall time at which simulations begin (a Monday, 00:00 UTC), milliseconds since the epoch.
WALL_START_MS = 1_704_067_200_000


class Stage(Protocol):
    """Who is told what becomes of leases, while the pool is in the middle of it."""

    def attached(self, guest: Guest) -> None:
        """Note that a share is there."""

    def share_lost(self, guest: Guest, reason: EndReason | None) -> None:
        """Note that a share that was held is given back, or taken."""

    def not_served(self, guest: Guest, reason: EndReason | None) -> None:
        """Note that a request ended without a grant (None: it was refused)."""


class Host:
    """A pool with its devices, at a time.

    Parameters
    ----------
    pool : SimPool
        The devices.
    config : PoolConfig
        The rules.
    sizes : mapping of int to int
        How often each share size is asked for.
    horizon_ms : int
        Until when requests count.
    stage : Stage
        Who is told of leases.
    on_write : callable or None
        Is given every transition.
    begins_ms : int or None
        UTC at the beginning, milliseconds since the epoch; None for a Monday.

    Attributes
    ----------
    open : int
        Requests that count and have had no answer yet.
    """

    def __init__(
        self,
        pool: SimPool,
        config: PoolConfig,
        sizes: Mapping[int, int],
        horizon_ms: int,
        stage: Stage,
        on_write: Callable[[WriteDown], None] | None,
        begins_ms: int | None = None,
    ) -> None:
        self.pool = Pool(config)
        self.played = Played(meter=Meter(horizon_ms))
        self.now_ms = 0
        self.open = 0
        self._horizon_ms = horizon_ms
        self._begins_ms = WALL_START_MS if begins_ms is None else begins_ms
        self._stage, self._on_write = stage, on_write
        self._made = 0
        self._guests: dict[str, Guest] = {}
        self._asked: dict[str, int] = {}
        self._free = {it.id: 1000 for it in pool.devices(pool.kind)}
        self._fragmentation = Fragmentation(sizes, self._free.values())
        self._due_ms: int | None = None
        self._due_known = False
        for node in pool.nodes:
            self._give(
                ev.AgentJoined(
                    node_id=node.id,
                    hostname=node.id,
                    devices=node.devices,
                    holders=(),
                    now_ms=0,
                    wall_ms=self._begins_ms,
                )
            )

    @property
    def wall_ms(self) -> int:
        """UTC, milliseconds since the epoch."""
        return self._begins_ms + self.now_ms

    def move_to(self, now_ms: int) -> None:
        """Let time pass."""
        meter = self.played.meter
        if now_ms >= meter.end_ms:
            while meter.advance(now_ms):
                self.played.fragmentation.append(self._fragmentation.part)
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    def due_ms(self) -> int | None:
        """Return when the pool must be told next that time has passed; None for never."""
        if not self._due_known:  # only facts change it
            self._due_ms, self._due_known = self.pool.next_deadline_ms(), True
        return self._due_ms

    def unanswered(self) -> list[tuple[Guest, int]]:
        """List who waits for an answer, and since when."""
        return [(self._guests[lease_id], asked_ms) for lease_id, asked_ms in self._asked.items()]

    def holding(self) -> list[Guest]:
        """List who has a share."""
        return [guest for guest in self._guests.values() if guest.held]

    # --- facts ----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Tell the pool that time has passed."""
        self._give(ev.TimePassed(now_ms=self.now_ms, wall_ms=self.wall_ms))

    def ask(self, guest: Guest, want: Want) -> None:
        """Ask for a share for somebody who has none."""
        self._made += 1
        lease_id = guest.lease_id = f"lease_{self._made:012}"
        self._guests[lease_id] = guest
        if self.now_ms <= self._horizon_ms:
            self.played.counts.requests += 1
            self._asked[lease_id] = self.now_ms
            self.open += 1
        self.played.meter.queue(1, self.now_ms)
        event = ev.LeaseRequested(
            lease_id=lease_id,
            owner=guest.person.owner,
            holder=Holder(key=guest.holder),
            want=want,
            wait_ms=guest.visit.patience_ms,
            now_ms=self.now_ms,
            wall_ms=self.wall_ms,
        )
        try:
            self._give(event)
        except GPUPoolError as error:
            self._refused(guest, lease_id, error)

    def _refused(self, guest: Guest, lease_id: str, error: GPUPoolError) -> None:
        if lease_id in self.pool.leases or lease_id not in self._guests:
            raise error  # it was something else that went wrong
        del self._guests[lease_id]
        guest.lease_id = ""
        counts = self.played.counts
        self.played.meter.queue(-1, self.now_ms)
        if self._answered(lease_id) is not None:
            counts.refused += 1
            counts.refusals[error.code] = counts.refusals.get(error.code, 0) + 1
        self._stage.not_served(guest, None)

    def give_back(self, guest: Guest, reason: EndReason = EndReason.RELEASED) -> None:
        """Release what somebody has, or cancel what they wait for."""
        if guest.lease_id:
            self._give(
                ev.ReleaseRequested(
                    lease_id=guest.lease_id, reason=reason, now_ms=self.now_ms, wall_ms=self.wall_ms
                )
            )

    def say(self, guest: Guest, *, busy: bool) -> None:
        """Tell the pool what somebody does with a share, where that is news."""
        if guest.held and guest.said_busy is not busy:
            guest.said_busy = busy
            now_ms = self.now_ms
            self._give(
                ev.ActivitySeen(
                    lease_id=guest.lease_id, busy=busy, now_ms=now_ms, wall_ms=self._begins_ms + now_ms
                )
            )

    def pin(self, guest: Guest) -> None:
        """Ask that what somebody holds is not taken back; a quota may not allow it."""
        counts = self.played.counts
        try:
            self._give(
                ev.PinRequested(
                    lease_id=guest.lease_id, pinned=True, now_ms=self.now_ms, wall_ms=self.wall_ms
                )
            )
            counts.pinned += 1
        except QuotaExceeded:
            counts.pins_refused += 1

    def _give(self, event: ev.Event) -> None:
        """Give the pool a fact, and obey; what obeying leads to is given after that."""
        self._due_known = False
        facts = [event]
        for fact in facts:  # what obeying leads to is appended meanwhile
            self.played.counts.facts += 1
            for effect in self.pool.handle(fact):
                if type(effect) is WriteDown:
                    self._written(effect)
                elif (answer := self._obey(effect)) is not None:
                    facts.append(answer)

    # --- orders ---------------------------------------------------------------------------------

    def _obey(self, effect: Effect) -> ev.Event | None:
        """Do what the pool says; return what the agent reports then."""
        if type(effect) is PrepareAttach:
            lease = effect.lease
            return ev.HolderAttached(
                lease_id=lease.id,
                generation=lease.generation,
                pid=1,
                isolation=(),
                node_id=lease.node_id,
                now_ms=self.now_ms,
                wall_ms=self.wall_ms,
            )
        if type(effect) is Detach:
            return ev.HolderDetached(
                lease_id=effect.lease_id,
                generation=effect.generation,
                node_id=effect.node_id,
                now_ms=self.now_ms,
                wall_ms=self.wall_ms,
            )
        return None

    def _written(self, write: WriteDown) -> None:
        if self._on_write is not None:
            self._on_write(write)
        lease, event = write.lease, write.event
        if event is LeaseEvent.GRANTED:
            self._granted(lease)
        elif event is LeaseEvent.ATTACHED:
            guest = self._guests[lease.id]
            guest.held, guest.said_busy = True, None
            self._stage.attached(guest)
        elif lease.state is LeaseState.ENDED:
            self._ended(lease, write.before)
        elif lease.state is LeaseState.ENDING and write.before is not LeaseState.ENDING:
            guest = self._guests[lease.id]
            guest.held = False
            self._stage.share_lost(guest, lease.end_reason)
        elif event is LeaseEvent.NOTICED:
            self.played.counts.notices += 1

    def _answered(self, lease_id: str) -> int | None:
        """Note that a request has had its answer; return when it was made, if it counts."""
        asked_ms = self._asked.pop(lease_id, None)
        if asked_ms is not None:
            self.open -= 1
        return asked_ms

    def _granted(self, lease: Lease) -> None:
        self.played.meter.queue(-1, self.now_ms)
        asked_ms = self._answered(lease.id)
        if asked_ms is not None:
            self.played.counts.granted += 1
            self.played.requests.served.append(self.now_ms - asked_ms)
        self._guests[lease.id].milli = self._take(lease, 1)

    def _take(self, lease: Lease, sign: int) -> int:
        """Take the shares of a lease (or give them back); return how much compute they are."""
        milli = 0
        for share in lease.shares:
            before = self._free.get(share.device_id)
            if before is not None:
                after = self._free[share.device_id] = before - sign * share.compute_milli
                self._fragmentation.change(before, after)
                milli += share.compute_milli
        self.played.meter.hold(sign * milli, self.now_ms)
        return milli

    def _ended(self, lease: Lease, before: LeaseState | None) -> None:
        guest = self._guests.pop(lease.id)
        guest.lease_id, guest.held = "", False
        if before is not LeaseState.QUEUED:
            self._take(lease, -1)
            return
        self.played.meter.queue(-1, self.now_ms)
        asked_ms = self._answered(lease.id)
        if asked_ms is not None:
            self.played.counts.cancelled += 1
            self.played.requests.unserved.append(self.now_ms - asked_ms)
        self._stage.not_served(guest, lease.end_reason)
