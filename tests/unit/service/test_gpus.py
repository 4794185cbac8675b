"""What a service shows of GPUs, tells their holders, and has done before their processes are signalled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import EndReason, Lease, LeaseState, Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc, ProcessDoc, QuiescedDoc, ReadingsDoc
from jupyter_gpupool.protocol.messages import (
    AttachedReport,
    DeviceReport,
    DeviceSample,
    DevicesReport,
    ExitedReport,
    LeaseSample,
    QuiescedReport,
    QuiesceOrder,
    SampleReport,
)
from jupyter_gpupool.service import desk as desk_module
from jupyter_gpupool.service.auth import Forbidden, Principal
from jupyter_gpupool.service.concerns import unmanaged_use
from tests.support.service_bench import GIB, PlayedAgent, ServiceBench

ANN, BOB = Principal(owner="ann"), Principal(owner="bob")
KERNEL = Principal(owner="ann", kernel_id="kernel-1")
CUDA0, CUDA1 = "GPU-node-1-0", "GPU-node-1-1"
LIMIT = IsolationDoc(
    resource=Resource.MEMORY,
    strength=Strength.SOFT,
    mechanism="MPS pinned memory limit",
    limit="4.0 GiB",
    verified=Verified.PENDING,
)


class GPUAgent(PlayedAgent):
    """An agent whose first GPU is shared by MPS, and whose second one is a MIG instance."""

    def __init__(self) -> None:
        super().__init__(devices=2)
        self.health = Health.HEALTHY
        self.sharing = "mps"

    def reports(self) -> list[DeviceReport]:
        first, second = super().reports()
        reason = "" if self.health is Health.HEALTHY else "XID 79: the GPU has fallen off the bus."
        first = msgspec.structs.replace(first, health=self.health, health_reason=reason)
        first = msgspec.structs.replace(first, sharing=self.sharing, isolation=[LIMIT])
        return [
            first,
            msgspec.structs.replace(
                second, name="cuda1-mig0", parent_id="GPU-x", parent_milli=285, whole_only=True, sharing="mig"
            ),
        ]

    async def turn(self, health: Health) -> None:
        """Report that the first GPU is otherwise well now."""
        self.health = health
        await self.report(DevicesReport(devices=self.reports()))


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3", agent=GPUAgent()).open()
    yield opened
    await opened.close()


def agent_of(bench: ServiceBench) -> GPUAgent:
    assert isinstance(bench.agent, GPUAgent)
    return bench.agent


async def held(bench: ServiceBench, device: str = "cuda0", who: Principal = ANN) -> Lease:
    """Return a lease of a device whose holder is attached."""
    body = msgspec.json.encode({"compute_milli": 250, "device": device})
    doc = await bench.desk.request(who, body, None)
    await bench.until(lambda: doc.id in bench.agent.prepared)
    await bench.agent.attach(bench.host.leases[doc.id])
    await bench.until(lambda: bench.host.leases[doc.id].state is LeaseState.ACTIVE)
    return bench.host.leases[doc.id]


def a_sample(*leases: LeaseSample, **device: object) -> SampleReport:
    sample = DeviceSample(device_id=CUDA0, readings=ReadingsDoc(), **device)  # type: ignore[arg-type]
    return SampleReport(devices=[sample], leases=list(leases))


# --- shown ----------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_device_is_shown_with_how_it_is_shared_and_what_is_missing(bench: ServiceBench) -> None:
    process = ProcessDoc(pid=4711, user="ann", name="python", memory_bytes=GIB)
    missing = {"fan_percent": "not supported here"}
    await bench.agent.report(a_sample(unmanaged_bytes=GIB, unmanaged=[process], missing=missing))
    await bench.until(lambda: bench.host.pool.free(CUDA0).memory_bytes == 15 * GIB)
    first, second = bench.views.devices(BOB)
    assert (first.sharing, first.isolation, first.missing) == ("mps", [LIMIT], missing)
    assert first.unmanaged == [process], "so that somebody can be asked"
    assert (second.whole_only, second.parent_milli, second.parent_id) == (True, 285, "GPU-x")


@pytest.mark.asyncio
async def test_a_lease_of_an_instance_shows_what_was_asked_for_and_what_was_granted(
    bench: ServiceBench,
) -> None:
    lease = await held(bench, "cuda1-mig0")
    doc = bench.lease_views.lease(lease, ANN)
    assert (doc.asked_compute_milli, doc.asked_memory_bytes) == (250, None)
    assert (doc.compute_milli, doc.memory_bytes) == (1000, 16 * GIB)
    (share,) = doc.shares
    assert (share.parent_milli, share.whole_only) == (285, True)
    assert "0.25 was asked for" in doc.reason


@pytest.mark.asyncio
async def test_a_failed_device_is_a_warning_to_all_and_a_healthy_one_is_not(bench: ServiceBench) -> None:
    assert bench.views.warnings() == []
    await agent_of(bench).turn(Health.FAILED)
    await bench.until(bench.views.warnings)
    assert bench.views.warnings() == [
        "cuda0 has failed: XID 79: the GPU has fallen off the bus. "
        "It takes no new leases until it is healthy again."
    ]
    (device, _) = bench.views.devices(BOB)
    assert not device.offered
    assert device.health_reason == "XID 79: the GPU has fallen off the bus."
    await agent_of(bench).turn(Health.DEGRADED)
    await bench.until(lambda: "degraded" in "".join(bench.views.warnings()))
    await agent_of(bench).turn(Health.HEALTHY)
    await bench.until(lambda: not bench.views.warnings())


@pytest.mark.asyncio
async def test_use_without_a_lease_is_a_warning_with_who_it_is(bench: ServiceBench) -> None:
    processes = [
        ProcessDoc(pid=4711, user="ann", name="python", memory_bytes=6 * GIB),
        ProcessDoc(pid=4712, user="bob", name="train.py", memory_bytes=2 * GIB),
    ]
    await bench.agent.report(a_sample(unmanaged_bytes=8 * GIB, unmanaged=processes))
    assert bench.views.warnings() == [
        "2 processes without a lease use 8.0 GiB of cuda0: 4711 (ann, python), 4712 (bob, train.py)."
    ]


def test_where_the_driver_does_not_say_how_much_is_used_that_is_said() -> None:
    process = ProcessDoc(pid=1, user="ann", name="python")
    assert unmanaged_use("cuda0", [process], None) == (
        "1 process without a lease uses an unknown amount of cuda0: 1 (ann, python)."
    )
    assert " uses 3.0 GiB of cuda0" in unmanaged_use("cuda0", [process], 3 * GIB)
    assert unmanaged_use("cuda0", [process] * 6, None).endswith(" and 2 more.")


# --- told to holders ------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_notice_of_an_agent_wakes_who_waits_for_the_lease(bench: ServiceBench) -> None:
    lease = await held(bench)
    doc = bench.lease_views.lease(lease, ANN)
    looking = asyncio.ensure_future(bench.desk.look(ANN, lease.id, doc.tag, 10.0))
    await bench.until(lambda: bench.watch.watchers)
    sample = LeaseSample(lease_id=lease.id, utilization_percent=17.0, notices=["It uses 93 % of its memory."])
    await bench.agent.report(a_sample(sample))
    seen = await looking
    assert (seen.notices, seen.utilization_percent) == (["It uses 93 % of its memory."], 17.0)
    again = asyncio.ensure_future(bench.desk.look(ANN, lease.id, seen.tag, 10.0))
    await bench.until(lambda: bench.watch.watchers)
    await bench.agent.report(a_sample(LeaseSample(lease_id=lease.id)))
    assert (await again).notices == []


@pytest.mark.asyncio
async def test_a_reading_alone_wakes_nobody(bench: ServiceBench) -> None:
    lease = await held(bench)
    doc = bench.lease_views.lease(lease, ANN)
    looking = asyncio.ensure_future(bench.desk.look(ANN, lease.id, doc.tag, 0.2))
    await bench.until(lambda: bench.watch.watchers)
    await bench.agent.report(a_sample(LeaseSample(lease_id=lease.id, memory_used_bytes=7)))
    seen = await looking
    assert (seen.tag, seen.memory_used_bytes) == (doc.tag, 7)


@pytest.mark.asyncio
async def test_the_holder_of_a_failing_device_is_told_at_once_and_told_when_it_is_well(
    bench: ServiceBench,
) -> None:
    lease, other = await held(bench), await held(bench, "cuda1-mig0")
    doc = bench.lease_views.lease(lease, ANN)
    looking = asyncio.ensure_future(bench.desk.look(ANN, lease.id, doc.tag, 10.0))
    await bench.until(lambda: bench.watch.watchers)
    await agent_of(bench).turn(Health.FAILED)
    seen = await looking
    assert seen.notices == [
        "cuda0 is failing: XID 79: the GPU has fallen off the bus. Your work goes on; save it."
    ]
    assert bench.lease_views.lease(other, ANN).notices == []
    again = asyncio.ensure_future(bench.desk.look(ANN, lease.id, seen.tag, 10.0))
    await bench.until(lambda: bench.watch.watchers)
    await agent_of(bench).turn(Health.HEALTHY)
    assert (await again).notices == []


@pytest.mark.asyncio
async def test_a_limit_that_comes_into_force_later_is_shown_at_once(bench: ServiceBench) -> None:
    lease = await held(bench)
    doc = bench.lease_views.lease(lease, ANN)
    for verified in (Verified.PENDING, Verified.READ_BACK):
        looking = asyncio.ensure_future(bench.desk.look(ANN, lease.id, doc.tag, 10.0))
        await bench.until(lambda: bench.watch.watchers)
        limit = msgspec.structs.replace(LIMIT, verified=verified)
        await bench.agent.report(AttachedReport(lease_id=lease.id, generation=1, pid=4711, isolation=[limit]))
        doc = await looking
        assert doc.isolation == [limit]


@pytest.mark.asyncio
async def test_other_owners_see_no_notices_and_no_use(bench: ServiceBench) -> None:
    lease = await held(bench)
    sample = LeaseSample(lease_id=lease.id, utilization_percent=17.0, notices=["It uses too much."])
    await bench.agent.report(a_sample(sample))
    doc = bench.lease_views.lease(lease, BOB)
    assert (doc.owner, doc.notices, doc.utilization_percent) == ("", [], None)


@pytest.mark.asyncio
async def test_what_an_agent_said_goes_with_it(bench: ServiceBench) -> None:
    lease = await held(bench)
    await bench.agent.report(a_sample(LeaseSample(lease_id=lease.id, notices=["x"])))
    await bench.inbox.left("node-1")
    doc = bench.lease_views.lease(lease, ANN)
    assert (doc.notices, doc.memory_used_bytes) == ([], None)


# --- before a signal ------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_lease_under_mps_is_quiesced_by_its_agent(bench: ServiceBench) -> None:
    lease = await held(bench)
    answers = await asyncio.gather(*(bench.desk.quiesce(ANN, lease.id) for _ in range(3)))
    assert answers == [QuiescedDoc(leases=1, quiesced=1)] * 3
    assert set(bench.agent.quiesced) == {lease.id}
    assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=1), "harmless again"


@pytest.mark.asyncio
async def test_one_process_of_a_lease_is_quiesced_without_the_others(bench: ServiceBench) -> None:
    lease = await held(bench)
    pids = (41, 42, 41)
    bench.agent.quiesces = False
    asking = asyncio.gather(*(bench.desk.quiesce(ANN, lease.id, pid) for pid in pids))
    await bench.until(lambda: len(bench.agent.quiesced) == 2)
    orders = [it for sent in bench.agent.sends for it in sent if isinstance(it, QuiesceOrder)]
    assert sorted(it.pid for it in orders) == [41, 42]
    await bench.agent.report(QuiescedReport(lease_id=lease.id, generation=1, pid=42))
    assert not asking.done()
    await bench.agent.report(QuiescedReport(lease_id=lease.id, generation=1, pid=41))
    assert await asking == [QuiescedDoc(leases=1, quiesced=1)] * 3


@pytest.mark.asyncio
async def test_where_nothing_needs_it_the_agent_is_not_asked(bench: ServiceBench) -> None:
    lease = await held(bench, "cuda1-mig0")
    assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=1)
    waiting = await bench.desk.request(ANN, b'{"compute_milli":1000,"device":"cuda0"}', None)
    assert await bench.desk.quiesce(ANN, waiting.id) == QuiescedDoc(leases=1, quiesced=1)
    assert bench.agent.quiesced == []


@pytest.mark.asyncio
async def test_an_agent_that_does_not_answer_is_waited_for_only_so_long(
    bench: ServiceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "QUIESCE_SECONDS", 0.05)
    lease = await held(bench)
    bench.agent.quiesces = False
    assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=0)
    assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=0)
    assert bench.agent.quiesced == [lease.id] * 2, "it was asked anew"


@pytest.mark.asyncio
async def test_an_agent_that_is_away_is_not_waited_for(bench: ServiceBench) -> None:
    lease = await held(bench)
    bench.agent.away = True
    async with asyncio.timeout(2.0):
        assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=0)


@pytest.mark.asyncio
async def test_a_holder_that_exits_needs_no_answer(bench: ServiceBench) -> None:
    lease = await held(bench)
    bench.agent.quiesces = False
    asking = asyncio.ensure_future(bench.desk.quiesce(ANN, lease.id))
    await bench.until(lambda: bench.agent.quiesced)
    await bench.agent.report(ExitedReport(lease_id=lease.id, generation=1))
    assert await asking == QuiescedDoc(leases=1, quiesced=1)


@pytest.mark.asyncio
async def test_a_kernels_leases_are_quiesced_together_and_only_its_own(bench: ServiceBench) -> None:
    lease, _ = await held(bench, who=KERNEL), await held(bench)
    assert await bench.desk.quiesce_kernel(ANN, "kernel-1") == QuiescedDoc(leases=1, quiesced=1)
    assert await bench.desk.quiesce_kernel(KERNEL, "kernel-1") == QuiescedDoc(leases=1, quiesced=1)
    assert await bench.desk.quiesce_kernel(BOB, "kernel-1") == QuiescedDoc(leases=0, quiesced=0)
    assert set(bench.agent.quiesced) == {lease.id}
    with pytest.raises(Forbidden):
        await bench.desk.quiesce_kernel(KERNEL, "kernel-2")
    with pytest.raises(UnknownLease):
        await bench.desk.quiesce(BOB, lease.id)


@pytest.mark.asyncio
async def test_a_lease_that_is_over_is_safe(bench: ServiceBench) -> None:
    lease = await held(bench)
    await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    assert await bench.desk.quiesce(ANN, lease.id) == QuiescedDoc(leases=1, quiesced=1)
    assert bench.agent.quiesced == []


@pytest.mark.asyncio
async def test_a_gpu_whose_agent_is_away_may_be_fragile(bench: ServiceBench) -> None:
    lease = await held(bench)
    await bench.inbox.left("node-1")
    assert bench.book.fragile(lease)
    assert lease.want.kind is DeviceKind.CUDA
