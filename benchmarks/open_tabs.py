"""What twenty open tabs cost a Jupyter server: the live channels of a pool with 64 devices and 200 leases.

A real Jupyter server with our extension follows a pool that is made up and says something new each second,
and twenty clients take what it passes on, as twenty tabs do. In the same run, as the peer: a server that does
nothing but send the same text as often to as many.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from _common import HERE, CouldNotMeasure, Report, cpu_seconds, poll, process, run_benchmark, world
from _jupyter import TOKEN, jupyter_server
from tornado.websocket import WebSocketClientConnection, websocket_connect

sys.path.insert(0, str(HERE.parent))
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.server.feed import PoolMessage
from tests.browser.made_up import made_up_pool
from tests.support.fake_pool import FakePool

DEVICES, LEASES, TABS = 64, 200, 20
#: Longest that anything may take to arrive, seconds.
_PATIENCE_SECONDS = 30.0


def measure(report: Report) -> None:
    """Measure ours, then the peer."""
    docs = [made_up_pool(DEVICES, LEASES, tick=number) for number in range(20)]
    seconds = 4.0 if report.quick else 20.0
    with world() as environment:
        asyncio.run(_measure(report, docs, environment, seconds))


async def _measure(
    report: Report, docs: Sequence[PoolDoc], environment: dict[str, str], seconds: float
) -> None:
    text = encode(PoolMessage(pool=docs[0])).decode()
    async with _speaking(docs) as pool:
        options = (f"--GPUPoolExtension.url={pool.url}", f"--GPUPoolExtension.token={pool.token}")
        with jupyter_server(environment, *options) as server:
            url = f"ws://127.0.0.1:{server.port}/jupyter_gpupool/api/v1/stream?token={TOKEN}"
            async with _tabs(url, 1):  # it follows the pool now
                pass
            alone, _ = await _used(server.pid, [], seconds)
            async with _tabs(url, TABS) as tabs:
                used, taken = await _used(server.pid, tabs, seconds)
                upstream = len(pool.streams)
            opened = pool.stream_count
    peer = await _peer(text, environment, seconds)
    if taken < TABS * (seconds - 2):
        raise CouldNotMeasure(f"the tabs took {taken} messages in {seconds:g} s: the server fell behind.")
    report.add(f"server with {TABS} tabs, of one core", used, "%", "< 5")
    report.add("the same server without a tab", alone, "%")
    report.add("streams from the pool meanwhile", upstream, "", "< 2")
    report.add("streams from the pool that were ever opened", opened, "", "< 2")
    report.add("messages that each tab took", taken / TABS, "")
    report.add("one message", len(text) / 1000, "kB")
    report.add(f"peer: sending as much to {TABS} tabs, and nothing else", peer, "%")
    report.ratio(f"{TABS} tabs beyond none / peer", max(0.0, used - alone), peer)


@asynccontextmanager
async def _speaking(docs: Sequence[PoolDoc]) -> AsyncIterator[FakePool]:
    """Run a pool that says something new each second."""
    pool = FakePool()
    await pool.start()

    async def speak() -> None:
        for doc in itertools.cycle(docs):
            pool.publish(doc)
            await asyncio.sleep(1)

    speaker = asyncio.create_task(speak())
    try:
        yield pool
    finally:
        speaker.cancel()
        await pool.stop()


@asynccontextmanager
async def _tabs(url: str, count: int) -> AsyncIterator[list[WebSocketClientConnection]]:
    """Open some tabs; yields them when each has been told what the pool is."""
    tabs = [await websocket_connect(url) for _ in range(count)]
    try:
        await asyncio.wait_for(asyncio.gather(*map(_told, tabs)), _PATIENCE_SECONDS)
        yield tabs
    finally:
        for tab in tabs:
            tab.close()


async def _told(tab: WebSocketClientConnection) -> None:
    """Wait until a tab has been told what the pool is."""
    while (text := await tab.read_message()) is not None:
        if '"devices"' in str(text):
            return
    raise CouldNotMeasure("the server closed the live channel.")


async def _used(pid: int, tabs: Sequence[WebSocketClientConnection], seconds: float) -> tuple[float, int]:
    """Return what a process uses of one core while these tabs listen, and how many messages they take."""
    taken = 0

    async def listen(tab: WebSocketClientConnection) -> None:
        nonlocal taken
        while await tab.read_message() is not None:
            taken += 1

    listeners = [asyncio.create_task(listen(tab)) for tab in tabs]
    before, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(seconds)
    used = (cpu_seconds(pid) - before) / (time.monotonic() - began) * 100
    for listener in listeners:
        listener.cancel()
    return used, taken


async def _peer(text: str, environment: dict[str, str], seconds: float) -> float:
    """Return what the peer uses of one core."""
    with tempfile.TemporaryDirectory(prefix="gpupool-peer-") as directory:
        text_file, port_file = Path(directory) / "text", Path(directory) / "port"
        text_file.write_text(text)
        command = [sys.executable, str(HERE / "_peer_tabs.py"), str(text_file), str(port_file)]
        with process(command, environment) as child:
            poll(port_file.exists, "a running peer server")
            async with _tabs(f"ws://127.0.0.1:{port_file.read_text()}/", TABS) as tabs:
                return (await _used(child.pid, tabs, seconds))[0]


if __name__ == "__main__":
    sys.exit(run_benchmark("What open tabs cost a Jupyter server", measure))
