"""500 users of a Hub at once against one pool service: they ask, work, are idle, give back, for ten minutes.

Each request for more is asked of a Hub anew, as under a real one (here one in name only), is written to the
journal on disk, and reaches an agent, which says that a holder has attached. In the same run: what the same
users cost dask-gateway's server when they create and stop clusters that are nothing but entries of its
database (``pip install "dask-gateway-server[local]"``, or its Python in ``GATEWAY_PYTHON``).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from _common import (
    HERE,
    CouldNotMeasure,
    HttpConnection,
    Report,
    cpu_seconds,
    percentile,
    poll,
    process,
    run_benchmark,
    serving,
    world,
)
from _load_users import SHARE_MILLI, GatewayUser, PoolUser, Tally
from many_agents import all_told, memory_mib, some_agents

#: How many GPUs there are, one on each node: a little less than the users want.
NODES = 8


def measure(report: Report) -> None:
    """Run the pool under load, then its peer."""
    users, seconds, pace = (40, 10.0, 1.0) if report.quick else (500, 600.0, 10.0)
    with world() as environment, _hub(environment), serving(environment, *_arguments()) as (url, token, pid):
        tally, watched = _load_pool(environment, url, token, pid, users, seconds, pace)
        left = asyncio.run(_leases(urlsplit(url).port or 0, token))
        written = _written(environment)
    _report_pool(report, users, tally, seconds)
    report.add("most that was ever granted of a device", watched.worst / 1000, "", "< 1.001")
    lost = abs(len(written) - len(tally.granted) - tally.given_up)
    report.add("leases that are not ended in the journal, or not in it", lost + len(left), "", "< 1")
    memory = watched.memory
    report.add("processor of the service", 100 * watched.processor / seconds, "% of a core")
    report.add("memory of the service", memory[-1], "MiB")
    report.ratio("memory at the end / after a third", memory[-1], memory[len(memory) // 3], "< 1.1")
    gateway = os.environ.get("GATEWAY_PYTHON") or sys.executable
    if not os.environ.get("GATEWAY_PYTHON") and importlib.util.find_spec("dask_gateway_server") is None:
        report.notes.append("dask-gateway's server is not installed: it was not measured.")
        return
    _measure_gateway(report, gateway, users, max(10.0, seconds / 5), pace, tally)


def _arguments() -> tuple[str, ...]:
    return ("--hub", "--PoolService.start_agent=False", "--PoolService.attach_seconds=300")


@contextmanager
def _hub(environment: dict[str, str]) -> Iterator[None]:
    """Run the Hub in name only, and tell the pool of it."""
    folder = Path(environment["JUPYTER_GPUPOOL_DATA_DIR"]).parent
    with process([sys.executable, str(HERE / "_load_hub.py"), str(folder / "hub")], environment):
        poll((folder / "hub").exists, "the Hub to listen")
        environment |= {
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{(folder / 'hub').read_text()}/hub/api",
            "JUPYTERHUB_API_TOKEN": "token-of-the-service",
            "JUPYTERHUB_SERVICE_PREFIX": "/services/gpupool/",
        }
        yield


def _load_pool(
    environment: dict[str, str], url: str, token: str, pid: int, users: int, seconds: float, pace: float
) -> tuple[Tally, _Watched]:
    """Let users live; return what happened, and what was seen of the service meanwhile."""
    tally, watched = Tally(), _Watched(urlsplit(url).port or 0, token, pid)
    with some_agents(environment, NODES, 1, attach=True) as agents:
        all_told(agents, pid)
        before = cpu_seconds(pid)
        asyncio.run(_live(PoolUser, users, urlsplit(url).port or 0, tally, seconds, pace, watched))
        watched.processor = cpu_seconds(pid) - before
    return tally, watched


class _Watched:
    """Looks at the service now and then: what is granted of each device, and its memory."""

    def __init__(self, port: int, token: str, pid: int) -> None:
        self._port, self._token, self._pid = port, token, pid
        self.worst, self.processor = 0, 0.0
        self.memory: list[float] = []

    async def look(self) -> None:
        """Look until it is cancelled."""
        while True:
            granted: dict[str, int] = {}
            for lease in await _leases(self._port, self._token):
                for share in lease["shares"]:
                    granted[share["device_id"]] = granted.get(share["device_id"], 0) + share["compute_milli"]
            self.worst = max([self.worst, *granted.values()])
            self.memory.append(memory_mib(self._pid))
            await asyncio.sleep(1)


async def _leases(port: int, token: str) -> list[dict[str, Any]]:
    connection = HttpConnection(port)
    status, answer = await connection.ask("GET", "/api/v1/leases", f"Authorization: Bearer {token}\r\n")
    connection.close()
    if status != 200:
        raise CouldNotMeasure(f"the leases cannot be listed: {status} {answer[:200].decode()}")
    found: list[dict[str, Any]] = json.loads(answer)
    return found


async def _live(
    kind: type[PoolUser] | type[GatewayUser],
    users: int,
    port: int,
    tally: Tally,
    seconds: float,
    pace: float,
    watched: _Watched | None = None,
) -> None:
    until = time.monotonic() + seconds
    looking = asyncio.ensure_future(watched.look()) if watched is not None else None
    everybody = [kind(it, port, tally, random.Random(it), pace) for it in range(users)]
    try:
        async with asyncio.timeout(2 * seconds + 300):
            await asyncio.gather(*(user.live(until) for user in everybody))
    finally:
        if looking is not None:
            looking.cancel()
            failed = (await asyncio.gather(looking, return_exceptions=True))[0]
            if isinstance(failed, CouldNotMeasure):
                raise failed


def _written(environment: dict[str, str]) -> list[str]:
    """Return the leases that the journal has, all of which have to be ended."""
    (journal,) = Path(environment["JUPYTER_GPUPOOL_DATA_DIR"]).rglob("journal.sqlite3")
    database = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        return [row[0] for row in database.execute("SELECT id FROM leases WHERE state = 'ended'")]
    finally:
        database.close()


def _report_pool(report: Report, users: int, tally: Tally, seconds: float) -> None:
    calls = tally.all_seconds
    report.add(f"calls of {users} users", len(calls) / seconds, "/s")
    report.add("leases granted and given back", len(tally.granted), "")
    for what in ("request", "activity", "look", "release"):
        report.add(f"{what}, p50", percentile(tally.seconds[what], 50) * 1000, "ms")
        report.add(f"{what}, p99", percentile(tally.seconds[what], 99) * 1000, "ms", "< 250")
    report.add("any call, p99", percentile(calls, 99) * 1000, "ms", "< 250")
    report.add("errors", tally.errors.total(), "", "< 1")
    report.notes += [f"{count} x {what}" for what, count in tally.errors.most_common(3)]
    report.notes.append(f"A share is {SHARE_MILLI / 1000:g} of one of {NODES} GPUs; who finds none waits.")


def _measure_gateway(
    report: Report, python: str, users: int, seconds: float, pace: float, ours: Tally
) -> None:
    """Let as many users create and stop clusters of dask-gateway's server."""
    with world() as environment, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.close()
        folder = Path(environment["JUPYTER_GPUPOOL_DATA_DIR"]).parent
        environment |= {"GATEWAY_ADDRESS": f"127.0.0.1:{port}", "GATEWAY_FOLDER": str(folder)}
        command = [python, "-m", "dask_gateway_server", "-f", str(HERE / "_load_gateway.py")]
        with process(command, environment) as child:
            poll(lambda: _listens(port) or child.poll() is not None, "dask-gateway's server")
            if child.poll() is not None:
                raise CouldNotMeasure("dask-gateway's server does not start.")
            tally = Tally()
            asyncio.run(_live(GatewayUser, users, port, tally, seconds, pace))
    if tally.errors:
        raise CouldNotMeasure(f"dask-gateway's server: {tally.errors.most_common(1)}")
    for what, name in (("request", "create"), ("release", "stop")):
        theirs = percentile(tally.seconds[what], 99)
        report.add(f"peer: dask-gateway's server, {name}, p99", theirs * 1000, "ms")
        report.ratio(f"{what} / its {name}, p99", percentile(ours.seconds[what], 99), theirs)


def _listens(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(run_benchmark("Users of a Hub", measure))
