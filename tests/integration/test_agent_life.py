"""Agents, pool services and holders outlive one another."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_gpupool.cluster import lockfile
from jupyter_gpupool.cluster.supervisor import AgentSupervisor
from jupyter_gpupool.protocol import names, paths
from jupyter_gpupool.protocol.messages import (
    AttachedReport,
    DetachedReport,
    DetachOrder,
    DevicesReport,
    HelloReport,
)
from tests.support.node_bench import MEMORY_BYTES, ROOT, HolderProcess, NodeBench, node_bench
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")


async def _service_process(bench: NodeBench) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.control_process", os.fspath(bench.runtime)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def _limited(holder: HolderProcess) -> list[int]:
    """See that a holder's data limit is its share (less a little that it has besides); return its cores."""
    limits = await holder.ask("limits")
    assert 0.95 * MEMORY_BYTES < limits["data"] <= MEMORY_BYTES, limits
    cores: list[int] = limits["cores"]
    return cores


async def _kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


@pytest.mark.asyncio
async def test_an_agent_outlives_a_killed_service_and_reports_its_holder_to_the_next() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        holder = await bench.holder()
        await holder.attach(bench.socket, await bench.prepare())
        attached = await bench.told(AttachedReport)
        cores = await _limited(holder)
        await bench.stop_serving()

        service = await _service_process(bench)
        assert service.stdout is not None
        assert await service.stdout.readline() == b"joined\n"
        await _kill(service)
        await bench.serve()
        hello = await bench.told(HelloReport, count=2)

        assert agent.returncode is None
        assert hello.pid == agent.pid
        assert [(seen.lease_id, seen.generation, seen.pid) for seen in hello.holders] == [
            (bench.lease_id, 1, holder.pid)
        ]
        assert hello.holders[0].isolation == attached.isolation
        assert await _limited(holder) == cores


@pytest.mark.asyncio
async def test_a_lonely_agent_notices_a_new_service_at_once_and_leaks_nothing() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        process = psutil.Process(agent.pid)
        descriptors = process.num_fds()
        for number in range(2, 6):
            await bench.stop_serving()
            await bench.serve()
            await bench.told(HelloReport, count=number)
        await until(lambda: process.num_fds() <= descriptors + 1, what="old sockets are closed")
        listening = [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert len(listening) == 1


@pytest.mark.asyncio
async def test_the_next_agent_adopts_the_holder_of_a_killed_one() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        holder = await bench.holder()
        free = await holder.ask("limits")
        await holder.attach(bench.socket, await bench.prepare())
        cores = await _limited(holder)
        await _kill(agent)
        await until(lambda: bench.left, what="the service sees that the agent is gone")

        await bench.agent()

        hello = await bench.told(HelloReport, count=2)
        assert [(seen.lease_id, seen.pid) for seen in hello.holders] == [(bench.lease_id, holder.pid)]
        assert await _limited(holder) == cores
        assert bench.control is not None
        await bench.control.send(bench.node_id, [DetachOrder(lease_id=bench.lease_id, generation=1)])
        await bench.told(DetachedReport)
        assert await holder.ask("limits") == free


@pytest.mark.asyncio
async def test_of_a_holder_that_ended_while_no_agent_was_there_nothing_is_left() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        holder = await bench.holder()
        child = (await holder.ask("spawn"))["pid"]
        everywhere = os.sched_getaffinity(child)
        try:
            await holder.attach(bench.socket, await bench.prepare())
            agent.terminate()
            assert await agent.wait() == 0
            assert (bench.runtime / "holders" / f"{bench.lease_id}.json").exists()
            await holder.kill()

            await bench.agent()

            assert (await bench.told(HelloReport, count=2)).holders == []
            assert not list((bench.runtime / "holders").iterdir())
            assert os.sched_getaffinity(child) == everywhere
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.asyncio
async def test_an_agent_without_holders_and_service_ends_by_itself() -> None:
    async with node_bench() as bench:
        agent = await bench.agent(alone_seconds=0.5)
        async with asyncio.timeout(20):
            assert await agent.wait() == 0


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_a_second_agent_in_a_runtime_directory_does_not_start() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        second = await bench.agent()
        async with asyncio.timeout(20):
            assert await second.wait() == 1
        assert "AgentRuns" in bench.log


@pytest.mark.asyncio
async def test_a_runtime_directory_with_a_very_long_path_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(names.ENV_RUNTIME_DIR, os.fspath(tmp_path / ("r" * 200)))
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        holder = await bench.holder()
        reply = await holder.attach(bench.socket, await bench.prepare())
        assert reply.lease_id == bench.lease_id
        assert len(os.fsencode(bench.socket)) <= names.MAX_SOCKET_PATH
        place = bench.socket.parent
        agent.terminate()
        assert await agent.wait() == 0
        assert not place.exists()


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_a_supervisor_starts_an_agent_again_when_it_was_killed_and_leaves_it_when_it_closes() -> None:
    runtime = paths.make_runtime_dir()
    bench = NodeBench(runtime)
    supervisor = _supervisor(runtime)
    try:
        await bench.serve()
        supervisor.start()
        first = await bench.told(HelloReport)
        os.kill(first.pid, signal.SIGKILL)
        second = await bench.told(HelloReport, count=2)
        assert second.pid != first.pid
        await supervisor.close()
        assert _agent_lives(runtime)

        supervisor = _supervisor(runtime)
        supervisor.start()
        await supervisor.stop()
        assert not _agent_lives(runtime)
        assert len(bench.all(HelloReport)) == 2
    finally:
        await supervisor.stop()
        await bench.close()


def _supervisor(runtime: Path) -> AgentSupervisor:
    program = f"""
import sys
sys.path.insert(0, {os.fspath(ROOT)!r})
from tests.support.agent_process import main
main()
"""
    settings = json.dumps({"runtime": os.fspath(runtime)})
    return AgentSupervisor(runtime, [settings], command=[sys.executable, "-c", program])


def _agent_lives(runtime: Path) -> bool:
    pidfd = lockfile.holder(runtime / names.AGENT_LOCK)
    if pidfd is None:
        return False
    os.close(pidfd)
    return True


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_a_second_pool_on_the_machine_sees_the_device_taken_until_the_first_ends() -> None:
    async with node_bench() as first:
        await first.serve()
        agent = await first.agent()
        second = NodeBench(first.runtime / "other")
        second.runtime.mkdir(mode=0o700)
        try:
            await second.serve()
            await second.agent()
            assert [device.taken_by for device in first.hello.devices] == [""]
            assert second.hello.devices[0].taken_by.endswith(f"'s pool (pid {agent.pid})")
            await _kill(agent)
            report = await second.told(DevicesReport)
            assert report.devices[0].taken_by == ""
        finally:
            await second.close()


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_an_agent_that_is_frozen_counts_as_lost_and_joins_again_when_it_goes_on() -> None:
    async with node_bench() as bench:
        await bench.serve()
        agent = await bench.agent()
        agent.send_signal(signal.SIGSTOP)
        await until(lambda: bench.left, what="the silent agent is given up", seconds=40)
        agent.send_signal(signal.SIGCONT)
        assert (await bench.told(HelloReport, count=2)).pid == agent.pid
