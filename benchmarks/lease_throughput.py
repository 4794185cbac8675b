"""How many durable leases a second the pool service grants over HTTP to 16 owners at once.

One cycle is a request answered with a granted lease and a release, each in the journal, on disk and synced,
before it is answered. The devices are emulated and large enough that nothing ever queues. In the same run:
what the disk syncs, what SQLite commits one by one, and what an empty HTTP server answers to the same load.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from _common import (
    CouldNotMeasure,
    HttpConnection,
    Report,
    disk_of,
    peer_server,
    percentile,
    run_benchmark,
    serving,
    world,
)

OWNERS = 16
EMULATED = "8xA100-80GB,8xH100-80GB"
#: One lease: a fiftieth of a device, so that 16 of them never fill the pool.
BODY = {"compute_milli": 20}


class Cycles:
    """How long requests and releases took, seconds, and how long all of it took."""

    def __init__(self) -> None:
        self.requests: list[float] = []
        self.releases: list[float] = []
        self.seconds = 0.0


#: One owner's round on its connection, with its token.
Cycle = Callable[[HttpConnection, str, Cycles], Awaitable[None]]


def measure(report: Report) -> None:
    """Measure the disk, the peers and the pool."""
    seconds = 2.0 if report.quick else 15.0
    with world() as environment:
        directory = Path(environment["JUPYTER_GPUPOOL_DATA_DIR"]).parent
        disk = disk_of(str(directory))
        if disk in {"tmpfs", "ramfs"}:
            raise CouldNotMeasure(f"{directory} is in memory ({disk}): nothing would be durable.")
        syncs = fsync_seconds(directory, 50 if report.quick else 300)
        commits = sqlite_commits_per_second(directory, seconds / 4)
        with peer_server(environment) as (port, _):
            empty = asyncio.run(_load(port, seconds / 4, _empty_cycle))
        tokens = {f"owner{number}": f"token-of-owner-{number}-{uuid.uuid4()}" for number in range(OWNERS)}
        config = directory / "pool_config.py"
        config.write_text(f"c.PoolService.tokens = {tokens!r}\n")
        with serving(environment, "--emulate", EMULATED, f"--config={config}") as (url, _, _):
            cycles = asyncio.run(_measure_pool(urlsplit(url).port or 0, list(tokens.values()), seconds))
    _report(report, disk, syncs, commits, empty, cycles)


def _report(
    report: Report,
    disk: str,
    syncs: list[float],
    commits: float,
    empty: Cycles,
    cycles: Cycles,
) -> None:
    rate = len(cycles.requests) / cycles.seconds
    report.add(f"leases granted and released, {OWNERS} owners", rate, "/s", "> 500")
    report.add("request p50", percentile(cycles.requests, 50) * 1000, "ms")
    report.add("request p99", percentile(cycles.requests, 99) * 1000, "ms", "< 100")
    report.add("release p50", percentile(cycles.releases, 50) * 1000, "ms")
    report.add("release p99", percentile(cycles.releases, 99) * 1000, "ms")
    report.add(f"limit: sync of 4 KiB on this disk ({disk}), p50", percentile(syncs, 50) * 1000, "ms")
    report.add("peer: SQLite, one row a commit, synced", commits, "/s")
    answered = (len(empty.requests) + len(empty.releases)) / empty.seconds
    report.add(f"peer: empty Tornado server, {OWNERS} connections", answered, "/s")
    report.ratio("two commits a lease / single commits", 2 * rate, commits)
    report.ratio("two requests a lease / empty Tornado", 2 * rate, answered)


def fsync_seconds(directory: Path, count: int) -> list[float]:
    """Append 4 KiB and sync, ``count`` times."""
    taken = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return taken


def sqlite_commits_per_second(directory: Path, seconds: float) -> float:
    """Commit one row at a time, in the mode that the journal uses."""
    database = sqlite3.connect(directory / "peer.db", isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE leases (id TEXT PRIMARY KEY, body BLOB)")
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO leases VALUES (?, ?)", (str(count), b"x" * 600))
            database.execute("COMMIT")
            count += 1
        return count / (time.perf_counter() - started)
    finally:
        database.close()


async def _measure_pool(port: int, tokens: list[str], seconds: float) -> Cycles:
    await _warm_up(port, tokens[0])
    return await _load(port, seconds, _lease_cycle, tokens)


async def _warm_up(port: int, token: str) -> None:
    """Wait until the agent has reported the devices."""
    connection = HttpConnection(port)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        status, body = await connection.ask("GET", "/api/v1/devices", f"Authorization: Bearer {token}\r\n")
        if status == 200 and any(device["offered"] for device in json.loads(body)):
            connection.close()
            return
        await asyncio.sleep(0.05)
    raise CouldNotMeasure(f"no device was offered within 30 s (last answer: {status}).")


async def _load(port: int, seconds: float, cycle: Cycle, tokens: list[str] | None = None) -> Cycles:
    """Run ``cycle`` over and over on each of 16 connections."""
    cycles = Cycles()
    started = time.perf_counter()
    deadline = started + seconds

    async def one_owner(number: int) -> None:
        connection = HttpConnection(port)
        token = tokens[number] if tokens else ""
        while time.perf_counter() < deadline:
            await cycle(connection, token, cycles)
        connection.close()

    await asyncio.gather(*(one_owner(number) for number in range(OWNERS)))
    cycles.seconds = time.perf_counter() - started
    return cycles


async def _empty_cycle(connection: HttpConnection, _: str, cycles: Cycles) -> None:
    for method, taken in (("POST", cycles.requests), ("DELETE", cycles.releases)):
        started = time.perf_counter()
        await connection.ask(method, "/", body=b'{"compute_milli": 20}')
        taken.append(time.perf_counter() - started)


async def _lease_cycle(connection: HttpConnection, token: str, cycles: Cycles) -> None:
    key = uuid.uuid4().hex
    headers = f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    body = json.dumps({**BODY, "holder": {"key": key}}).encode()
    started = time.perf_counter()
    status, answer = await connection.ask(
        "POST", "/api/v1/leases", f"{headers}Idempotency-Key: {key}\r\n", body
    )
    cycles.requests.append(time.perf_counter() - started)
    if status != 201:
        raise CouldNotMeasure(f"a request was answered with {status}: {answer[:300].decode()}")
    lease = json.loads(answer)
    if lease["state"] == "queued":
        raise CouldNotMeasure("a request was queued: the emulated devices are too few.")
    started = time.perf_counter()
    status, answer = await connection.ask("DELETE", f"/api/v1/leases/{lease['id']}", headers)
    cycles.releases.append(time.perf_counter() - started)
    if status not in {200, 202}:
        raise CouldNotMeasure(f"a release was answered with {status}: {answer[:300].decode()}")


if __name__ == "__main__":
    sys.exit(run_benchmark("Lease throughput", measure))
