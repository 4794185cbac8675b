"""What it costs to have jupyter_gpupool installed and idle.

Each figure is taken with and without, turn by turn, so that a busy moment meets both: importing it against an
empty Python; a Jupyter server with and without the extension; a kernel under our provisioner and under the
local one; and what the pool service and its agent use when nobody asks for anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from statistics import median
from urllib.error import HTTPError
from urllib.request import urlopen

from _common import CouldNotMeasure, HttpConnection, Report, cpu_seconds, poll, run_benchmark, serving, world
from _jupyter import TOKEN, jupyter_server
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

_WITHOUT = ("--ServerApp.jpserver_extensions=jupyter_gpupool=False",)


def measure(report: Report) -> None:
    """Measure all four."""
    rounds = 3 if report.quick else 15
    _import_cost(report, rounds)
    with world() as environment, serving(environment, "--embedded") as (_, _, pid):
        _idle_cost(report, environment, pid, 5.0 if report.quick else 60.0)
        _server_cost(report, environment, rounds)
        _kernel_cost(report, environment, rounds)


def _import_cost(report: Report, rounds: int) -> None:
    taken: dict[str, list[tuple[float, float]]] = {"pass": [], "import jupyter_gpupool": []}
    for _ in range(rounds):
        for statement, samples in taken.items():
            samples.append(_python_seconds(statement))
    empty, ours = taken["pass"], taken["import jupyter_gpupool"]
    beyond = [(mine[0] - bare[0], mine[1] - bare[1]) for mine, bare in zip(ours, empty, strict=True)]
    wall, cpu = (median(sample[which] for sample in beyond) * 1000 for which in (0, 1))
    report.add("import jupyter_gpupool, beyond an empty Python", wall, "ms", "< 50")
    report.add("the same, CPU time (a busy machine does not change it)", cpu, "ms")
    report.add("peer: an empty Python process", median(sample[0] for sample in empty) * 1000, "ms")


def _python_seconds(statement: str) -> tuple[float, float]:
    """Run a statement in a fresh Python; returns wall and CPU seconds of the whole process."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", statement])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise CouldNotMeasure(f"“{statement}” ended with status {child.returncode}.")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


# --- idle -----------------------------------------------------------------------------------------


def _idle_cost(report: Report, environment: dict[str, str], service: int, seconds: float) -> None:
    poll(lambda: _agents_in(environment), "a running agent")
    pids = [service, *_agents_in(environment)]
    time.sleep(5)  # what a start costs is not what idling costs
    before = sum(map(cpu_seconds, pids))
    time.sleep(seconds)
    percent = (sum(map(cpu_seconds, pids)) - before) / seconds * 100
    memory = sum(map(_resident_bytes, pids)) / 2**20
    report.add("service + agent, idle (of one core)", percent, "%", "< 1")
    report.add("service + agent, resident", memory, "MiB", "< 250")


def _agents_in(environment: dict[str, str]) -> list[int]:
    """Return the agents of this world: by their command line and their runtime directory."""
    runtime = f"JUPYTER_GPUPOOL_RUNTIME_DIR={environment['JUPYTER_GPUPOOL_RUNTIME_DIR']}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if b"agent" in command and runtime in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- server ---------------------------------------------------------------------------------------


def _server_cost(report: Report, environment: dict[str, str], rounds: int) -> None:
    beyond, bare = [], []
    for number in range(rounds):
        seconds = {}
        for ours in (True, False) if number % 2 else (False, True):
            with jupyter_server(environment, *(() if ours else _WITHOUT)) as server:
                seconds[ours] = server.seconds
                _check_extension(server.port, ours)
        beyond.append(seconds[True] - seconds[False])
        bare.append(seconds[False])
    report.add(
        "Jupyter server start, with the extension beyond without", median(beyond) * 1000, "ms", "< 150"
    )
    report.add("peer: Jupyter server start without the extension", median(bare) * 1000, "ms")


def _check_extension(port: int, expected: bool) -> None:
    """See that a server has our extension, or has not: otherwise the difference means nothing."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/jupyter_gpupool/api/v1/pool?token={TOKEN}", timeout=30):
            found = True
    except HTTPError as error:
        found = error.code != 404
    if found is not expected:
        raise CouldNotMeasure(f"the extension is {'not ' if expected else ''}loaded in that server.")


# --- kernel ---------------------------------------------------------------------------------------


def _kernel_cost(report: Report, environment: dict[str, str], rounds: int) -> None:
    taken: dict[str, list[float]] = {"with": [], "without": []}
    with jupyter_server(environment) as ours, jupyter_server(environment, *_WITHOUT) as bare:
        turns = (("with", ours.port), ("without", bare.port))
        for number in range(rounds + 1):
            for which, port in turns if number % 2 else reversed(turns):
                seconds = asyncio.run(kernel_start_seconds(port))
                if number:  # the first of each warms the page cache
                    taken[which].append(seconds)
    with_us, local = median(taken["with"]), median(taken["without"])
    report.add("kernel start under our provisioner", with_us * 1000, "ms")
    report.add("peer: kernel start under the local one", local * 1000, "ms")
    report.ratio("ours / local", with_us, local, "< 1.05")


async def kernel_start_seconds(port: int) -> float:
    """Start a kernel through a server; returns the seconds until it answered, and ends it."""
    headers = f"Authorization: token {TOKEN}\r\n"
    connection = HttpConnection(port)
    started = time.perf_counter()
    status, body = await connection.ask("POST", "/api/kernels", headers, b'{"name": "python3"}')
    if status != 201:
        raise CouldNotMeasure(f"a kernel start was answered with {status}: {body[:300].decode()}")
    kernel = json.loads(body)["id"]
    await _answer_of_kernel(f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels?token={TOKEN}")
    seconds = time.perf_counter() - started
    await connection.ask("DELETE", f"/api/kernels/{kernel}", headers)
    connection.close()
    return seconds


async def _answer_of_kernel(url: str) -> None:
    """Ask a kernel who it is, and wait for the answer."""
    channels = await websocket_connect(HTTPRequest(url, request_timeout=60))
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "kernel_info_request", "session": "b", "username": ""}
    ask = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": {}}
    await channels.write_message(json.dumps(ask))
    while True:
        text = await asyncio.wait_for(channels.read_message(), 60)
        if text is None:
            raise CouldNotMeasure("the kernel's websocket closed.")
        if json.loads(text)["msg_type"] == "kernel_info_reply":
            break
    channels.close()


if __name__ == "__main__":
    sys.exit(run_benchmark("Footprint", measure))
