"""A journal in memory, which distrusts what it is told to write.

Rule of this module: it accepts only what follows from what was written before.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.errors import InvariantBroken
from jupyter_gpupool.core.leases import HOLDING, LEASE_TRANSITIONS, Lease, LeaseState


class MemoryJournal:
    """What a pool has said to write down, in memory.

    Attributes
    ----------
    rows : dict of str to Lease
        The last value of each lease, ended ones too.
    writes : list of WriteDown
        All transitions, in order.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Lease] = {}
        self.writes: list[WriteDown] = []

    def commit(self, writes: Iterable[WriteDown]) -> None:
        """Write transitions down."""
        for write in writes:
            self._check(write)
            self.rows[write.lease.id] = write.lease
            self.writes.append(write)

    def live_leases(self) -> list[Lease]:
        """List the leases that have not ended."""
        return [it for it in self.rows.values() if it.state is not LeaseState.ENDED]

    def _check(self, write: WriteDown) -> None:
        """Check that a transition follows from what was written before: a lease ends exactly once."""
        row = self.rows.get(write.lease.id)
        _require((row.state if row is not None else None) is write.before, f"{write} does not follow {row}")
        _require(
            (write.before is None) is (write.event is None), f"{write} is new with an event, or old without"
        )
        if write.before is not None and write.event is not None:
            legal = LEASE_TRANSITIONS[write.before].get(write.event)
            _require(legal is write.lease.state, f"{write} is not in the table")

    def check_usage(self) -> None:
        """Check that the usage of each lease is the integral of what it held over pool time."""
        used: dict[str, int] = {}
        last: dict[str, WriteDown] = {}
        for write in self.writes:
            before = last.get(write.lease.id)
            total = used.get(write.lease.id, 0)
            if before is not None and before.lease.state in HOLDING:
                compute_milli = sum(share.compute_milli for share in before.lease.shares)
                total += compute_milli * (write.now_ms - before.now_ms)
            _require(write.lease.used_milli_ms == total, f"{write.lease} should have used {total}")
            used[write.lease.id], last[write.lease.id] = total, write


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantBroken(message)
