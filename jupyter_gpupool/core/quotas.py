"""What owners have used.

Rule of this module: usage is exact integer arithmetic in pool time; it counts what is granted (``shares``),
from the grant until nothing of the lease is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.core.leases import HOLDING, Lease


def usage_until(lease: Lease, now_ms: int) -> int:
    """Return what a lease has used up to ``now_ms``.

    Parameters
    ----------
    lease : Lease
        Any lease, in any state.
    now_ms : int
        Pool time, milliseconds. Times before the last change of the lease count as that change.

    Returns
    -------
    int
        Thousandths of a device x milliseconds.
    """
    if lease.used_until_ms is None or lease.state not in HOLDING:
        return lease.used_milli_ms
    compute_milli = sum(share.compute_milli for share in lease.shares)
    return lease.used_milli_ms + compute_milli * max(0, now_ms - lease.used_until_ms)


def usage_by_owner(leases: Iterable[Lease], now_ms: int) -> dict[str, int]:
    """Sum usage over leases, thousandths of a device x milliseconds for each owner."""
    totals: dict[str, int] = {}
    for lease in leases:
        totals[lease.owner] = totals.get(lease.owner, 0) + usage_until(lease, now_ms)
    return totals
