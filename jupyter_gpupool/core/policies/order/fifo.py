"""First come, first served."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.core.leases import Lease


def fifo(waiting: Sequence[Lease], now_ms: int) -> Sequence[Lease]:
    """Keep the order of arrival.

    Parameters
    ----------
    waiting : sequence of Lease
        The requests, in the order of arrival.
    now_ms : int
        Pool time; arrival alone decides here, so it is not used.

    Returns
    -------
    sequence of Lease
        All of them, first to be considered first.
    """
    return waiting
