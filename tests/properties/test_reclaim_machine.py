"""Whatever holders do and whoever waits: nobody loses what they deserve, and nothing is taken unannounced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.errors import RequestRefused
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseEvent, LeaseState, Priority, Want
from jupyter_gpupool.core.policies.evictions import EVICTIONS
from jupyter_gpupool.core.quotas.model import Amount, Quotas, Rules
from jupyter_gpupool.testing import PoolDriver, a_device

MINUTE = 60_000
IDLE, NOTICE, RUN = 10 * MINUTE, MINUTE, 2 * MINUTE
OWNERS = ("ann", "bob", "cyd")
DEVICES = 2


def deserved(*milli: int) -> Quotas:
    rules = zip(OWNERS, milli, strict=False)
    return Quotas(owners={owner: Rules(deserved_milli=Amount.each(it)) for owner, it in rules})


QUOTAS = [Quotas(), deserved(500, 1000, 500), deserved(0, 1500), Quotas(each=Rules(pins=1))]
WANTS = st.builds(
    Want,
    compute_milli=st.sampled_from([250, 250, 500, 1000]),
    count=st.sampled_from([1, 1, 1, 2]),
    priority=st.sampled_from([*Priority, Priority.NORMAL]),
)


class ReclaimMachine(RuleBasedStateMachine):
    """Owners ask and release, kernels say what they do, agents confirm, time passes, the service restarts."""

    @initialize(quotas=st.sampled_from(QUOTAS), evict=st.sampled_from(sorted(EVICTIONS)))
    def begin(self, quotas: Quotas, evict: str) -> None:
        config = PoolConfig(
            quotas=quotas, evict=evict, reclaim_idle_ms=IDLE, notice_ms=NOTICE, least_run_ms=RUN
        )
        self.pool = PoolDriver([a_device(f"cuda{it}") for it in range(DEVICES)], config=config)
        self.quotas = quotas
        #: Since when each holder is known to be idle; missing while it is busy, or unknown.
        self.idle: dict[str, int] = {}
        self.watch()

    def watch(self) -> None:
        """Have every event looked at on its way to the pool."""
        self.plain = self.pool.handle
        self.pool.handle = self.handle  # type: ignore[method-assign]

    def handle(self, event: ev.Event) -> Any:
        before = dict(self.pool.pool.leases)
        if isinstance(event, ev.ActivitySeen):
            self.idle.pop(event.lease_id, None)
            if not event.busy:
                self.idle[event.lease_id] = max(
                    event.now_ms - event.idle_ms, before[event.lease_id].active_ms or 0
                )
        effects = self.plain(event)
        for write in effects:
            if isinstance(write, WriteDown):
                self.judge(before.get(write.lease.id), write)
        return effects

    def judge(self, before: Lease | None, write: WriteDown) -> None:
        """Hold one transition to the rules."""
        lease = write.lease
        if write.event is LeaseEvent.NOTICED:
            assert lease.notice_ms == write.now_ms + NOTICE
            assert lease.notice_detail.endswith(".")
        if write.event in (LeaseEvent.NOTICED, LeaseEvent.RECLAIMED):
            assert write.now_ms - (lease.granted_ms or 0) >= RUN, "it has not run for long enough"
            assert not (lease.pinned and self.may_pin), "it is pinned"
            if lease.notice_idle:
                assert lease.id in self.idle, "it is not known to be idle"
                assert write.now_ms - self.idle[lease.id] >= IDLE
        if lease.end_reason is EndReason.RECLAIMED and write.event is LeaseEvent.RECLAIMED:
            assert before is not None
            assert before.notice_ms is not None
            assert before.notice_ms <= write.now_ms, "it was not told for long enough"
            assert self.pool.pool.queue(), "nobody waits for it"
            self.keeps_what_is_deserved(lease)

    @property
    def may_pin(self) -> bool:
        return self.quotas.each.pins != 0

    def keeps_what_is_deserved(self, lease: Lease) -> None:
        """See that an owner has what they deserve, without all that is on its way out."""
        rules = self.quotas.rules_of(lease.owner)
        waits = {it.lease.owner for it in self.pool.pool.queue()}
        held = sum(
            it.want.compute_milli * it.want.count
            for it in self.pool.pool.leases.values()
            if it.owner == lease.owner and it.state in (LeaseState.ATTACHING, LeaseState.ACTIVE)
        )
        assert held >= (rules.deserved_milli.cuda or 0) or lease.owner in waits

    def pick(self, data: st.DataObject, *states: LeaseState) -> str | None:
        ids = sorted(it.id for it in self.pool.pool.leases.values() if it.state in states)
        return data.draw(st.sampled_from(ids)) if ids else None

    @rule(want=WANTS, owner=st.sampled_from(OWNERS), wait_ms=st.sampled_from([None, None, 3 * MINUTE]))
    def request(self, want: Want, owner: str, wait_ms: int | None) -> None:
        try:
            lease_id = self.pool.request(want, owner=owner, wait_ms=wait_ms)
        except RequestRefused:
            return
        if self.pool.state(lease_id) is LeaseState.ATTACHING:
            self.pool.attach(lease_id)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if lease_id := self.pick(data, LeaseState.QUEUED, LeaseState.ACTIVE):
            self.pool.end(lease_id)

    @precondition(lambda self: self.pool.pool.leases)
    @rule(data=st.data(), busy=st.booleans(), idle_ms=st.sampled_from([0, 5_000, 2 * IDLE]))
    def act(self, data: st.DataObject, busy: bool, idle_ms: int) -> None:
        if lease_id := self.pick(data, LeaseState.ACTIVE):
            idle_ms = 0 if busy else idle_ms
            self.pool.handle(ev.ActivitySeen(lease_id=lease_id, busy=busy, idle_ms=idle_ms, **self.pool.when))

    @rule(data=st.data(), pinned=st.booleans())
    def pin(self, data: st.DataObject, pinned: bool) -> None:
        if lease_id := self.pick(data, LeaseState.ACTIVE):
            try:
                self.pool.handle(ev.PinRequested(lease_id=lease_id, pinned=pinned, **self.pool.when))
            except RequestRefused:
                return

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        if lease_id := self.pick(data, LeaseState.ENDING):
            self.pool.detach(lease_id)

    @rule(data=st.data())
    def attach(self, data: st.DataObject) -> None:
        if lease_id := self.pick(data, LeaseState.ATTACHING):
            self.pool.attach(lease_id)

    @rule(ms=st.sampled_from([1, 500, 20_000, MINUTE, 3 * MINUTE, IDLE, 70 * MINUTE]))
    def wait(self, ms: int) -> None:
        self.pool.advance(ms)

    @rule()
    def restart(self) -> None:
        """Kill the service: what holders do is unknown again."""
        self.idle.clear()
        self.pool.restart()
        live = [it for it in self.pool.pool.leases.values() if it.state is LeaseState.ACTIVE]
        self.pool.join(holders=[self.pool.seen(it.id) for it in live])

    @invariant()
    def everything_adds_up(self) -> None:
        if hasattr(self, "pool"):
            self.pool.check()

    @invariant()
    def only_as_many_are_told_as_somebody_waits_for(self) -> None:
        if hasattr(self, "pool") and not self.pool.pool.queue():
            held = [it for it in self.pool.pool.leases.values() if it.state is LeaseState.ACTIVE]
            assert all(it.notice_ms is None for it in held)

    def teardown(self) -> None:
        """Serve who is entitled within a bounded time, once everything that is held is idle."""
        if not hasattr(self, "pool"):
            return
        waits = [it.lease for it in self.pool.pool.queue()]
        alone = len(waits) == 1 and waits[0].want.count == 1 and self.quotas == Quotas()
        for lease in list(self.pool.pool.leases.values()):
            if lease.state is LeaseState.ENDING:
                self.pool.detach(lease.id)
        held = [it for it in self.pool.pool.leases.values() if it.state is LeaseState.ACTIVE]
        if not alone or len(held) < len(self.pool.pool.leases) - 1 or any(it.pinned for it in held):
            return
        for lease in held:
            self.pool.handle(ev.ActivitySeen(lease_id=lease.id, busy=False, **self.pool.when))
        for _ in range(6):
            self.pool.advance(max(IDLE, RUN) // 2 + NOTICE)
            for lease in list(self.pool.pool.leases.values()):
                if lease.state is LeaseState.ENDING:
                    self.pool.detach(lease.id)
        assert waits[0].id not in {it.lease.id for it in self.pool.pool.queue()}


class TestReclaim(ReclaimMachine.TestCase):
    """Some runs, the same each time."""

    settings = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
class TestReclaimForLong(ReclaimMachine.TestCase):
    """Many long runs; remove ``derandomize`` to look for others."""

    settings = settings(
        max_examples=300,
        stateful_step_count=60,
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
