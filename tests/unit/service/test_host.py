"""The host: decide, write down, then act; and what it does when it cannot write."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.cluster.journal import JournalUnavailable
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import AlreadyHolds, GrantsPaused
from jupyter_gpupool.core.events import ResizeRequested
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.protocol.messages import AttachedReport, DetachOrder, ExitedReport
from jupyter_gpupool.service import host as host_module
from tests.support.service_bench import PlayedAgent, ServiceBench


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "RETRY_SECONDS", (0.05, 0.05))


@pytest.mark.asyncio
async def test_a_grant_is_on_the_disk_before_anybody_is_told(bench: ServiceBench) -> None:
    lease = await bench.granted()
    assert bench.on_disk() == {lease.id: "attaching"}
    assert lease.state is LeaseState.ATTACHING


@pytest.mark.asyncio
async def test_orders_are_sent_after_the_commit(bench: ServiceBench) -> None:
    seen: list[dict[str, str]] = []
    original = bench.agent.send

    async def send(node_id: str, orders: object) -> None:
        seen.append(bench.on_disk())
        await original(node_id, orders)  # type: ignore[arg-type]

    bench.agent.send = send  # type: ignore[method-assign]
    lease = await bench.granted()
    await bench.until(lambda: lease.id in bench.agent.prepared)
    assert seen[0] == {lease.id: "attaching"}


@pytest.mark.asyncio
async def test_requests_that_come_together_share_one_transaction(bench: ServiceBench) -> None:
    before = _commits(bench)
    await asyncio.gather(*(bench.granted(5) for _ in range(100)))
    assert _commits(bench) - before <= 3
    assert set(bench.on_disk().values()) == {"attaching"}


def _commits(bench: ServiceBench) -> float:
    return bench.metrics._registry.get_sample_value("jupyter_gpupool_journal_commit_seconds_count") or 0.0


@pytest.mark.asyncio
async def test_the_lag_of_the_journal_is_the_age_of_what_waits_to_be_written(bench: ServiceBench) -> None:
    assert bench.host.lag_ms == 0
    hangs = threading.Event()
    disk = asyncio.ensure_future(bench.journal.read(lambda journal: hangs.wait(30)))
    asked = asyncio.ensure_future(bench.granted())
    try:
        await bench.until(lambda: bench.host._in_hand)
        bench.hands.pass_seconds(7)
        later = asyncio.ensure_future(bench.granted())
        await bench.until(lambda: bench.host._items)
        assert bench.host.lag_ms == 7000
    finally:
        hangs.set()
    await asyncio.gather(disk, asked, later)
    assert bench.host.lag_ms == 0


@pytest.mark.asyncio
async def test_orders_of_one_node_go_together_and_in_order(bench: ServiceBench) -> None:
    bench.agent.gate = asyncio.Event()
    leases = await asyncio.gather(*(bench.granted(5) for _ in range(20)))
    bench.agent.gate.set()
    await bench.until(lambda: len(bench.agent.prepared) == 20)
    assert len(bench.agent.sends) <= 2
    assert list(bench.agent.prepared) == [lease.id for lease in leases]


@pytest.mark.asyncio
async def test_a_refusal_reaches_its_caller_alone(bench: ServiceBench) -> None:
    first, second = bench.requested(key="k"), bench.requested(key="k")
    other = bench.requested()
    results = await asyncio.gather(
        *(bench.host.submit(event) for event in (first, second, other)), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), AlreadyHolds, type(None)]
    assert set(bench.on_disk()) == {first.lease_id, other.lease_id}


@pytest.mark.asyncio
async def test_what_is_read_while_a_commit_runs_is_what_was_written(bench: ServiceBench) -> None:
    asking = asyncio.ensure_future(bench.granted())
    while not bench.host.pool.leases:  # noqa: ASYNC110 - it must be seen in that very moment
        await asyncio.sleep(0)
    assert not bench.host.leases
    await bench.host.settled()
    assert list(bench.host.leases) == list(bench.host.pool.leases)
    await asking


@pytest.mark.asyncio
async def test_late_reports_are_dropped(bench: ServiceBench) -> None:
    await bench.agent.report(ExitedReport(lease_id="lease_gone", generation=3))
    lease = await bench.granted()
    await bench.agent.report(AttachedReport(lease_id=lease.id, generation=9, pid=1, isolation=[]))
    await bench.granted()
    assert bench.host.leases[lease.id].state is LeaseState.ATTACHING


@pytest.mark.asyncio
async def test_deadlines_are_kept_without_any_event(tmp_path: Path) -> None:
    bench = await ServiceBench(tmp_path / "d" / "journal.sqlite3", config=PoolConfig(attach_ms=30)).open()
    lease = await bench.granted()
    bench.hands.pass_seconds(0.031)
    await bench.until(lambda: lease.id not in bench.host.leases)
    ended = await bench.host.find(lease.id)
    assert ended is not None
    assert ended.end_reason is EndReason.ATTACH_EXPIRED
    await bench.close()


@pytest.mark.asyncio
async def test_a_wall_clock_that_jumps_changes_no_deadline(bench: ServiceBench) -> None:
    lease = await bench.granted()
    bench.hands.wall_seconds += 86_400 * 365
    bench.hands.monotonic_seconds += 1
    await bench.granted()
    bench.hands.wall_seconds -= 86_400 * 730
    bench.hands.monotonic_seconds += 1
    later = await bench.granted()
    assert bench.host.leases[lease.id].state is LeaseState.ATTACHING
    assert later.requested_ms - lease.requested_ms == 2000


class TestJournalFailure:
    """While the journal cannot be written, nothing is granted, and ends still happen."""

    @pytest.mark.asyncio
    async def test_nothing_is_granted_that_is_not_written_down(self, bench: ServiceBench) -> None:
        bench.block_writes()
        with pytest.raises(JournalUnavailable):
            await bench.granted()
        assert bench.host.leases == {}
        assert dict(bench.host.pool.leases) == {}
        assert bench.agent.prepared == {}
        with pytest.raises((GrantsPaused, JournalUnavailable)):
            await bench.granted()

    @pytest.mark.asyncio
    async def test_what_is_held_stays_held_and_can_be_released(self, bench: ServiceBench) -> None:
        first, second = await bench.active(), await bench.active()
        bench.block_writes()
        with pytest.raises(JournalUnavailable):
            await bench.granted()
        assert bench.host.leases[second.id].state is LeaseState.ACTIVE
        await bench.host.submit(bench.released(first.id))
        await bench.until(lambda: first.id not in bench.host.leases)
        assert any(isinstance(order, DetachOrder) for sent in bench.agent.sends for order in sent)
        assert bench.on_disk()[first.id] == "active"
        bench.hands.pass_seconds(9)
        assert bench.host.lag_ms >= 9000
        bench.allow_writes()
        await bench.until(lambda: bench.host.failure is None)
        assert bench.host.lag_ms == 0
        assert bench.on_disk()[first.id] == "ended"
        assert bench.on_disk()[second.id] == "active"

    @pytest.mark.asyncio
    async def test_an_end_that_is_first_to_fail_takes_effect(self, bench: ServiceBench) -> None:
        lease = await bench.active()
        bench.block_writes()
        await bench.host.submit(bench.released(lease.id))
        await bench.until(lambda: lease.id not in bench.host.leases)
        bench.allow_writes()
        await bench.until(lambda: bench.on_disk()[lease.id] == "ended")

    @pytest.mark.asyncio
    async def test_a_mixed_batch_grants_nothing_and_loses_nothing(self, bench: ServiceBench) -> None:
        held, waiting = await bench.active(1000), await bench.granted(500)
        assert waiting.state is LeaseState.QUEUED
        bench.block_writes()
        results = await asyncio.gather(
            bench.host.submit(bench.requested(100)),
            bench.host.submit(bench.released(held.id)),
            bench.host.submit(bench.requested(100)),
            return_exceptions=True,
        )
        assert [type(it) for it in results] == [JournalUnavailable, type(None), JournalUnavailable]
        await bench.until(lambda: held.id not in bench.host.leases)
        assert bench.host.leases[waiting.id].state is LeaseState.QUEUED
        bench.allow_writes()
        await bench.until(lambda: bench.host.leases[waiting.id].state is LeaseState.ATTACHING)
        assert bench.on_disk() == {held.id: "ended", waiting.id: "attaching"}

    @pytest.mark.asyncio
    async def test_a_holder_that_attaches_meanwhile_is_adopted(self, bench: ServiceBench) -> None:
        lease = await bench.granted()
        bench.block_writes()
        await bench.agent.attach(lease)
        await bench.until(lambda: bench.host.failure is not None)
        await bench.until(lambda: bench.host.leases[lease.id].state is LeaseState.ACTIVE)
        bench.allow_writes()
        await bench.until(lambda: bench.host.failure is None)
        assert bench.on_disk()[lease.id] == "active"

    @pytest.mark.asyncio
    async def test_a_holder_that_exits_meanwhile_ends_its_lease(self, bench: ServiceBench) -> None:
        lease = await bench.active()
        bench.block_writes()
        bench.agent.holders.clear()
        await bench.agent.report(ExitedReport(lease_id=lease.id, generation=lease.generation))
        await bench.until(lambda: lease.id not in bench.host.leases)
        bench.allow_writes()
        await bench.until(lambda: bench.on_disk()[lease.id] == "ended")

    @pytest.mark.asyncio
    async def test_a_resize_is_refused(self, bench: ServiceBench) -> None:
        lease = await bench.active()
        bench.block_writes()
        now = bench.clock.read()
        resize = ResizeRequested(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease.id, compute_milli=500)
        with pytest.raises(JournalUnavailable):
            await bench.host.submit(resize)
        assert bench.host.leases[lease.id] == lease
        assert bench.host.pool.leases[lease.id] == lease

    @pytest.mark.asyncio
    async def test_grants_are_made_again_afterwards(self, bench: ServiceBench) -> None:
        bench.block_writes()
        with pytest.raises(JournalUnavailable):
            await bench.granted()
        bench.allow_writes()
        await bench.until(lambda: bench.host.failure is None and bench.host.pool.accepting)
        lease = await bench.granted()
        assert bench.on_disk()[lease.id] == "attaching"

    @pytest.mark.asyncio
    async def test_a_restart_meanwhile_finds_what_was_written(self, tmp_path: Path) -> None:
        path = tmp_path / "d" / "journal.sqlite3"
        agent = PlayedAgent()
        bench = await ServiceBench(path, agent=agent).open()
        lease = await bench.active()
        bench.block_writes()
        await bench.host.submit(bench.released(lease.id))
        await bench.until(lambda: lease.id not in bench.host.leases)
        await bench.close()
        again = await ServiceBench(path, agent=agent).open()
        await again.until(lambda: lease.id not in again.host.leases)
        assert again.on_disk()[lease.id] == "ended"
        await again.close()


@pytest.mark.asyncio
async def test_a_fault_of_ours_leaves_nothing_half_done(
    bench: ServiceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await bench.active()

    def broken(effects: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(bench.dispatcher, "carry_out", broken)
        await bench.host.submit(bench.requested(100))
        await bench.until(lambda: not bench.host._items)
    await bench.until(lambda: bench.host.pool.accepting)
    assert set(bench.host.pool.leases) == set(bench.host.leases) == set(bench.on_disk())
    assert bench.host.leases[lease.id].state is LeaseState.ACTIVE
    await bench.granted(100)
