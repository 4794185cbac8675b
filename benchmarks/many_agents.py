"""What a thousand agents cost one pool service: processor, memory, latency, and the storm after it restarts.

The agents are fake in what is behind them and real in how they speak: the same link, certificates and
messages, a few hundred in each of a few processes, each saying once a second that it lives. An event is a
lease that is granted, told to its agent, released, and confirmed by that agent. In the same run: how many
mutual TLS 1.3 handshakes one process takes in a second, with the same certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from _common import (
    HERE,
    CouldNotMeasure,
    HttpConnection,
    Report,
    percentile,
    run_benchmark,
    serving,
    world,
)

#: Clock ticks of the kernel in a second.
TICKS = os.sysconf("SC_CLK_TCK")
#: How long all agents may take to connect, seconds.
CONNECT_SECONDS = 600.0


def measure(report: Report) -> None:
    """Measure the handshakes, then the service with its agents, twice."""
    count, processes, seconds = (50, 1, 3.0) if report.quick else (1000, 4, 20.0)
    with world() as environment, serving(environment, "--PoolService.start_agent=False") as (_, _, pid):
        alone = memory_mib(pid)
        rate = asyncio.run(_handshakes_per_second(environment, 1.0 if report.quick else 5.0))
        with some_agents(environment, count, processes) as agents:
            began = time.monotonic()
            all_told(agents, pid)
            report.add(f"{count} agents connected after", time.monotonic() - began, "s")
            _steady(report, environment, pid, count, seconds)
            memory = memory_mib(pid)
            os.kill(pid, 9)
            _restart(report, environment, agents, count, rate)
    report.add("memory of the service", memory, "MiB")
    report.add("… for each agent", (memory - alone) * 1024 / count, "KiB", "< 500")
    report.add("limit: TLS handshakes, both ends in one process", rate, "/s")


def _restart(
    report: Report, environment: dict[str, str], agents: list[subprocess.Popen[str]], count: int, rate: float
) -> None:
    """Start the service anew, and wait until all agents are back."""
    (Path(environment["JUPYTER_GPUPOOL_RUNTIME_DIR"]) / "pool.json").unlink()
    with serving(environment, "--PoolService.start_agent=False") as (_, _, pid):
        began = time.monotonic()
        all_told(agents, pid)
        storm = time.monotonic() - began
        report.add(f"{count} agents back after a restart", storm, "s", "< 30")
        report.add("processor for that", _cpu_seconds(pid), "s")
    report.ratio("being back / one handshake each", storm, count / rate)


def _steady(report: Report, environment: dict[str, str], pid: int, count: int, seconds: float) -> None:
    """Watch the service while nothing happens, then while leases come and go."""
    before, began = _cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    used = (_cpu_seconds(pid) - before) / (time.monotonic() - began) * 100
    report.add(f"processor with {count} agents at 1 Hz, nothing else", used, "% of a core", "< 50")
    latencies = asyncio.run(_events(environment, count, 30 if count < 100 else 500))
    report.add("an event, p50", percentile(latencies, 50) * 1000, "ms")
    report.add("an event, p99", percentile(latencies, 99) * 1000, "ms", "< 250")


async def _events(environment: dict[str, str], count: int, events: int) -> list[float]:
    """Ask for a share of some agent's device and give it back, over and over; returns how long each took."""
    runtime = Path(environment["JUPYTER_GPUPOOL_RUNTIME_DIR"])
    connection = HttpConnection(urlsplit(json.loads((runtime / "pool.json").read_bytes())["url"]).port or 0)
    token = (runtime / "token").read_text().strip()
    headers = f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    chance, taken = random.Random(0), []
    for _ in range(events):
        device = f"GPU-fake-{chance.randrange(count)}"
        body = {"compute_milli": 100, "device": device, "holder": {"key": uuid.uuid4().hex}}
        began = time.perf_counter()
        status, answer = await connection.ask("POST", "/api/v1/leases", headers, json.dumps(body).encode())
        if status != 201 or json.loads(answer)["state"] == "queued":
            raise CouldNotMeasure(f"a request was answered with {status}: {answer[:300].decode()}")
        await _release(connection, headers, json.loads(answer)["id"])
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    connection.close()
    return taken


async def _release(connection: HttpConnection, headers: str, lease_id: str) -> None:
    """Give a lease back, and wait until its agent has confirmed that."""
    path = f"/api/v1/leases/{lease_id}"
    status, answer = await connection.ask("DELETE", path, headers)
    while status < 300 and (lease := json.loads(answer))["state"] != "ended":
        status, answer = await connection.ask("GET", f"{path}?since={lease['tag']}&wait_seconds=10", headers)
    if status >= 300:
        raise CouldNotMeasure(f"a release was answered with {status}: {answer[:300].decode()}")


@contextlib.contextmanager
def some_agents(
    environment: dict[str, str], count: int, processes: int, *, attach: bool = False
) -> Iterator[list[subprocess.Popen[str]]]:
    """Run the fake agents; with ``attach`` they say of each lease that its holder has attached."""
    each = count // processes
    with contextlib.ExitStack() as stack:
        started = []
        for number in range(processes):
            order = {
                "runtime": environment["JUPYTER_GPUPOOL_RUNTIME_DIR"],
                "first": number * each,
                "count": each,
                "attach": attach,
            }
            child = subprocess.Popen(
                [sys.executable, str(HERE / "_fake_agents.py"), json.dumps(order)],
                env={**environment, "PYTHONPATH": str(HERE.parent)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(_end, child)
            started.append(child)
        yield started


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait(30)
    if child.stdout is not None:
        child.stdout.close()


def all_told(agents: list[subprocess.Popen[str]], pid: int) -> None:
    """Wait until each process has told that all its agents are connected."""
    import select

    waiting = {child.stdout.fileno(): child for child in agents if child.stdout is not None}
    deadline = time.monotonic() + CONNECT_SECONDS
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise CouldNotMeasure(
                f"{len(waiting)} processes of agents are not connected after {CONNECT_SECONDS:.0f} s."
            )
        for handle in ready:
            child = waiting.pop(handle)
            assert child.stdout is not None
            if not child.stdout.readline():
                raise CouldNotMeasure("a process of fake agents ended.")


async def _handshakes_per_second(environment: dict[str, str], seconds: float) -> float:
    """Connect with mutual TLS over and over, both ends in this process."""
    directory = Path(environment["JUPYTER_GPUPOOL_RUNTIME_DIR"]) / "tls"

    def context(purpose: ssl.Purpose, role: str) -> ssl.SSLContext:
        made = ssl.create_default_context(purpose, cafile=str(directory / "ca.pem"))
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.load_cert_chain(directory / f"{role}.pem", directory / f"{role}.key")
        made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED
        return made

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        writer.close()

    ours, theirs = context(ssl.Purpose.SERVER_AUTH, "agent"), context(ssl.Purpose.CLIENT_AUTH, "service")
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=theirs)
    port = server.sockets[0].getsockname()[1]
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=ours)
        writer.write(b"x")
        await reader.readexactly(1)
        writer.close()
        count += 1
    taken = time.perf_counter() - began
    server.close()
    return count / taken


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:")) / 1024


if __name__ == "__main__":
    sys.exit(run_benchmark("Many agents", measure))
