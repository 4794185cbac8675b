"""A control plane in a process of its own, to be killed.

``python -m tests.support.control_process RUNTIME`` prints "joined" when an agent has connected.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.node_bench import NodeBench
from tests.support.waiting import until


async def serve(runtime: Path) -> None:
    """Serve, say when an agent has joined, and wait to be killed."""
    bench = NodeBench(runtime)
    control = await bench.serve()
    await until(lambda: control.connected, what="an agent joins", seconds=60)
    print("joined", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
