"""How long a notebook waits for a share, and to give it back, when nothing is in its way.

Measured inside a real kernel, through the Python API, against the embedded pool on this machine's CPU device:
request → granted, in the journal, attached and under its limits; then release → limits taken off, confirmed.
In the same kernel: a round trip to an empty HTTP server, and one over an empty unix socket.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from typing import Any

from _common import CouldNotMeasure, Report, peer_server, percentile, run_benchmark, world
from jupyter_client.manager import KernelManager

#: Runs in the kernel; prints one line of JSON, all durations in seconds.
_CELL = """
import json, socket, time
import urllib3
import jupyter_gpupool as gpupool

def timed(call):
    started = time.perf_counter()
    answer = call()
    return time.perf_counter() - started, answer

taken = {"requests": [], "releases": [], "http": [], "socket": []}
taken["first"], lease = timed(lambda: gpupool.request(0.25, wait="60s"))
taken["in_force"] = [f"{one.resource.value}: {one.mechanism}" for one in lease.isolation]
lease.release()
for _ in range(COUNT):
    seconds, lease = timed(lambda: gpupool.request(0.25, wait=False))
    taken["requests"].append(seconds)
    seconds, _ = timed(lease.release)
    taken["releases"].append(seconds)

http, url, body = urllib3.PoolManager(retries=False), f"http://127.0.0.1:{PORT}/", b"x" * 200
with socket.socket(socket.AF_UNIX) as echo:
    echo.connect(SOCKET)
    for _ in range(COUNT):
        taken["http"].append(timed(lambda: http.request("POST", url, body=body))[0])
        taken["socket"].append(timed(lambda: (echo.sendall(body + b"\\n"), echo.recv(4096)))[0])
print("GPUPOOL", json.dumps(taken))
"""
#: Longest time for the cell, seconds.
_CELL_SECONDS = 300.0


def measure(report: Report) -> None:
    """Measure in one kernel."""
    count = 20 if report.quick else 300
    with world() as environment, peer_server(environment) as (port, socket_path):
        cell = f"COUNT, PORT, SOCKET = {count}, {port}, {socket_path!r}\n{_CELL}"
        taken = run_in_kernel(cell, environment)
    requests, releases = taken["requests"], taken["releases"]
    report.add("request → attached, p50", percentile(requests, 50) * 1000, "ms", "< 20")
    report.add("request → attached, p99", percentile(requests, 99) * 1000, "ms", "< 80")
    report.add("release, p50", percentile(releases, 50) * 1000, "ms", "< 20")
    report.add("release, p99", percentile(releases, 99) * 1000, "ms", "< 80")
    report.add("first request (starts the pool)", taken["first"] * 1000, "ms")
    http, echo = percentile(taken["http"], 50), percentile(taken["socket"], 50)
    report.add("peer: empty HTTP round trip, p50", http * 1000, "ms")
    report.add("peer: empty unix socket round trip, p50", echo * 1000, "ms")
    report.ratio("request / (HTTP + unix socket)", percentile(requests, 50), http + echo)
    report.ratio("release / HTTP", percentile(releases, 50), http)
    report.notes.append(f"In force: {'; '.join(taken['in_force'])}. {count} leases, one after the other.")


def run_in_kernel(code: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run a cell in a fresh kernel and return the JSON that it printed."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment)
    try:
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        request = client.execute(code)
        deadline = time.monotonic() + _CELL_SECONDS
        while time.monotonic() < deadline:
            try:
                message = client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") == request and (found := _printed(message)) is not None:
                return found
        raise CouldNotMeasure(f"the cell did not end within {_CELL_SECONDS:.0f} s.")
    finally:
        manager.shutdown_kernel(now=True)


def _printed(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the figures if a message carries them; raise if it carries an error."""
    content = message["content"]
    if message["msg_type"] == "error":
        raise CouldNotMeasure(f"the cell failed with {content['ename']}: {content['evalue']}")
    if message["msg_type"] == "stream":
        for line in content["text"].splitlines():
            if line.startswith("GPUPOOL "):
                found: dict[str, Any] = json.loads(line.removeprefix("GPUPOOL "))
                return found
    return None


if __name__ == "__main__":
    sys.exit(run_benchmark("Lease latency", measure))
