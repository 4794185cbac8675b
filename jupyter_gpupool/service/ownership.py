"""Whose lease it is: a lease of somebody else is answered for as one that does not exist."""

from __future__ import annotations

from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.host import PoolHost


async def own_lease(host: PoolHost, who: Principal, lease_id: str) -> Lease:
    """Find a lease that a principal may touch.

    Raises
    ------
    UnknownLease
        If there is none, or it is not theirs.
    """
    lease = await host.find(lease_id)
    if lease is None or not who.may_touch(lease):
        raise unknown_lease(lease_id)
    return lease


async def seen_lease(host: PoolHost, who: Principal, lease_id: str) -> Lease:
    """Find a lease that a principal may read as its own.

    Raises
    ------
    UnknownLease
        If there is none, or it is neither theirs nor that of their server.
    """
    lease = await host.find(lease_id)
    if lease is None or not who.may_see(lease):
        raise unknown_lease(lease_id)
    return lease


def unknown_lease(lease_id: str) -> UnknownLease:
    """Make the refusal."""
    return UnknownLease(f"There is no lease {lease_id[:80]}.", hint="List the leases to see which exist.")
