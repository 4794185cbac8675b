"""The desk: requests, resizes, releases and restarts, against a real Pool and journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import DoesNotFitNow, UnknownLease
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.messages import (
    ApplyRefusedReport,
    DeviceSample,
    ExitedReport,
    LeaseSample,
    ReportOrder,
    SampleReport,
)
from jupyter_gpupool.service import desk as desk_module
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.errors import LimitsRefusedByAgent
from jupyter_gpupool.service.idempotency import IdempotencyConflict
from jupyter_gpupool.service.usage import Usage
from tests.support.service_bench import PlayedAgent, ServiceBench

ANN = Principal(owner="ann")
KERNEL = Principal(owner="ann", kernel_id="kernel-1")


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


@pytest.mark.asyncio
async def test_the_answer_to_a_request_has_a_ticket_that_the_agent_hears_of(bench: ServiceBench) -> None:
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', None)
    assert doc.attach is not None
    await bench.until(lambda: doc.id in bench.agent.prepared)
    assert (doc.attach.hostname, doc.attach.socket) == ("host-node-1", "/run/x.sock")
    ticket = bench.tickets.ready(bench.host.leases[doc.id])
    assert ticket is not None
    assert bench.agent.prepared[doc.id].ticket_sha256 == ticket.sha256
    assert doc.attach.ticket == ticket.value


@pytest.mark.asyncio
async def test_an_agent_that_is_away_delays_the_ticket_and_not_the_grant(
    bench: ServiceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.agent.away = True
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', None)
    assert (doc.state, doc.attach) == (LeaseState.ATTACHING, None)
    looking = asyncio.ensure_future(bench.desk.look(ANN, doc.id, doc.tag, 10.0))
    await bench.agent.join()
    seen = await looking
    assert seen.attach is not None


@pytest.mark.asyncio
async def test_a_slow_agent_delays_neither_the_answer_nor_the_ticket(bench: ServiceBench) -> None:
    bench.agent.gate = asyncio.Event()
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', None)
    assert doc.attach is not None
    assert not bench.agent.prepared
    bench.agent.gate.set()
    await bench.until(lambda: doc.id in bench.agent.prepared)


@pytest.mark.asyncio
async def test_a_ticket_that_an_agent_did_not_hear_of_is_taken_back(bench: ServiceBench) -> None:
    bench.agent.gate = asyncio.Event()
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', None)
    assert doc.attach is not None
    bench.agent.away = True
    bench.agent.gate.set()
    seen = await bench.desk.look(ANN, doc.id, doc.tag, 10.0)
    assert (seen.state, seen.attach) == (LeaseState.ATTACHING, None)


@pytest.mark.asyncio
async def test_a_ticket_that_expired_is_replaced_when_the_lease_is_looked_at(tmp_path: Path) -> None:
    bench = ServiceBench(tmp_path / "d" / "journal.sqlite3", config=PoolConfig(attach_ms=600_000))
    await bench.open()
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', None)
    bench.hands.pass_seconds(59)
    seen = await bench.desk.look(ANN, doc.id, None, 0.0)
    assert seen.attach is not None
    assert doc.attach is not None
    assert seen.attach.ticket != doc.attach.ticket
    ticket = bench.tickets.ready(bench.host.leases[doc.id])
    assert ticket is not None
    await bench.until(lambda: doc.id in bench.agent.prepared)
    await bench.until(lambda: bench.agent.prepared[doc.id].ticket_sha256 == ticket.sha256)
    await bench.close()


@pytest.mark.asyncio
async def test_a_kernel_that_restarts_gets_a_new_ticket_for_its_lease(bench: ServiceBench) -> None:
    doc = await bench.desk.request(KERNEL, b'{"compute_milli":250}', None)
    await bench.agent.attach(bench.host.leases[doc.id])
    active = await bench.desk.look(KERNEL, doc.id, doc.tag, 10.0)
    assert (active.state, active.holder.pid) == (LeaseState.ACTIVE, 4711)
    bench.agent.holders.clear()
    await bench.agent.report(ExitedReport(lease_id=doc.id, generation=1))
    again = await bench.desk.look(KERNEL, doc.id, active.tag, 10.0)
    assert (again.state, again.generation) == (LeaseState.ATTACHING, 2)
    assert again.attach is not None
    await bench.until(lambda: bench.agent.prepared[doc.id].generation == 2)


@pytest.mark.asyncio
async def test_a_resize_is_answered_when_it_is_in_force(bench: ServiceBench) -> None:
    lease = await bench.active(250)
    doc = await bench.desk.resize(ANN, lease.id, b'{"compute_milli":500}')
    assert (doc.compute_milli, doc.resizing) == (500, False)
    assert bench.on_disk()[lease.id] == "active"


@pytest.mark.asyncio
async def test_a_resize_that_the_agent_refuses_changes_nothing(bench: ServiceBench) -> None:
    lease = await bench.active(250)
    bench.agent.applies = False
    asking = asyncio.ensure_future(bench.desk.resize(ANN, lease.id, b'{"compute_milli":100}'))
    await bench.until(lambda: bench.host.leases[lease.id].pending)
    await bench.agent.report(ApplyRefusedReport(lease_id=lease.id, generation=1, detail="It uses 3 GiB."))
    with pytest.raises(LimitsRefusedByAgent, match="3 GiB"):
        await asking
    assert bench.host.leases[lease.id].shares == lease.shares
    assert not bench.book.refusals


@pytest.mark.asyncio
async def test_a_resize_that_takes_long_says_so(bench: ServiceBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "RESIZE_SECONDS", 0.05)
    lease = await bench.active(250)
    bench.agent.applies = False
    doc = await bench.desk.resize(ANN, lease.id, b'{"compute_milli":500}')
    assert doc.resizing


@pytest.mark.asyncio
async def test_a_grow_that_does_not_fit_is_refused(bench: ServiceBench) -> None:
    lease, _ = await bench.active(250), await bench.active(500)
    with pytest.raises(DoesNotFitNow):
        await bench.desk.resize(ANN, lease.id, b'{"compute_milli":501}')


@pytest.mark.asyncio
async def test_a_release_that_the_agent_does_not_confirm_is_ending(
    bench: ServiceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "RELEASE_SECONDS", 0.05)
    lease = await bench.active()
    bench.agent.obeys_detach = False
    doc = await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    assert doc.state is LeaseState.ENDING
    assert (await bench.desk.release(ANN, lease.id, EndReason.RELEASED)).state is LeaseState.ENDING


@pytest.mark.asyncio
async def test_two_releases_at_once_are_one(bench: ServiceBench) -> None:
    lease = await bench.active()
    docs = await asyncio.gather(*(bench.desk.release(ANN, lease.id, EndReason.RELEASED) for _ in range(3)))
    assert {doc.state for doc in docs} == {LeaseState.ENDED}


@pytest.mark.asyncio
async def test_an_ended_lease_is_found_in_the_journal_after_a_restart(tmp_path: Path) -> None:
    path, agent = tmp_path / "d" / "journal.sqlite3", PlayedAgent()
    bench = await ServiceBench(path, agent=agent).open()
    lease = await bench.active()
    await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    await bench.close()
    again = await ServiceBench(path, agent=agent).open()
    doc = await again.desk.look(ANN, lease.id, "some-tag", 30.0)
    assert (doc.state, doc.reason) == (LeaseState.ENDED, "Released.")
    with pytest.raises(UnknownLease):
        await again.desk.look(Principal(owner="bob"), lease.id, None, 0.0)
    await again.close()


@pytest.mark.asyncio
async def test_a_key_is_known_after_a_restart_and_forgotten_after_a_day(tmp_path: Path) -> None:
    path, agent = tmp_path / "d" / "journal.sqlite3", PlayedAgent()
    bench = await ServiceBench(path, agent=agent).open()
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', "key-1")
    await bench.close()
    again = await ServiceBench(path, agent=agent).open()
    assert (await again.desk.request(ANN, b'{"compute_milli":250}', "key-1")).id == doc.id
    with pytest.raises(IdempotencyConflict):
        await again.desk.request(ANN, b'{"compute_milli":251}', "key-1")
    await again.close()
    later = ServiceBench(path, agent=agent)
    later.hands.pass_seconds(24 * 3600 + 1)
    await later.open()
    assert (await later.desk.request(ANN, b'{"compute_milli":251}', "key-1")).id != doc.id
    await later.close()


@pytest.mark.asyncio
async def test_a_key_that_is_not_at_hand_is_looked_up(bench: ServiceBench) -> None:
    doc = await bench.desk.request(ANN, b'{"compute_milli":250}', "key-1")
    bench.keys._entries.clear()
    bench.keys._complete = False
    assert (await bench.desk.request(ANN, b'{"compute_milli":250}', "key-1")).id == doc.id
    bench.keys._entries.clear()
    with pytest.raises(IdempotencyConflict):
        await bench.desk.request(ANN, b'{"compute_milli":1}', "key-1")


@pytest.mark.asyncio
async def test_a_queued_request_is_given_up_when_nobody_listens(bench: ServiceBench) -> None:
    await bench.active(1000)
    doc = await bench.desk.request(ANN, b'{"compute_milli":500}', None)
    assert doc.state is LeaseState.QUEUED
    await bench.until(lambda: doc.id not in bench.host.leases)
    assert (await bench.desk.look(ANN, doc.id, None, 0.0)).end_reason is EndReason.ABANDONED


@pytest.mark.asyncio
async def test_the_sweep_ends_a_lease_whose_holder_is_not_there_any_more(bench: ServiceBench) -> None:
    lease = await bench.active()
    bench.agent.holders.clear()  # it ended, and nobody saw it
    bench.hands.pass_seconds(1)
    bench.dispatcher.ask_holders("node-1")
    await bench.until(lambda: lease.id not in bench.host.leases)
    assert any(isinstance(order, ReportOrder) for sent in bench.agent.sends for order in sent)


@pytest.mark.asyncio
async def test_the_sweep_detaches_a_holder_without_a_lease(bench: ServiceBench) -> None:
    lease = await bench.active()
    ghost = bench.agent.holders[lease.id]
    await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    bench.agent.holders[lease.id] = ghost
    bench.hands.pass_seconds(1)
    bench.dispatcher.ask_holders("node-1")
    await bench.until(lambda: not bench.agent.holders)


@pytest.mark.asyncio
async def test_readings_are_shown_and_unmanaged_memory_is_not_free(bench: ServiceBench) -> None:
    lease = await bench.active()
    sample = DeviceSample(
        device_id="GPU-node-1-0", readings=ReadingsDoc(utilization_percent=42.0), unmanaged_bytes=2**32
    )
    await bench.agent.report(
        SampleReport(devices=[sample], leases=[LeaseSample(lease_id=lease.id, memory_used_bytes=7)])
    )
    await bench.until(lambda: bench.host.pool.free("GPU-node-1-0").memory_bytes == 2**33)
    (device,) = bench.views.devices(ANN)
    assert device.readings.utilization_percent == 42.0
    assert device.readings.temperature_celsius is None
    assert device.unmanaged_bytes == 2**32
    assert bench.lease_views.lease(bench.host.leases[lease.id], ANN).memory_used_bytes == 7


@pytest.mark.asyncio
async def test_usage_is_exact_by_pool_time(bench: ServiceBench) -> None:
    usage = Usage(bench.host, bench.journal, bench.clock, bench.meter)
    lease = await bench.active(250)
    bench.hands.pass_seconds(100)
    (doc,) = await usage.of(ANN)
    assert (doc.device_seconds, doc.leases, doc.live_leases) == (25.0, 1, 1)
    await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    bench.hands.pass_seconds(100)
    (doc,) = await usage.of(ANN)
    assert (doc.device_seconds, doc.leases, doc.live_leases) == (25.0, 1, 0)


@pytest.mark.asyncio
async def test_the_tag_differs_whenever_something_does_that_should_be_shown(bench: ServiceBench) -> None:
    await bench.active(600)
    first = await bench.desk.request(ANN, b'{"compute_milli":500}', None)
    second = await bench.desk.request(ANN, b'{"compute_milli":500}', None)
    assert (first.position, second.position) == (1, 2)
    looking = asyncio.ensure_future(bench.desk.look(ANN, second.id, second.tag, 10.0))
    await asyncio.sleep(0)
    await bench.desk.release(ANN, first.id, EndReason.CANCELLED)
    seen = await looking
    assert seen.position == 1
    assert seen.tag != second.tag
