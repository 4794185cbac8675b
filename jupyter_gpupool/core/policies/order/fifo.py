"""First come, first served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.policies.order import Standing


def fifo(waiting: Sequence[Lease], now_ms: int, standings: Mapping[str, Standing]) -> Sequence[Lease]:
    """Keep the order of arrival.

    Parameters
    ----------
    waiting : sequence of Lease
        The requests, in the order of arrival.
    now_ms, standings
        Pool time, and how owners stand; arrival alone decides here, so they are not used.

    Returns
    -------
    sequence of Lease
        All of them, first to be considered first.
    """
    return waiting
