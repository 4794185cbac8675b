"""When something is due: the pool time at which each lease must be looked at again.

Rule of this module: what is due is derived from the lease alone, so that a pool made from the journal is due
at the same times.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from jupyter_gpupool.core.leases import Lease, LeaseState


def hold_ends_ms(lease: Lease) -> int | None:
    """Pool time at which a granted lease has been held for as long as was asked for; None for never."""
    if lease.hold_ms is None or lease.granted_ms is None:
        return None
    return lease.granted_ms + lease.hold_ms


def due_ms(lease: Lease) -> int | None:
    """Pool time at which a lease must be looked at; None for never."""
    if lease.state is LeaseState.QUEUED:
        return None if lease.wait_ms is None else lease.requested_ms + lease.wait_ms
    if lease.state is LeaseState.ENDING:
        return lease.deadline_ms
    if lease.state is LeaseState.ENDED:
        return None
    times = [it for it in (lease.deadline_ms, hold_ends_ms(lease)) if it is not None]
    return min(times) if times else None


class DeadlineHeap:
    """Due times of leases, earliest first.

    An entry counts only while it says what `due_ms` says of the current lease; others are passed over.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []

    def push(self, due: int, lease_id: str) -> None:
        """Note that a lease is due at ``due``."""
        heapq.heappush(self._heap, (due, lease_id))

    def first(self, leases: Mapping[str, Lease]) -> tuple[int, str] | None:
        """Return due time and id of the lease that is due first; None when none is."""
        while self._heap:
            due, lease_id = self._heap[0]
            lease = leases.get(lease_id)
            if lease is not None and due_ms(lease) == due:
                return due, lease_id
            heapq.heappop(self._heap)
        return None

    def soon(self, most: int) -> list[str]:
        """List ids of leases that are due soon: the first one is among them, and most of the next few."""
        return [lease_id for _, lease_id in self._heap[:most]]

    def trim(self, leases: Mapping[str, Lease]) -> None:
        """Throw entries away that no longer count, once they are the larger part."""
        if len(self._heap) > 2 * len(leases) + 64:
            current = ((due_ms(lease), lease.id) for lease in leases.values())
            self._heap = [(due, lease_id) for due, lease_id in current if due is not None]
            heapq.heapify(self._heap)
