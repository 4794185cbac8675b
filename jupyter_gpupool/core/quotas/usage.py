"""What owners have used.

Rule of this module: usage is exact integer arithmetic in pool time; it counts what is granted (``shares``),
from the grant until nothing of the lease is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_gpupool.core.devices import DeviceKind
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


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerUsage:
    """What is written down of one owner and kind of device; from then on the held leases say the rest.

    Attributes
    ----------
    owner : str
        The owner.
    kind : DeviceKind
        The kind of device.
    at_ms : int
        Pool time of the last change of what the owner holds.
    used_milli_ms : int
        Usage up to then that has faded: thousandths of a device x milliseconds.
    attained_milli_ms : int
        Usage up to then since the owner was last idle.
    week_start_ms : int
        When the week of the next number began: UTC, milliseconds since the epoch; 0 for none.
    week_milli_ms : int
        Usage in that week, up to then.
    """

    owner: str
    kind: DeviceKind
    at_ms: int
    used_milli_ms: int
    attained_milli_ms: int
    week_start_ms: int
    week_milli_ms: int
