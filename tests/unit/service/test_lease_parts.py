"""Joining a lease on its other nodes: who gets a ticket, and what is shown of the parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from jupyter_gpupool.cluster.errors import AgentAway
from jupyter_gpupool.core.errors import AlreadyHolds, GPUPoolError, IllegalTransition, UnknownLease
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.kernel.words import lease_facts
from jupyter_gpupool.protocol.documents import AttachDoc, LeaseDoc, ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceSample, ExitedReport, LeaseSample, Order, SampleReport
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.parts import NotItsNode
from tests.support.service_bench import PlayedAgent, ServiceBench

ANN, BOB = Principal(owner="ann"), Principal(owner="bob")
KERNEL, OTHER = Principal(owner="ann", kernel_id="k-1"), Principal(owner="ann", kernel_id="k-2")
GANG = b'{"compute_milli":1000,"count":2,"spread":true}'


class Two(PlayedAgent):
    """An agent that knows of another, and passes on what is for that."""

    def __init__(self) -> None:
        super().__init__("node-1")
        self.other = PlayedAgent("node-2")

    @property
    def connected(self) -> set[str]:
        """Be a control plane that knows of both."""
        return super().connected | self.other.connected

    async def send(self, node_id: str, orders: Sequence[Order]) -> None:
        """Be the control plane of both."""
        if node_id == self.other.node_id:
            await self.other.send(node_id, orders)
        else:
            await super().send(node_id, orders)

    async def join(self) -> None:
        """Connect both."""
        self.other.inbox = self.inbox
        await super().join()
        await self.other.join()


class Bench:
    """A service with two nodes."""

    def __init__(self, path: Path) -> None:
        self.agent = Two()
        self.service = ServiceBench(path, agent=self.agent)

    async def gang(self, who: Principal = ANN) -> LeaseDoc:
        """Return a lease with a device on each node, whose holder is attached on the first."""
        desk = self.service.desk
        doc = await desk.request(who, GANG, None)
        await self.service.until(lambda: doc.id in self.agent.prepared)
        await self.agent.attach(self.service.host.leases[doc.id])
        doc = await desk.look(who, doc.id, doc.tag, 10.0)
        assert doc.state is LeaseState.ACTIVE
        return doc

    async def ticket(self, lease_id: str, node: str, who: Principal = ANN) -> AttachDoc:
        """Ask for a ticket."""
        return await self.service.desk.join(who, lease_id, msgspec.json.encode({"node_id": node}))

    async def join(self, lease_id: str, pid: int = 5000) -> LeaseDoc:
        """Let a process join on the second node, and return the lease as it is then."""
        before = await self.service.desk.look(ANN, lease_id, None, 0.0)
        await self.ticket(lease_id, "node-2")
        await self.agent.other.attach(self.service.host.leases[lease_id], pid)
        return await self.service.desk.look(ANN, lease_id, before.tag, 10.0)


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "d" / "journal.sqlite3")
    await made.service.open()
    await made.service.until(lambda: len(made.service.host.pool.devices) == 2)
    yield made
    await made.service.close()


@pytest.mark.asyncio
async def test_a_ticket_is_for_what_the_lease_has_on_that_node_alone(bench: Bench) -> None:
    doc = await bench.gang()
    attach = await bench.ticket(doc.id, "node-2")
    assert (attach.node_id, attach.hostname) == ("node-2", "host-node-2")
    order = bench.agent.other.prepared[doc.id]
    assert [it.device_id for it in order.shares] == ["GPU-node-2-0"]
    assert [it.device_id for it in bench.agent.prepared[doc.id].shares] == ["GPU-node-1-0"]
    again = await bench.ticket(doc.id, "host-node-2")
    assert again.ticket != attach.ticket


@pytest.mark.asyncio
async def test_the_parts_say_who_has_joined_and_what_to_type_where_nobody_has(bench: Bench) -> None:
    doc = await bench.gang()
    assert [(it.holder, it.joined, it.pid) for it in doc.parts] == [(True, True, 4711), (False, False, None)]
    facts = dict(lease_facts(doc))
    assert facts["on host-node-1"] == "cuda0: its holder, process 4711"
    assert facts["on host-node-2"].endswith(f"jupyter gpupool run --lease …{doc.id[-8:]} -- COMMAND")
    joined = await bench.join(doc.id)
    assert [(it.joined, it.pid) for it in joined.parts] == [(True, 4711), (True, 5000)]
    assert dict(lease_facts(joined))["on host-node-2"] == "cuda0: process 5000"
    assert not (await bench.service.desk.look(ANN, doc.id, None, 0.0)).attach


@pytest.mark.asyncio
async def test_a_process_that_ends_leaves_room_for_another_and_the_lease_goes_on(bench: Bench) -> None:
    doc = await bench.gang()
    joined = await bench.join(doc.id)
    with pytest.raises(AlreadyHolds, match="Process 5000 has what lease"):
        await bench.ticket(doc.id, "node-2")
    bench.agent.other.holders.clear()
    await bench.agent.other.report(ExitedReport(lease_id=doc.id, generation=1))
    left = await bench.service.desk.look(ANN, doc.id, joined.tag, 10.0)
    assert (left.state, [it.joined for it in left.parts]) == (LeaseState.ACTIVE, [True, False])
    assert [it.pid for it in (await bench.join(doc.id, 5001)).parts] == [4711, 5001]


@pytest.mark.asyncio
async def test_who_may_not_touch_a_lease_is_not_told_that_there_is_one(bench: Bench) -> None:
    doc = await bench.gang(KERNEL)
    for who in (BOB, OTHER):
        with pytest.raises(UnknownLease):
            await bench.ticket(doc.id, "node-2", who)
    assert (await bench.ticket(doc.id, "node-2", KERNEL)).ticket
    (other,) = [it for it in bench.service.views.leases(BOB) if it.shares]
    assert (other.mine, other.parts) == (False, [])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("node", "error", "said"),
    [("node-9", NotItsNode, "has nothing on node-9"), ("node-1", AlreadyHolds, "Process 4711 has")],
)
async def test_a_node_that_is_not_the_leases_or_its_holders_is_refused(
    bench: Bench, node: str, error: type[GPUPoolError], said: str
) -> None:
    doc = await bench.gang()
    with pytest.raises(error, match=said) as refused:
        await bench.ticket(doc.id, node)
    assert refused.value.hint


@pytest.mark.asyncio
async def test_a_lease_that_is_not_held_cannot_be_joined(bench: Bench) -> None:
    doc = await bench.service.desk.request(ANN, GANG, None)
    with pytest.raises(IllegalTransition, match="waits for its holder on host-node-1"):
        await bench.ticket(doc.id, "node-2")
    assert (await bench.ticket(doc.id, "node-1")).ticket
    waiting = await bench.service.desk.request(ANN, GANG, None)
    with pytest.raises(IllegalTransition, match="is queued: only one that is held"):
        await bench.ticket(waiting.id, "node-2")


@pytest.mark.asyncio
async def test_the_share_of_a_kernel_that_restarts_is_kept_for_it(bench: Bench) -> None:
    doc = await bench.service.desk.request(KERNEL, GANG, None)
    with pytest.raises(IllegalTransition, match="its kernel's"):
        await bench.ticket(doc.id, "node-1", KERNEL)


@pytest.mark.asyncio
async def test_an_agent_that_is_away_is_one_sentence(bench: Bench) -> None:
    doc = await bench.gang()
    bench.agent.other.away = True
    with pytest.raises(AgentAway, match="Try again in a moment"):
        await bench.ticket(doc.id, "node-2")


@pytest.mark.asyncio
async def test_an_end_is_over_when_both_nodes_have_let_go(bench: Bench) -> None:
    doc = await bench.gang()
    await bench.join(doc.id)
    bench.agent.other.obeys_detach = False
    releasing = asyncio.ensure_future(bench.service.desk.release(ANN, doc.id, EndReason.RELEASED))
    await bench.service.until(lambda: not bench.agent.other.holders)
    assert bench.service.host.leases[doc.id].state is LeaseState.ENDING
    await bench.agent.other.join()  # it says that nothing is left, and is told to confirm it
    bench.agent.other.obeys_detach = True
    await bench.agent.other.join()
    assert (await releasing).state is LeaseState.ENDED


@pytest.mark.asyncio
async def test_a_lease_is_not_idle_while_a_process_on_another_node_computes(bench: Bench) -> None:
    doc = await bench.gang()
    await bench.join(doc.id)
    await bench.service.desk.active(ANN, doc.id, b'{"busy":false}')
    for percent, idle in ((90.0, False), (0.0, True), (90.0, False)):
        for agent, used in ((bench.agent.other, percent), (bench.agent, 0.0)):
            await agent.report(_sample(agent, doc.id, used))
        bench.service.hands.pass_seconds(60)
        lease = bench.service.host.leases[doc.id]
        assert (bench.service.idleness.idle_seconds(lease) != 0.0) is idle
    bench.agent.other.holders.clear()
    await bench.agent.other.report(ExitedReport(lease_id=doc.id, generation=1))
    await bench.service.until(lambda: not bench.service.host.pool.joined(doc.id))
    await bench.agent.report(_sample(bench.agent, doc.id, 0.0))
    bench.service.hands.pass_seconds(60)
    assert bench.service.idleness.idle_seconds(bench.service.host.leases[doc.id]) == 60.0


def _sample(agent: PlayedAgent, lease_id: str, percent: float) -> SampleReport:
    device = DeviceSample(
        device_id=f"GPU-{agent.node_id}-0", readings=ReadingsDoc(utilization_percent=percent)
    )
    return SampleReport(
        devices=[device], leases=[LeaseSample(lease_id=lease_id, utilization_percent=percent)]
    )
