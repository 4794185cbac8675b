"""What it adds to a lease that its limits are set and read back before the holder goes on.

Measured inside a real kernel against the embedded pool's real agent: only the exchange over the agent's unix
socket, from showing the ticket to the answer that says what is in force. Turn by turn with it, in the same
kernel, what no such exchange can be quicker than: connecting to a unix socket and getting the same line back.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from _common import CouldNotMeasure, Report, peer_server, percentile, run_benchmark, serving, world
from lease_latency import run_in_kernel

#: Runs in the kernel; prints one line of JSON, all durations in seconds.
_CELL = """
import json, socket, time, uuid
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.kernel.attach import show_ticket
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseRequest

def timed(call):
    started = time.perf_counter()
    answer = call()
    return time.perf_counter() - started, answer

def echo():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(SOCKET)
        stream.sendall(b"x" * 150 + b"\\n")
        assert stream.recv(4096)

client = PoolClient(Connection(url=URL, token=TOKEN))
until = time.monotonic() + 40
while not (devices := client.devices()) and time.monotonic() < until:
    time.sleep(0.05)
taken = {}
for kind in sorted({device.kind.value for device in devices}):
    found = taken[kind] = {"requests": [], "attaches": [], "echoes": [], "in_force": []}
    for _ in range(COUNT):
        body = LeaseRequest(compute_milli=250, kind=DeviceKind(kind), holder=HolderRequest(key="benchmark"))
        seconds, lease = timed(lambda: client.request(body, key=uuid.uuid4().hex))
        found["requests"].append(seconds)
        while lease.attach is None and time.monotonic() < until:
            lease = client.lease(lease.id, since=lease.tag, wait_seconds=5)
        seconds, reply = timed(lambda: show_ticket(lease.attach))
        found["attaches"].append(seconds)
        found["echoes"].append(timed(echo)[0])
        found["in_force"] = [[it.resource.value, it.mechanism, it.verified.value] for it in reply.isolation]
        client.release(lease.id)
        until = time.monotonic() + 40
print("GPUPOOL", json.dumps(taken))
"""


def measure(report: Report) -> None:
    """Measure in one kernel, for each kind of device that there is."""
    count = 20 if report.quick else 300
    with (
        world() as environment,
        peer_server(environment) as (_, socket_path),
        serving(environment, "--embedded") as (url, token, _),
    ):
        given = json.dumps([count, url, token, socket_path])
        taken = run_in_kernel(f"COUNT, URL, TOKEN, SOCKET = {given}\n{_CELL}", environment)
    if not taken:
        raise CouldNotMeasure("the pool has no device.")
    for kind, found in taken.items():
        _add(report, kind, found)
    report.notes.append(f"{count} leases of a quarter on each kind of device, one after the other.")


def _add(report: Report, kind: str, found: dict[str, Any]) -> None:
    """Add the figures of one kind of device."""
    limits = [f"{resource}: {mechanism} ({verified})" for resource, mechanism, verified in found["in_force"]]
    if kind == "cpu" and any(verified == "pending" for _, _, verified in found["in_force"]):
        raise CouldNotMeasure(f"limits were not read back: {'; '.join(limits)}.")
    attaches, echo = found["attaches"], percentile(found["echoes"], 50)
    report.add(f"attach with read-back, {kind}, p50", percentile(attaches, 50) * 1000, "ms", "< 30")
    report.add(f"attach with read-back, {kind}, p99", percentile(attaches, 99) * 1000, "ms")
    report.add(f"the rest: request → granted, {kind}, p50", percentile(found["requests"], 50) * 1000, "ms")
    report.add(f"limit: connect and echo, {kind} turn, p50", echo * 1000, "ms")
    report.ratio(f"attach / (connect and echo), {kind}", percentile(attaches, 50), echo)
    report.notes.append(f"In force on {kind}: {'; '.join(limits)}.")


if __name__ == "__main__":
    sys.exit(run_benchmark("Attach with read-back", measure))
