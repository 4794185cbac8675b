"""Whatever happens to a pool, in whatever order, its invariants hold after each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import Device, DeviceKind, Health
from jupyter_gpupool.core.effects import PrepareAttach
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue, RequestRefused
from jupyter_gpupool.core.leases import EndReason, Holder, LeaseState, Want
from jupyter_gpupool.testing import GIB, a_want
from tests.support.pool_world import Agent, World
from tests.support.snapshots import snapshot

MILLIS = st.sampled_from([1, 100, 100, 250, 250, 333, 500, 750, 1000])
MEMORIES = st.none() | st.integers(1, 90).map(lambda it: it * GIB)
WANTS = st.builds(
    a_want,
    MILLIS,
    memory_bytes=st.none() | MEMORIES,
    kind=st.none() | st.sampled_from(DeviceKind),
    device=st.sampled_from(
        ["", "", "", "", "", "cuda0", "cuda1", "cuda2", "cuda3", "cuda3-mig1", "cpu", "gone"]
    ),
    host_cpu_milli=st.sampled_from([0, 0, 0, 500, 1_000, 3_500, 9_000, 13_000]),
    host_memory_bytes=st.sampled_from([0, 0, 1, 8, 40, 70]).map(lambda it: it * GIB),
    model=st.sampled_from(["", "", "", "test", "mig", "gone"]),
)
#: Several devices at once, with cores and main memory beside them.
GANGS = st.builds(
    Want,
    compute_milli=MILLIS,
    count=st.integers(2, 4),
    spread=st.booleans(),
    host_cpu_milli=st.sampled_from([0, 1_000, 5_001, 16_000]),
    host_memory_bytes=st.sampled_from([0, 3, 50]).map(lambda it: it * GIB),
)
#: True three times in four, and once in four.
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = MOSTLY.map(lambda it: not it)
SMALL_WANTS = st.builds(
    a_want, MILLIS.map(lambda it: min(it, 333)), kind=st.none() | st.sampled_from(DeviceKind)
) | st.builds(
    a_want,
    MILLIS.map(lambda it: min(it, 333)),
    host_cpu_milli=st.sampled_from([1_000, 3_000]),
    host_memory_bytes=st.sampled_from([0, 4 * GIB]),
)
WAITS = st.sampled_from([None, None, None, 0, 5_000, 40_000])
HOLDS = st.sampled_from([None, None, None, None, 1, 20_000, 90_000])
HOLDERS = st.builds(Holder, key=st.integers(0, 40).map(str), restartable=st.booleans())
OWNERS = st.sampled_from(["ann", "ann", "bob"])
TIMES = st.sampled_from([1, 1, 100, 100, 100, 4_000, 4_000, 11_000, 16_000, 31_000, 61_000])


class PoolMachine(RuleBasedStateMachine):
    """Owners, agents, time and crashes, in any order."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.count = 0
        self.hold(
            [
                (a_want(250), Holder(key=f"early-{it}", restartable=it % 2 == 0), None, None, "ann")
                for it in range(4)
            ]
        )

    def pick(self, data: st.DataObject, *states: LeaseState) -> str | None:
        """Choose a live lease in one of ``states``; None when there is none."""
        ids = sorted(it.id for it in self.world.pool.leases.values() if it.state in states)
        return data.draw(st.sampled_from(ids)) if ids else None

    def request_event(
        self, want: Any, holder: Holder, wait_ms: Any, hold_ms: Any, owner: str
    ) -> ev.LeaseRequested:
        self.count += 1
        return ev.LeaseRequested(
            lease_id=f"lease_{self.count:05d}",
            owner=owner,
            holder=holder,
            want=want,
            wait_ms=wait_ms,
            hold_ms=hold_ms,
            **self.world.when,
        )

    # --- owners -----------------------------------------------------------------------------------

    @rule(requests=st.lists(st.tuples(WANTS | GANGS, HOLDERS, WAITS, HOLDS, OWNERS), min_size=1, max_size=3))
    def request(self, requests: list[Any]) -> None:
        for request in requests:
            before = snapshot(self.world.pool)
            try:
                self.world.handle(self.request_event(*request))
            except (RequestRefused, InvalidValue):
                assert snapshot(self.world.pool) == before

    @rule(
        requests=st.lists(st.tuples(SMALL_WANTS, HOLDERS, st.none(), HOLDS, OWNERS), min_size=1, max_size=4)
    )
    def hold(self, requests: list[Any]) -> None:
        """Ask for shares and, where they are granted at once, attach without trouble."""
        for request in requests:
            if not self.world.say(self.request_event(*request)):
                continue
            for effect in self.world.told(PrepareAttach):
                process = (effect.lease.id, effect.lease.generation)
                self.world.show_ticket(effect.node_id, process, heard=True, well=True)

    @precondition(lambda self: self.world.pool.leases)
    @rule(data=st.data(), reason=st.sampled_from([EndReason.RELEASED, EndReason.KERNEL_SHUTDOWN]))
    def release(self, data: st.DataObject, reason: EndReason) -> None:
        if (lease_id := self.pick(data, *LeaseState)) is not None:
            self.world.release(lease_id, reason)

    @precondition(lambda self: self.world.pool.queue())
    @rule(data=st.data())
    def lose_waiter(self, data: st.DataObject) -> None:
        if (lease_id := self.pick(data, LeaseState.QUEUED)) is not None:
            self.world.handle(ev.WaiterLost(lease_id=lease_id, **self.world.when))

    @precondition(lambda self: self.world.pool.leases)
    @rule(data=st.data(), compute_milli=MILLIS, memory_bytes=MEMORIES)
    def resize(self, data: st.DataObject, compute_milli: int, memory_bytes: int | None) -> None:
        if (lease_id := self.pick(data, LeaseState.ACTIVE) or self.pick(data, *LeaseState)) is None:
            return
        before = snapshot(self.world.pool)
        try:
            self.world.resize(lease_id, compute_milli, memory_bytes)
        except GPUPoolError:
            assert snapshot(self.world.pool) == before

    @precondition(lambda self: self.world.pool.leases)
    @rule(data=st.data(), want=WANTS)
    def move(self, data: st.DataObject, want: Any) -> None:
        if (lease_id := self.pick(data, LeaseState.ACTIVE) or self.pick(data, *LeaseState)) is None:
            return
        before = snapshot(self.world.pool)
        try:
            self.world.move(lease_id, want)
        except GPUPoolError:
            assert snapshot(self.world.pool) == before

    # --- agents -----------------------------------------------------------------------------------

    def node(self, data: st.DataObject, having: str = "connected") -> str:
        """Choose a node whose agent has something."""
        return data.draw(st.sampled_from([it for it, agent in self.agents() if getattr(agent, having)]))

    def agents(self) -> list[tuple[str, Agent]]:
        return list(self.world.agents.items())

    @precondition(lambda self: any(it.prepared for _, it in self.agents()))
    @rule(data=st.data(), heard=MOSTLY, well=MOSTLY)
    def attach(self, data: st.DataObject, heard: bool, well: bool) -> None:
        """Let a holder show its ticket; the report may be lost, and the attach may fail."""
        node_id = self.node(data, "prepared")
        process = data.draw(st.sampled_from(sorted(self.world.agents[node_id].prepared)))
        self.world.show_ticket(node_id, process, heard=heard, well=well)

    @precondition(lambda self: any(it.holders for _, it in self.agents()))
    @rule(data=st.data(), heard=MOSTLY)
    def exit(self, data: st.DataObject, heard: bool) -> None:
        """Let a holder's process end; the report may be lost."""
        node_id = self.node(data, "holders")
        agent = self.world.agents[node_id]
        lease_id, generation = process = data.draw(st.sampled_from(sorted(agent.holders)))
        del agent.holders[process]
        if heard and agent.connected:
            about = {"lease_id": lease_id, "generation": generation, **self.world.when}
            self.world.say(ev.HolderExited(node_id=node_id, **about))

    @precondition(lambda self: self.parts())
    @rule(data=st.data(), heard=MOSTLY)
    def join_part(self, data: st.DataObject, heard: bool) -> None:
        """Let a process join a lease on another of its nodes."""
        node_id, lease_id = data.draw(st.sampled_from(self.parts()))
        self.world.join_part(node_id, lease_id, heard=heard)

    def parts(self) -> list[tuple[str, str]]:
        """List the nodes on which processes may join leases."""
        pool = self.world.pool
        return [
            (node_id, it.id)
            for it in pool.leases.values()
            if len(it.shares) > 1 and it.state in (LeaseState.ATTACHING, LeaseState.ACTIVE)
            for node_id in pool.nodes_of(it)[1:]
        ]

    @precondition(lambda self: any(it.orders for _, it in self.agents()))
    @rule(data=st.data(), well=MOSTLY)
    def obey(self, data: st.DataObject, well: bool) -> None:
        agent = self.world.agents[self.node(data, "orders")]
        self.world.obey(agent, data.draw(st.sampled_from(agent.orders)), well=well)

    @precondition(lambda self: any(it.connected for _, it in self.agents()))
    @rule(data=st.data())
    def lose_agent(self, data: st.DataObject) -> None:
        self.world.lose(self.node(data))

    @precondition(lambda self: any(it.away for _, it in self.agents()))
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        self.world.rejoin(self.node(data, "away"))

    @precondition(lambda self: any(it.connected for _, it in self.agents()))
    @rule(data=st.data(), age_ms=st.sampled_from([0, 1, 5_000]))
    def sweep(self, data: st.DataObject, age_ms: int) -> None:
        node_id = self.node(data)
        seen = self.world.agents[node_id].seen()
        self.world.sweep(seen, node_id=node_id, asked_ms=self.world.now_ms - age_ms)

    @precondition(lambda self: any(it.connected for _, it in self.agents()))
    @rule(
        data=st.data(),
        unmanaged=st.none() | st.integers(0, 90),
        health=st.sampled_from([*Health, Health.HEALTHY, Health.HEALTHY]),
        one_owner=RARELY,
        most_leases=st.sampled_from([None, None, 1, 3]),
    )
    def report_devices(
        self,
        data: st.DataObject,
        unmanaged: int | None,
        health: Health,
        one_owner: bool,
        most_leases: int | None,
    ) -> None:
        """Let an agent report other readings, and another way to share its GPUs."""

        def changed(device: Device) -> Device:
            device = replace(device, health=health, health_reason="XID 79.")
            device = replace(device, unmanaged_bytes=None if unmanaged is None else unmanaged * GIB)
            if device.whole_only:
                return device
            return replace(device, one_owner=one_owner, most_leases=most_leases)

        self.world.report(changed, self.node(data))

    # --- administrators ---------------------------------------------------------------------------

    @rule(node_id=st.sampled_from(["node-1", "node-2"]), grace_ms=st.sampled_from([None, 0, 4_000, 60_000]))
    def drain(self, node_id: str, grace_ms: int | None) -> None:
        """Drain a node, or give those on it another time."""
        until_ms = None if grace_ms is None else self.world.now_ms + grace_ms
        self.world.drain(node_id, "it moves.", until_ms=until_ms)

    @precondition(lambda self: self.world.drained)
    @rule(data=st.data())
    def undrain(self, data: st.DataObject) -> None:
        self.world.undrain(data.draw(st.sampled_from(sorted(self.world.drained))))

    # --- time, crashes, disks -----------------------------------------------------------------------

    @rule(ms=TIMES)
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(down_ms=st.sampled_from([0, 100, 30_000]), back_at_once=MOSTLY)
    def crash(self, down_ms: int, back_at_once: bool) -> None:
        self.world.crash(down_ms)
        for node_id in self.world.agents if back_at_once else ():
            self.world.rejoin(node_id)

    @precondition(lambda self: self.world.pool.accepting)
    @rule(want=WANTS, holder=HOLDERS, owner=OWNERS)
    def fail_to_write(self, want: Any, holder: Holder, owner: str) -> None:
        """Lose what could not be written down, and grant nothing until it can."""
        self.world.say_unwritten(self.request_event(want, holder, None, None, owner))

    @precondition(lambda self: not self.world.pool.accepting)
    @rule()
    def write_again(self) -> None:
        self.world.handle(ev.JournalRecovered(**self.world.when))

    # --- always -------------------------------------------------------------------------------------

    @invariant()
    def everything_adds_up(self) -> None:
        self.world.check()

    @invariant()
    def every_wait_has_a_reason_in_words(self) -> None:
        pool = self.world.pool
        for lease_id in pool.leases:
            assert pool.reason(lease_id, self.world.now_ms).endswith(".")
        for device_id in pool.devices:
            assert bool(pool.withheld_reason(device_id)) is (pool.withheld(device_id) is not None)

    def teardown(self) -> None:
        """Let everybody do what they should: then everything ends, and all is free again."""
        if not hasattr(self, "world"):
            return
        for lease_id in list(self.world.pool.leases):
            self.world.release(lease_id)
        for node_id in self.world.agents:
            self.world.rejoin(node_id)
        for agent in self.world.agents.values():
            while agent.orders:
                self.world.obey(agent, agent.orders[0], well=True)
        self.world.check()
        assert not self.world.pool.leases
        assert all(not it.holders for it in self.world.agents.values())
        assert {self.world.pool.free(it).compute_milli for it in self.world.pool.devices} == {1000}


class TestPool(PoolMachine.TestCase):
    """Some runs, the same each time."""

    settings = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
class TestPoolForLong(PoolMachine.TestCase):
    """Many long runs; remove ``derandomize`` to look for others."""

    settings = settings(
        max_examples=250,
        stateful_step_count=80,
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
