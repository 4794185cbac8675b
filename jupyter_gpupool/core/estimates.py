"""For how long leases have been held so far, and what follows for those that are held now.

Of each owner the last holds are remembered, and of the whole pool; how long a lease will still be held is
read off those that were held for longer than it has been already.

Rule of this module: it remembers little of each owner, and never of more than so many owners; what it tells
is an estimate, and how often it was right is counted.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

from jupyter_gpupool.core.leases import Lease, LeaseState

#: How many holds are remembered of an owner, and of the whole pool.
_OF_OWNER, _OF_POOL = 48, 384
#: From how many holds on anything is said of the next.
_ENOUGH = 5
#: How many owners are remembered, those who were seen last; and how many waits that were told of.
_OWNERS, _TOLD = 4096, 4096
#: How many waits count for how good estimates have been: the latest.
_JUDGED = 500
#: Of ten holds, one is shorter than the low estimate, five than the middle one, nine than the high one.
QUANTILES = (0.1, 0.5, 0.9)


class Spread(NamedTuple):
    """An estimate with its interval; milliseconds.

    Attributes
    ----------
    low_ms, middle_ms, high_ms : int
        Of ten, one is below the first, five are below the second, and nine below the third.
    """

    low_ms: int
    middle_ms: int
    high_ms: int

    def plus(self, ms: int) -> Spread:
        """Return it that much later."""
        return Spread(self.low_ms + ms, self.middle_ms + ms, self.high_ms + ms)


class HeldBefore(NamedTuple):
    """For how long an owner held a lease that has ended."""

    owner: str
    held_ms: int


class Accuracy(NamedTuple):
    """How good estimates of waits have been, of late.

    Attributes
    ----------
    told : int
        Of how many waits that are over an interval was told.
    inside : int
        How many of them ended within it.
    """

    told: int
    inside: int


def held_before(lease: Lease) -> HeldBefore | None:
    """Return what a lease that ended teaches; None of one that was never in use."""
    if lease.granted_ms is None or lease.active_ms is None or lease.ended_ms is None:
        return None
    return HeldBefore(lease.owner, max(0, lease.ended_ms - lease.granted_ms))


class _Recent:
    """The latest of some durations, and the same in order."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self, most: int) -> None:
        self._latest: deque[int] = deque(maxlen=most)
        self._sorted: list[int] = []

    def add(self, ms: int) -> None:
        if len(self._latest) == self._latest.maxlen:
            oldest = self._latest[0]
            del self._sorted[bisect_right(self._sorted, oldest) - 1]
        self._latest.append(ms)
        insort(self._sorted, ms)

    def __len__(self) -> int:
        return len(self._sorted)

    def beyond(self, ms: int) -> Spread | None:
        """Return the quantiles of those that were longer; None when there are none."""
        first = bisect_right(self._sorted, ms)
        count = len(self._sorted) - first
        if not count:
            return None
        low, middle, high = (self._sorted[first + min(count - 1, int(count * it))] for it in QUANTILES)
        return Spread(low, middle, high)


class History:
    """What is remembered of leases that have ended, and of what was told to those who waited."""

    def __init__(self, holds: Iterable[HeldBefore] = ()) -> None:
        self._owners: OrderedDict[str, _Recent] = OrderedDict()
        self._pool = _Recent(_OF_POOL)
        #: By request: the pool times between which it was first told that it would be granted.
        self._told: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._judged: deque[bool] = deque(maxlen=_JUDGED)
        for hold in holds:
            self.learn(hold)

    def learn(self, hold: HeldBefore) -> None:
        """Take over for how long a lease was held."""
        recent = self._owners.get(hold.owner)
        if recent is None:
            recent = self._owners[hold.owner] = _Recent(_OF_OWNER)
            if len(self._owners) > _OWNERS:
                self._owners.popitem(last=False)
        self._owners.move_to_end(hold.owner)
        recent.add(hold.held_ms)
        self._pool.add(hold.held_ms)

    def note(self, before: Lease | None, after: Lease) -> None:
        """Take over one change of one lease."""
        if after.state is LeaseState.ENDED:
            self._told.pop(after.id, None)
            hold = held_before(after)
            if hold is not None:
                self.learn(hold)
        elif before is not None and before.state is LeaseState.QUEUED and after.granted_ms is not None:
            told = self._told.pop(after.id, None)
            if told is not None:
                self._judged.append(told[0] <= after.granted_ms <= told[1])

    def adopt(self, other: History) -> None:
        """Take over all that another history remembers."""
        self._owners, self._pool = other._owners, other._pool
        self._told, self._judged = other._told, other._judged

    # --- what follows -----------------------------------------------------------------------------

    def hold(self, owner: str, held_ms: int = 0) -> Spread | None:
        """Estimate for how long a lease will have been held at its end; None when nobody can tell.

        Parameters
        ----------
        owner : str
            Whose lease it is: the owner's own history counts, where there is enough of it, else the pool's.
        held_ms : int
            For how long it has been held already.
        """
        for recent in (self._owners.get(owner), self._pool):
            if recent is not None and len(recent) >= _ENOUGH:
                found = recent.beyond(held_ms)
                if found is not None:
                    return found
        if len(self._pool) < _ENOUGH:
            return None
        # longer than all that is known: what has lasted long lasts on
        return Spread(held_ms + held_ms // 9, held_ms * 2, held_ms * 10)

    def end(self, lease: Lease, now_ms: int) -> Spread | None:
        """Estimate the pool time at which a granted lease ends; None when nobody can tell."""
        if lease.granted_ms is None:
            return None
        hold = self.hold(lease.owner, max(0, now_ms - lease.granted_ms))
        return None if hold is None else hold.plus(lease.granted_ms)

    # --- how good that was ------------------------------------------------------------------------

    def tell(self, lease_id: str, grant: Spread) -> None:
        """Note what was told of a wait; what was told first counts."""
        if lease_id not in self._told:
            self._told[lease_id] = (grant.low_ms, grant.high_ms)
            if len(self._told) > _TOLD:
                self._told.popitem(last=False)

    def judged(self) -> str:
        """Return whether the latest estimates were right, to be written down: a ``1`` or ``0`` each."""
        return "".join("1" if it else "0" for it in self._judged)

    def recall(self, judged: str) -> None:
        """Take over what was written down."""
        self._judged.extend(it == "1" for it in judged)

    @property
    def accuracy(self) -> Accuracy:
        """How good estimates of waits have been, of late."""
        return Accuracy(len(self._judged), sum(self._judged))
