"""An agent in its own process attaches, resizes, detaches and watches real processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal

import pytest

from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyOrder,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    DetachOrder,
    ExitedReport,
    HoldersReport,
    ReportOrder,
    SampleReport,
    StopOrder,
)
from tests.support.node_bench import node_bench
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    "not __import__('sys').platform.startswith('linux')", reason="agents run on Linux"
)


@pytest.mark.asyncio
async def test_a_running_process_comes_under_its_share_and_out_of_it_again() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        before = await holder.ask("limits")

        reply = await holder.attach(bench.socket, await bench.prepare())

        assert reply.error is None
        assert reply.lease_id == bench.lease_id
        assert {doc.resource.value for doc in reply.isolation} == {"memory", "compute"}
        attached = await bench.told(AttachedReport)
        assert (attached.pid, attached.generation) == (holder.pid, 1)
        assert await holder.ask("limits") != before
        assert (bench.runtime / "holders" / f"{bench.lease_id}.json").stat().st_mode & 0o777 == 0o600

        await bench.control.send(bench.node_id, [DetachOrder(lease_id=bench.lease_id, generation=1)])
        await bench.told(DetachedReport)
        assert await holder.ask("limits") == before
        assert not list((bench.runtime / "holders").iterdir())


@pytest.mark.asyncio
async def test_a_lease_that_nobody_took_is_over_when_its_end_was_ordered() -> None:
    async with node_bench() as bench:
        control = await bench.serve()
        await bench.agent()
        ticket = await bench.prepare()
        await control.send(bench.node_id, [DetachOrder(lease_id=bench.lease_id, generation=1)])
        assert (await bench.told(DetachedReport)).lease_id == bench.lease_id
        reply = await (await bench.holder()).attach(bench.socket, ticket)
        assert reply.error is not None
        assert reply.error.code == "stale_ticket"


@pytest.mark.asyncio
async def test_threads_and_children_that_exist_come_under_the_limits_too() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        await holder.ask("thread")
        child = (await holder.ask("spawn"))["pid"]
        try:
            everywhere = os.sched_getaffinity(child)
            reply = await holder.attach(bench.socket, await bench.prepare())
            assert reply.error is None
            tasks = [int(name) for name in os.listdir(f"/proc/{holder.pid}/task")]  # noqa: PTH208
            assert len(tasks) == 2
            for pid in (holder.pid, child):
                assert resource.prlimit(pid, resource.RLIMIT_DATA)[0] <= 2**30
            affinities = {frozenset(os.sched_getaffinity(pid)) for pid in (*tasks, child)}
            assert len(affinities) == 1

            await holder.kill()
            await bench.told(ExitedReport)
            await until(lambda: os.sched_getaffinity(child) == everywhere, what="the orphan is free again")
            await until(lambda: not list((bench.runtime / "holders").iterdir()), what="no record is left")
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.asyncio
async def test_a_process_that_is_too_large_is_refused_with_both_numbers_and_its_ticket_is_used_up() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        before = await holder.ask("limits")
        ticket = await bench.prepare(memory_bytes=2**20)

        reply = await holder.attach(bench.socket, ticket)

        assert reply.error is not None
        assert reply.error.code == "holder_too_large"
        refused = await bench.told(AttachRefusedReport)
        assert reply.error.message in refused.detail
        assert await holder.ask("limits") == before
        again = await holder.attach(bench.socket, ticket)
        assert again.error is not None
        assert again.error.code == "stale_ticket"


@pytest.mark.asyncio
async def test_a_resize_is_applied_or_refused_and_the_old_limits_hold() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        await holder.attach(bench.socket, await bench.prepare())
        assert (await holder.ask("limits"))["data"] <= 2**30

        shares = [bench.share(memory_bytes=2**31)]
        await bench.control.send(
            bench.node_id, [ApplyOrder(lease_id=bench.lease_id, generation=1, shares=shares)]
        )
        assert (await bench.told(AppliedReport)).lease_id == bench.lease_id
        assert 1.9 * 2**30 < (await holder.ask("limits"))["data"] <= 2**31

        shares = [bench.share(memory_bytes=2**20)]
        await bench.control.send(
            bench.node_id, [ApplyOrder(lease_id=bench.lease_id, generation=1, shares=shares)]
        )
        assert "MiB" in (await bench.told(ApplyRefusedReport)).detail
        assert 1.9 * 2**30 < (await holder.ask("limits"))["data"] <= 2**31


@pytest.mark.asyncio
async def test_the_end_of_a_process_is_reported_at_once() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        await holder.attach(bench.socket, await bench.prepare())
        await holder.kill()
        exited = await bench.told(ExitedReport)
        assert (exited.lease_id, exited.generation) == (bench.lease_id, 1)


@pytest.mark.asyncio
async def test_a_sweep_lists_what_lives_also_when_no_process_is_watched() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent(watch_holders=False)
        one, two = await bench.holder(), await bench.holder()
        other = f"{bench.lease_id}_2"
        await one.attach(bench.socket, await bench.prepare(compute_milli=250))
        await two.attach(bench.socket, await bench.prepare(other, compute_milli=250))
        await one.kill()

        await bench.control.send(bench.node_id, [ReportOrder(token=7)])

        answer = await bench.told(HoldersReport)
        assert answer.token == 7
        assert [(holder.lease_id, holder.pid) for holder in answer.holders] == [(other, two.pid)]
        assert answer.holders[0].isolation
        assert not bench.all(ExitedReport)


@pytest.mark.asyncio
async def test_the_next_process_of_a_kernel_takes_the_place_of_the_one_that_is_still_ending() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent(watch_holders=False)
        one, two = await bench.holder(), await bench.holder()
        free = await one.ask("limits")
        await one.attach(bench.socket, await bench.prepare())
        reply = await two.attach(bench.socket, await bench.prepare(generation=2))
        assert reply.error is None
        assert await one.ask("limits") == free
        await bench.told(AttachedReport, count=2)
        assert [report.generation for report in bench.all(AttachedReport)] == [1, 2]


@pytest.mark.asyncio
async def test_a_second_process_cannot_join_a_lease() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        one, two = await bench.holder(), await bench.holder()
        await one.attach(bench.socket, await bench.prepare())
        reply = await two.attach(bench.socket, await bench.prepare())
        assert reply.error is not None
        assert reply.error.code == "already_attached"
        again = await one.attach(bench.socket, await bench.prepare())
        assert again.error is None


@pytest.mark.asyncio
async def test_a_detach_of_what_is_not_there_is_confirmed() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        await bench.control.send(bench.node_id, [DetachOrder(lease_id="lease_9", generation=3)])
        detached = await bench.told(DetachedReport)
        assert (detached.lease_id, detached.generation) == ("lease_9", 3)


@pytest.mark.asyncio
async def test_a_lease_that_ended_before_its_ticket_was_shown_is_not_attached() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        ticket = await bench.prepare()
        await bench.control.send(bench.node_id, [DetachOrder(lease_id=bench.lease_id, generation=1)])
        reply = await holder.attach(bench.socket, ticket)
        assert reply.error is not None
        assert reply.error.code == "stale_ticket"


@pytest.mark.asyncio
async def test_samples_tell_what_a_holder_uses() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        await holder.attach(bench.socket, await bench.prepare())
        await until(
            lambda: any(
                lease.lease_id == bench.lease_id and lease.memory_used_bytes
                for report in bench.all(SampleReport)
                for lease in report.leases
            ),
            what="a sample of the lease",
        )


@pytest.mark.asyncio
async def test_a_stop_order_ends_the_agent() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        await bench.control.send(bench.node_id, [StopOrder()])
        async with asyncio.timeout(20):
            assert await agent.wait() == 0
        assert not bench.socket.exists()
