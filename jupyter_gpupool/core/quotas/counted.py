"""What one lease counts for in the book.

Rule of this module: a lease counts as what was asked for, so that who gets a MIG instance that is larger is
not charged for it; while it is resized, the larger of old and new.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import HOLDING, Lease, LeaseState, Priority


class Counted(NamedTuple):
    """What one lease counts for.

    Attributes
    ----------
    kind : DeviceKind or None
        Kind of device; None while it is not known.
    held_milli, held_bytes : int
        Compute and memory that it holds.
    queued_milli : int
        Compute that it waits for.
    urgent : bool
        True when it is held with high priority.
    pinned : bool
        True when it is held and pinned.
    host_cpu_milli, host_memory_bytes : int
        Cores and main memory that it holds beside its shares.
    """

    kind: DeviceKind | None = None
    held_milli: int = 0
    held_bytes: int = 0
    queued_milli: int = 0
    urgent: bool = False
    pinned: bool = False
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0

    @property
    def held(self) -> bool:
        """Whether anything is held."""
        return self.held_milli > 0


#: What is not there counts for nothing.
NOTHING = Counted()


def counted(lease: Lease | None) -> Counted:
    """Say what a lease counts for; nothing when there is none, or it has ended."""
    if lease is None:
        return NOTHING
    want = lease.want
    if lease.state is LeaseState.QUEUED:
        return Counted(want.kind, queued_milli=want.compute_milli * want.count)
    if lease.state not in HOLDING:
        return NOTHING
    milli, memory = want.compute_milli, sum(share.memory_bytes for share in lease.shares)
    if lease.pending:
        milli = max(milli, lease.pending[0].compute_milli)
        memory = max(memory, sum(share.memory_bytes for share in lease.pending))
    urgent = want.priority is Priority.HIGH
    return Counted(
        *(want.kind, milli * want.count, memory, 0, urgent, lease.pinned),
        *(want.host_cpu_milli, want.host_memory_bytes),
    )


def counts_alike(before: Lease, after: Lease) -> bool:
    """Whether two values of a lease surely count for the same, seen at a glance."""
    return (
        before.state in HOLDING
        and after.state in HOLDING
        and before.want is after.want
        and before.shares is after.shares
        and before.pending is after.pending
        and before.pinned is after.pinned
    )
