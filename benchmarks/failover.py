"""What a pool loses when nodes die, and how fast it has it again: 20 nodes with 200 holders, on one machine.

Each node is a whole agent process with an emulated GPU; each holder is a process that showed its ticket. A
node dies by kill -9 of its agent and of all that runs on it. Whoever lost a lease asks again, as a session
cluster does. Measured twice, the second time with the pool service killed at the same moment; then all agents
are started anew, one after the other. In the same run: how long the system takes to tell that a TCP peer was
killed.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable

from _common import CouldNotMeasure, Report, percentile, run_benchmark, world
from _nodes import Node, Pool, memory_bytes, signal_agent

#: What each holder has, thousandths of a GPU; 14 fit on one, so others have room for those of a dead node.
HOLDER_MILLI = 70
HOLDERS_PER_NODE = 10
#: What those who wait want: it fits nowhere while every node has ten holders.
WAITING_MILLI = 400
#: From a lost connection to the end of its leases, by default (`PoolService.agent_grace_seconds`).
GRACE_SECONDS = 15.0


def measure(report: Report) -> None:
    """Measure both failures and the rolling restart."""
    nodes, dying = (5, 1) if report.quick else (20, 2)
    with world() as environment:
        pool = Pool(environment, nodes, "1xA100-80GB", grace_seconds=GRACE_SECONDS)
        asyncio.run(_measure(report, pool, dying))


async def _measure(report: Report, pool: Pool, dying: int) -> None:
    try:
        await _fill(report, pool)
        await _failure(report, pool, pool.nodes[:dying], "nodes", killing_service=False)
        await _failure(report, pool, pool.nodes[dying : 2 * dying], "nodes and service", killing_service=True)
        await _rolling_restart(report, pool)
        await _frozen(report, pool, pool.nodes[-1])
    finally:
        await pool.close()
    faults = pool.journal_faults()
    report.add("faults in the journal when replayed", len(faults), "", "< 1")
    report.notes += faults[:5]
    closing = percentile([_tcp_close_seconds() for _ in range(20)], 50)
    report.add("limit: a killed TCP peer is told after", closing * 1000, "ms")
    detected = next(it.value for it in report.figures if it.name == "nodes: all noticed")
    report.ratio("noticing a killed agent / a killed TCP peer", detected, closing * 1000)


async def _fill(report: Report, pool: Pool) -> None:
    """Start everything, and give every node its holders."""
    pool.serve()

    async def answers() -> bool:
        return await pool.ask("GET", "/api/v1/nodes") is not None

    await pool.until(answers, "a running pool service")
    began = time.monotonic()
    pool.join()
    wanted = {node.name for node in pool.nodes}
    await pool.until(_are(pool, wanted), "all nodes to join")
    report.add(f"{len(wanted)} agents started and joined", time.monotonic() - began, "s")

    async def offered() -> bool:
        return len(await pool.devices()) == len(wanted)

    await pool.until(offered, "all devices to be offered")
    devices = await pool.devices()
    await _load(pool, devices.values())
    pids = [node.agent.pid for node in pool.nodes if node.agent is not None]
    report.add("memory of an agent", memory_bytes(pids) / len(pids) / 2**20, "MiB")


async def _load(pool: Pool, devices: Iterable[str]) -> None:
    """Give each of these devices its holders."""
    for device in devices:
        leases = [await pool.request(HOLDER_MILLI, device) for _ in range(HOLDERS_PER_NODE)]
        await asyncio.gather(*(pool.hold(lease["id"]) for lease in leases))


def _are(pool: Pool, wanted: set[str]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await pool.connected() >= wanted

    return look


async def _failure(
    report: Report, pool: Pool, dying: list[Node], called: str, *, killing_service: bool
) -> None:
    """Kill nodes, see what is lost, ask for it again, and let the nodes come back."""
    before = {key: it for key, it in (await pool.leases()).items() if it["state"] == "active"}
    nodes = await pool.ask("GET", "/api/v1/nodes")
    names = {node.name for node in dying}
    lost_ids = {node["id"] for node in nodes if node["hostname"] in names}
    displaced = [key for key, lease in before.items() if lease["node_id"] in lost_ids]
    waiting = [(await pool.request(WAITING_MILLI))["id"] for _ in dying]
    holding = [asyncio.ensure_future(pool.hold(lease_id)) for lease_id in waiting]
    leases = await pool.leases()
    if any(leases[it]["state"] != "queued" for it in waiting):
        raise CouldNotMeasure("what should wait has room.")
    began = time.monotonic()
    for node in dying:
        node.end()
    pool.kill_holders(displaced)
    if killing_service:
        pool.kill_service()
        pool.serve()

    async def noticed() -> bool:
        found = await pool.ask("GET", "/api/v1/nodes")
        return found is not None and not any(it["connected"] for it in found if it["hostname"] in names)

    await pool.until(noticed, "the loss to be noticed")
    report.add(
        f"{called}: all noticed", (time.monotonic() - began) * 1000, "ms", "" if killing_service else "< 1000"
    )
    ended, placed, new = await _replace(pool, displaced, began)
    report.add(
        f"{called}: {len(displaced)} leases ended after (grace {pool.grace_seconds:.0f} s)", ended, "s"
    )
    report.add(f"{called}: all of them placed elsewhere after", placed, "s", "< 30")
    report.ratio(f"{called}: placed elsewhere / grace", placed, pool.grace_seconds)
    for node in dying:
        pool.start_agent(node)
    back = time.monotonic()
    await asyncio.gather(*holding)
    report.add(f"{called}: who waited placed, after the nodes' return", time.monotonic() - back, "s", "< 30")
    await _nothing_lost(report, pool, set(before) - set(displaced), called)
    await _as_before(pool, [*waiting, *new], names)


async def _as_before(pool: Pool, leave: list[str], names: set[str]) -> None:
    """Let those go who came, and give the nodes that are back their holders, for the next failure."""
    pool.kill_holders(leave)

    async def left() -> bool:
        leases = await pool.leases()
        return bool(leases) and all(leases.get(it, {"state": "ended"})["state"] == "ended" for it in leave)

    await pool.until(left, "the new holders to be gone")
    await _load(pool, [device for name, device in (await pool.devices()).items() if name in names])


async def _replace(pool: Pool, displaced: list[str], began: float) -> tuple[float, float, list[str]]:
    """Ask again for each lease as it ends; returns when the last ended, was held again, and which."""
    ended = 0.0
    left, work = set(displaced), list[Awaitable[str]]()

    async def again() -> str:
        lease = await pool.request(HOLDER_MILLI)
        return (await pool.hold(lease["id"])).lease_id

    while left:
        leases = await pool.leases()
        gone = {key for key in left if leases and leases.get(key, {"state": "ended"})["state"] == "ended"}
        work += [asyncio.ensure_future(again()) for _ in gone]
        left -= gone
        if gone:
            ended = time.monotonic() - began
        if time.monotonic() - began > 120:
            raise CouldNotMeasure(f"{len(left)} leases of dead nodes do not end.")
        await asyncio.sleep(0.05)
    new = await asyncio.gather(*work)
    return ended, time.monotonic() - began, new


async def _nothing_lost(report: Report, pool: Pool, survivors: set[str], called: str) -> None:
    """Count who lost a lease without its node having died, and who has a device's share twice."""
    leases = await pool.leases()
    lost = [key for key in survivors if leases.get(key, {}).get("state") != "active"]
    dead = [key for key in survivors if pool.holders[key].process.returncode is not None]
    report.add(f"{called}: leases and holders of other nodes lost", len(lost) + len(dead), "", "< 1")
    used: dict[str, int] = {}
    for lease in leases.values():
        for share in lease["shares"] if lease["state"] in {"attaching", "active", "ending"} else []:
            used[share["device_id"]] = used.get(share["device_id"], 0) + lease["compute_milli"]
    double = [device for device, milli in used.items() if milli > 1000]
    report.add(f"{called}: devices granted twice", len(double), "", "< 1")


async def _rolling_restart(report: Report, pool: Pool) -> None:
    """Start every agent anew, one after the other, while its holders run."""

    async def settled() -> bool:
        return all(it["state"] in {"active", "ended"} for it in (await pool.leases()).values())

    await pool.until(settled, "those who waited to be gone")
    before = {key for key, lease in (await pool.leases()).items() if lease["state"] == "active"}
    began = time.monotonic()
    for node in pool.nodes:
        signal_agent(node, signal.SIGTERM)
        assert node.agent is not None
        await asyncio.to_thread(node.agent.wait, 60)
        pool.start_agent(node)
        await pool.until(_are(pool, {node.name}), f"{node.name} to be back")
    report.add(f"rolling restart of {len(pool.nodes)} agents", time.monotonic() - began, "s")
    await asyncio.sleep(1.0)
    await _nothing_lost(report, pool, before, "rolling restart")


async def _frozen(report: Report, pool: Pool, node: Node) -> None:
    """Freeze an agent until that is noticed, and let it go on: its holders have lost nothing."""
    before = {key for key, lease in (await pool.leases()).items() if lease["state"] == "active"}

    async def noticed() -> bool:
        return node.name not in await pool.connected()

    signal_agent(node, signal.SIGSTOP)
    try:
        report.add("a frozen agent is noticed after", await pool.until(noticed, "it"), "s", "< 15")
    finally:
        signal_agent(node, signal.SIGCONT)
    await pool.until(_are(pool, {node.name}), f"{node.name} to be back")
    await _nothing_lost(report, pool, before, "a frozen agent")


def _tcp_close_seconds() -> float:
    """Kill a process that has a TCP connection to this one; return when that is told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "import socket, signal, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
            " s.send(b'x'); signal.pause()"
        )
        command = [sys.executable, "-I", "-S", "-c", code, str(server.getsockname()[1])]
        with subprocess.Popen(command) as child:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                began = time.perf_counter()
                child.kill()
                connection.recv(1)
                return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(run_benchmark("Failover", measure))
