"""Ending the leases of a kernel that this server has ended or given up: the second of the four nets.

Rules of this module: bounded, and never in the way of a shutdown; the pool's other nets end the lease too,
only later. It works after the link is closed: the server stops its extensions *before* its kernels.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import EndReason

#: How long a kernel's shutdown may take longer because of us, seconds.
RELEASE_SECONDS = 2.0


async def release_kernel(
    connection: Connection, kernel_id: str, reason: EndReason, *, log: logging.Logger
) -> None:
    """End every lease of a kernel, by a client of its own."""
    client = AsyncPoolClient(connection, answer_seconds=RELEASE_SECONDS)
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            await client.release_kernel(kernel_id, reason=reason.value)
    except (GPUPoolError, TimeoutError) as error:
        why = str(error) or f"no answer within {RELEASE_SECONDS:g} s"
        log.warning(
            "jupyter_gpupool: the pool was not told that kernel %s is gone (%s); its leases end when the "
            "pool notices by itself.",
            kernel_id,
            why,
        )
    finally:
        client.close()
