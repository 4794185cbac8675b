"""Why, as owners are told it: what is theirs by name, of others only what is in the way."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from rich.console import Console

from jupyter_gpupool.core.causes import Cause
from jupyter_gpupool.core.errors import InvalidValue, UnknownLease
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.kernel import render
from jupyter_gpupool.protocol.codec import decode, encode
from jupyter_gpupool.protocol.documents import LeaseRequest, WhyDoc
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.terminal import print_why
from tests.support.service_bench import PlayedAgent, ServiceBench

ANN, BOB = Principal(owner="ann"), Principal(owner="bob")


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


async def ask(bench: ServiceBench, who: Principal, **fields: object) -> str:
    body = encode({"compute_milli": 1000, **fields})
    return (await bench.desk.request(who, body, None)).id


@pytest.mark.asyncio
async def test_a_request_is_told_who_is_in_its_way_and_never_who_others_are(bench: ServiceBench) -> None:
    held = await ask(bench, ANN, hold_seconds=600)
    waits = await ask(bench, BOB)
    why = await bench.desk.why(BOB, waits)
    assert (why.state, why.cause, why.position, why.ahead) == (LeaseState.QUEUED, Cause.CAPACITY, 1, 0)
    (blocker,) = why.blockers
    assert not blocker.mine
    assert blocker.lease_id != held
    assert (blocker.compute_milli, blocker.devices) == (1000, ["cuda0"])
    assert why.known
    assert why.estimate is not None
    assert 590 < why.estimate.seconds <= 600
    assert blocker.ends == why.estimate
    everything = encode(why).decode()
    assert held not in everything
    assert "ann" not in everything
    assert decode(encode(why), WhyDoc) == why


@pytest.mark.asyncio
async def test_ones_own_lease_in_the_way_is_named(bench: ServiceBench) -> None:
    held = await ask(bench, ANN)
    why = await bench.desk.why(ANN, await ask(bench, ANN))
    assert [(it.lease_id, it.mine, it.ends) for it in why.blockers] == [(held, True, None)]
    assert why.estimate is None


@pytest.mark.asyncio
async def test_leases_of_others_have_no_reasons(bench: ServiceBench) -> None:
    held = await ask(bench, ANN)
    for lease_id in (held, "lease_none"):
        with pytest.raises(UnknownLease):
            await bench.desk.why(BOB, lease_id)


@pytest.mark.asyncio
async def test_what_has_ended_says_why_it_did(bench: ServiceBench) -> None:
    await ask(bench, ANN)
    waits = await ask(bench, ANN)
    await bench.desk.release(ANN, waits, EndReason.CANCELLED)
    why = await bench.desk.why(ANN, waits)
    assert (why.state, why.cause, why.blockers) == (LeaseState.ENDED, None, [])
    assert why.sentences == [why.reason]


@pytest.mark.asyncio
async def test_it_reads_well_in_a_terminal_and_in_a_notebook(bench: ServiceBench) -> None:
    await ask(bench, ANN, hold_seconds=600)
    why = await bench.desk.why(BOB, await ask(bench, BOB, compute_milli=500))
    output = io.StringIO()
    print_why(why, Console(file=output, width=100))
    shown = render.why([why])
    for text in (output.getvalue(), shown.text, shown.markup):
        for part in ("position 1", "next in line", "In its way", "somebody else", "cuda0", "10 min"):
            assert part in text, text


@pytest.mark.asyncio
async def test_what_was_asked_for_reaches_the_pool(bench: ServiceBench) -> None:
    lease_id = await ask(bench, ANN, compute_milli=250, priority="low", spread=True, at_most=True, count=1)
    want = bench.host.leases[lease_id].want
    assert (want.priority.value, want.spread, want.at_most, want.count) == ("low", True, True, 1)


@pytest.mark.parametrize("count", [0, -1, 1025, 2**40])
@pytest.mark.asyncio
async def test_a_number_of_devices_that_means_nothing_is_refused(bench: ServiceBench, count: int) -> None:
    with pytest.raises(InvalidValue, match="count"):
        await bench.desk.request(ANN, encode(LeaseRequest(compute_milli=500, count=count)), None)


@pytest.mark.asyncio
async def test_holds_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "d" / "journal.sqlite3"
    bench = await ServiceBench(path).open()
    for _ in range(6):
        lease = await bench.active(1000)
        await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    await bench.close()
    again = await ServiceBench(path).open()
    try:
        assert again.host.pool._ledger.history.hold("ann") is not None
    finally:
        await again.close()


@pytest.mark.asyncio
async def test_an_administrator_is_told_whose_lease_would_have_to_move_and_where_to(tmp_path: Path) -> None:
    bench = ServiceBench(tmp_path / "d" / "journal.sqlite3", agent=PlayedAgent(devices=2))
    await bench.open()
    assert bench.views.proposals() == []
    await ask(bench, ANN, device="cuda0", compute_milli=900)
    kernels = [Principal(owner="bob", kernel_id=f"k-{it}") for it in range(2)]
    moved = []
    for who in kernels:
        moved.append(await ask(bench, who, compute_milli=250))  # beside what blocks the other device
        await bench.until(lambda: moved[-1] in bench.agent.prepared)
        await bench.agent.attach(bench.host.leases[moved[-1]])
        await bench.until(lambda: bench.host.leases[moved[-1]].state is LeaseState.ACTIVE)
        if len(moved) == 1:
            blocks = await ask(bench, ANN, device="cuda1", compute_milli=700)
            for lease in list(bench.host.leases.values()):
                if lease.owner == "ann" and lease.id != blocks:
                    await bench.desk.release(ANN, lease.id, EndReason.RELEASED)
    await bench.desk.release(ANN, blocks, EndReason.RELEASED)
    waits = await ask(bench, ANN)
    (found,) = bench.views.proposals()
    assert (found.lease_id, found.owner, found.position) == (waits, "ann", 1)
    (move,) = found.moves
    assert (move.lease_id in moved, move.owner, move.compute_milli) == (True, "bob", 250)
    assert {move.from_device, move.to_device} == {"cuda0", "cuda1"}
    assert move.from_hostname == move.to_hostname == "host-node-1"
    await bench.close()
