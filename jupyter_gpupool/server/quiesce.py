"""Making a kernel safe to signal: under MPS a process that is killed at work can take its neighbours along.

Rules of this module: bounded, and never in the way of a kernel's end; only a kernel that is known to hold a
share of a GPU waits at all; a failure is one line in the log.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.core.errors import GPUPoolError

#: How long a kernel's end may take longer because of us, seconds.
QUIESCE_SECONDS = 3.0


async def quiesce_kernel(connection: Connection, kernel_id: str, *, log: logging.Logger) -> None:
    """Have the pool take a kernel's processes off their GPUs, by a client of its own."""
    client = AsyncPoolClient(connection, answer_seconds=QUIESCE_SECONDS)
    try:
        async with asyncio.timeout(QUIESCE_SECONDS):
            await client.quiesce_kernel(kernel_id)
    except (GPUPoolError, TimeoutError) as error:
        why = str(error) or f"no answer within {QUIESCE_SECONDS:g} s"
        log.warning(
            "jupyter_gpupool: kernel %s is ended without having been taken off its GPU first (%s); under MPS "
            "others on that GPU may be disturbed.",
            kernel_id,
            why,
        )
    finally:
        client.close()
