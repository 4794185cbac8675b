"""What it costs to have jupyter_gpupool installed and idle.

Each figure is taken with and without, turn by turn, so that a busy moment meets both: importing it against an
empty Python; a Jupyter server with and without the extension; a kernel under our provisioner and under the
local one; and what the pool service and its agent use when nobody asks for anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from _common import CouldNotMeasure, HttpConnection, Report, poll, process, run_benchmark, serving, world
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

_TOKEN = "benchmark"  # noqa: S105 - of a server that lives for seconds, on loopback
_WITHOUT = ("--ServerApp.jpserver_extensions=jupyter_gpupool=False",)
#: Extensions of others: the same in both, so they only add noise.
_OTHERS = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals")


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
    before = sum(map(_cpu_seconds, pids))
    time.sleep(seconds)
    percent = (sum(map(_cpu_seconds, pids)) - before) / seconds * 100
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


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads, which the scheduler counts in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    except OSError as error:
        raise CouldNotMeasure(f"process {pid} ended, or this kernel counts no CPU time ({error}).") from error


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- server ---------------------------------------------------------------------------------------


@contextmanager
def jupyter_server(environment: dict[str, str], *arguments: str) -> Iterator[tuple[int, float]]:
    """Run a Jupyter server; yields its port and how long it took to answer, seconds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    others = [f"--ServerApp.jpserver_extensions={name}=False" for name in _OTHERS]
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={_TOKEN}", *others, *arguments]
    started = time.perf_counter()
    with process(command, environment) as child:
        poll(lambda: _answers(port) or child.poll() is not None, "a running Jupyter server")
        if child.poll() is not None:
            raise CouldNotMeasure("the Jupyter server ended by itself.")
        yield port, time.perf_counter() - started


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/status?token={_TOKEN}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _server_cost(report: Report, environment: dict[str, str], rounds: int) -> None:
    beyond, bare = [], []
    for number in range(rounds):
        seconds = {}
        for ours in (True, False) if number % 2 else (False, True):
            with jupyter_server(environment, *(() if ours else _WITHOUT)) as (port, seconds[ours]):
                _check_extension(port, ours)
        beyond.append(seconds[True] - seconds[False])
        bare.append(seconds[False])
    report.add(
        "Jupyter server start, with the extension beyond without", median(beyond) * 1000, "ms", "< 150"
    )
    report.add("peer: Jupyter server start without the extension", median(bare) * 1000, "ms")


def _check_extension(port: int, expected: bool) -> None:
    """See that a server has our extension, or has not: otherwise the difference means nothing."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/jupyter_gpupool/api/v1/pool?token={_TOKEN}", timeout=30):
            found = True
    except HTTPError as error:
        found = error.code != 404
    if found is not expected:
        raise CouldNotMeasure(f"the extension is {'not ' if expected else ''}loaded in that server.")


# --- kernel ---------------------------------------------------------------------------------------


def _kernel_cost(report: Report, environment: dict[str, str], rounds: int) -> None:
    taken: dict[str, list[float]] = {"with": [], "without": []}
    with jupyter_server(environment) as (ours, _), jupyter_server(environment, *_WITHOUT) as (bare, _):
        turns = (("with", ours), ("without", bare))
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
    headers = f"Authorization: token {_TOKEN}\r\n"
    connection = HttpConnection(port)
    started = time.perf_counter()
    status, body = await connection.ask("POST", "/api/kernels", headers, b'{"name": "python3"}')
    if status != 201:
        raise CouldNotMeasure(f"a kernel start was answered with {status}: {body[:300].decode()}")
    kernel = json.loads(body)["id"]
    await _answer_of_kernel(f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels?token={_TOKEN}")
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
