"""Asking the pool something in passing.

Rule of this module: no pool is started, and none is waited for longer than the caller says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpupool.client.sync import PoolClient


@contextmanager
def asking(seconds: float) -> Iterator[PoolClient]:
    """Have a connection to the pool that there is, for a moment.

    Parameters
    ----------
    seconds : float
        How long it may take to answer.

    Raises
    ------
    GPUPoolError
        If there is none.
    """
    from jupyter_gpupool.client.discovery import find_pool
    from jupyter_gpupool.client.sync import PoolClient

    client = PoolClient(find_pool(autostart=False), answer_seconds=seconds)
    try:
        yield client
    finally:
        client.close()
