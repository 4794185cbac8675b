"""What the host decides while it writes: it goes with the next transaction, and is void if this one fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.cluster.journal import JournalUnavailable
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.service import host as host_module
from tests.support.service_bench import ServiceBench


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "RETRY_SECONDS", (0.05, 0.05))


@contextmanager
def slow_disk(bench: ServiceBench) -> Iterator[None]:
    """Let nothing be written until the block ends."""
    go = threading.Event()
    bench.journal._thread.submit(go.wait, 10)
    try:
        yield
    finally:
        go.set()


def _commits(bench: ServiceBench) -> float:
    return bench.metrics._registry.get_sample_value("jupyter_gpupool_journal_commit_seconds_count") or 0.0


@pytest.mark.asyncio
async def test_what_comes_while_a_batch_is_written_is_decided_and_makes_one_more(bench: ServiceBench) -> None:
    before = _commits(bench)
    with slow_disk(bench):
        first = asyncio.ensure_future(bench.granted(100))
        await bench.until(lambda: len(bench.host.pool.leases) == 1)
        others = [asyncio.ensure_future(bench.granted(100)) for _ in range(5)]
        await bench.until(lambda: len(bench.host.pool.leases) == 6)
        assert not bench.host.leases
        assert not first.done()
    await asyncio.gather(first, *others)
    assert _commits(bench) - before == 2
    assert set(bench.on_disk().values()) == {"attaching"}


@pytest.mark.asyncio
async def test_a_batch_that_cannot_be_written_takes_what_was_decided_after_it_along(
    bench: ServiceBench,
) -> None:
    held = await bench.active(500)
    bench.block_writes()
    with slow_disk(bench):
        asked = asyncio.ensure_future(bench.host.submit(bench.requested(100)))
        await bench.until(lambda: len(bench.host.pool.leases) == 2)
        late = [
            asyncio.ensure_future(bench.host.submit(bench.requested(100))),
            asyncio.ensure_future(bench.host.submit(bench.released(held.id))),
        ]
        await bench.until(lambda: bench.host.pool.leases[held.id].state is LeaseState.ENDING)
    results = await asyncio.gather(asked, *late, return_exceptions=True)
    assert [type(it) for it in results] == [JournalUnavailable, JournalUnavailable, type(None)]
    await bench.until(lambda: not bench.host.leases and not bench.host.pool.leases)
    bench.allow_writes()
    await bench.until(lambda: bench.host.failure is None and bench.host.pool.accepting)
    assert bench.on_disk() == {held.id: "ended"}


@pytest.mark.asyncio
async def test_who_wants_to_look_gets_a_moment_though_requests_never_stop(bench: ServiceBench) -> None:
    stop = False

    async def busy(owner: str) -> None:
        while not stop:
            lease = await bench.granted(10, owner=owner)
            await bench.host.submit(bench.released(lease.id))

    busy_owners = [asyncio.ensure_future(busy(f"owner-{number}")) for number in range(8)]
    for _ in range(10):
        async with asyncio.timeout(10):
            await bench.host.settled()
        assert dict(bench.host.leases) == dict(bench.host.pool.leases)
    stop = True
    await asyncio.gather(*busy_owners)


@pytest.mark.asyncio
async def test_a_fault_while_a_batch_is_written_spares_that_batch(
    bench: ServiceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("a fault")

    with slow_disk(bench):
        first = asyncio.ensure_future(bench.granted(100))
        await bench.until(lambda: len(bench.host.pool.leases) == 1)
        with monkeypatch.context() as patch:
            patch.setattr(bench.host.pool, "handle", broken)
            late = asyncio.ensure_future(bench.host.submit(bench.requested(100)))
            await bench.until(lambda: bench.host._decided)
    assert (await first).state is LeaseState.ATTACHING
    with pytest.raises(Exception, match="its log says why"):
        await late
    await bench.until(lambda: bench.host.pool.accepting)
    assert set(bench.host.pool.leases) == set(bench.host.leases) == set(bench.on_disk())
