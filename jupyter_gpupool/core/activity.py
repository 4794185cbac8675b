"""What is known of what holders do, and which leases could be taken back because of it.

Rules of this module: nothing of it is written down: it is told anew after a restart. Unknown is not idle: a
lease is idle only while its holder says so, and a new process of it has said nothing yet.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator

from jupyter_gpupool.core.leases import Lease, LeaseState, Priority


class ActivityBook:
    """Idle leases of one ledger, and the indexes that reclaim needs.

    Attributes
    ----------
    held : dict of str to dict of str to None
        Ids of ACTIVE leases by owner.
    classes : Counter of Priority
        How many ACTIVE leases there are of each class.
    ending : dict of str to None
        Ids of leases that are ENDING.
    noticed : dict of str to None
        Ids of leases that have been told that they are taken back.
    served : dict of str to int
        Pool time at which leases were last taken back for a request that waits.
    news : bool
        True when who waits, or what is on its way out, has changed since somebody looked.
    wake_ms : int or None
        Pool time at which something is due that depends on time alone; None when nothing is.
    looked_ms : int or None
        Pool time of the last look at who could be taken back; None before the first.
    """

    def __init__(self) -> None:
        self.held: dict[str, dict[str, None]] = {}
        self.classes: Counter[Priority] = Counter()
        self.ending: dict[str, None] = {}
        self.noticed: dict[str, None] = {}
        self.served: dict[str, int] = {}
        self.news = False
        self.wake_ms: int | None = None
        self.looked_ms: int | None = None
        # since when leases are idle, and the same in order
        self._idle: dict[str, int] = {}
        self._by_since: list[tuple[int, str]] = []

    def follow(self, before: Lease | None, lease: Lease) -> None:
        """Take over one change of one lease."""
        if before is None or (before.state is not lease.state and lease.state is not LeaseState.ACTIVE):
            self.news = True
        active = lease.state is LeaseState.ACTIVE
        was_active = before is not None and before.state is LeaseState.ACTIVE
        if active and not was_active:
            self.held.setdefault(lease.owner, {})[lease.id] = None
            self.classes[lease.want.priority] += 1
        elif was_active and not active:
            self._let_go(lease)
        if lease.state is not LeaseState.QUEUED:
            self.served.pop(lease.id, None)
        if lease.state is LeaseState.ENDING:
            self.ending[lease.id] = None
        else:
            self.ending.pop(lease.id, None)
        if active and lease.notice_ms is not None:
            self.noticed[lease.id] = None
            self.wake_by(lease.notice_ms)
        else:
            self.noticed.pop(lease.id, None)

    def _let_go(self, lease: Lease) -> None:
        self.busy(lease.id)
        self.classes[lease.want.priority] -= 1
        held = self.held[lease.owner]
        del held[lease.id]
        if not held:
            del self.held[lease.owner]

    def wake_by(self, due_ms: int) -> None:
        """Have somebody look at this pool time at the latest."""
        if self.wake_ms is None or due_ms < self.wake_ms:
            self.wake_ms = due_ms

    def busy(self, lease_id: str) -> None:
        """Note that a lease does something, or that it is not known what it does."""
        known = self._idle.pop(lease_id, None)
        if known is not None:
            del self._by_since[bisect_left(self._by_since, (known, lease_id))]

    def idle(self, lease: Lease, since_ms: int) -> None:
        """Note that an ACTIVE lease has done nothing since a pool time; before it was held counts as busy."""
        self.busy(lease.id)
        since_ms = max(since_ms, lease.active_ms or 0)
        self._idle[lease.id] = since_ms
        insort(self._by_since, (since_ms, lease.id))

    def idle_since_ms(self, lease_id: str) -> int | None:
        """Return since when a lease is idle; None while it is busy, or when that is unknown."""
        return self._idle.get(lease_id)

    @property
    def any_idle(self) -> bool:
        """Whether any lease is idle, however short a time."""
        return bool(self._by_since)

    def idle_before(self, before_ms: int) -> Iterator[str]:
        """Yield the leases that have been idle since a pool time or longer, those idle longest first."""
        for since_ms, lease_id in self._by_since:
            if since_ms > before_ms:
                return
            yield lease_id

    def next_idle_ms(self, after_ms: int) -> int | None:
        """Return the first beginning of an idle time after a pool time; None when there is none."""
        place = bisect_left(self._by_since, (after_ms + 1, ""))
        return self._by_since[place][0] if place < len(self._by_since) else None

    def adopt(self, other: ActivityBook) -> None:
        """Take over what another book knows of leases that are the same here."""
        for lease_ids in self.held.values():
            for lease_id in lease_ids:
                known = other._idle.get(lease_id)
                if known is not None and lease_id not in self._idle:
                    self._idle[lease_id] = known
                    insort(self._by_since, (known, lease_id))
