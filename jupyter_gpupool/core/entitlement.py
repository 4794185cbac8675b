"""Who may take what from whom.

Rules of this module: nobody is brought below what they deserve, nor is any of their groups; what is in use is
taken only for an owner who stays within what they deserve, or, for a request of a higher class, within their
fair share from one who has more than theirs. So whatever is taken cannot be taken straight back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from jupyter_gpupool.core.leases import Lease, Priority
from jupyter_gpupool.core.policies.evict import Victim
from jupyter_gpupool.core.policies.order import Part, Standing
from jupyter_gpupool.core.policies.order.classes import RANKS, rank
from jupyter_gpupool.core.quotas.counted import counted
from jupyter_gpupool.core.turn import Turn

#: A class is higher than another, decay included, when so many ranks lie between.
_CLASS = 100


class Ground(Enum):
    """Why a lease may be taken back."""

    #: It does nothing, and somebody waits.
    IDLE = "idle"
    #: It has done nothing for so long that it is taken back though nobody waits.
    IDLE_LONG = "idle_long"
    #: Its owner has more than they deserve, and somebody who waits has less.
    DESERVED = "deserved"
    #: Somebody waits with a request of a higher class.
    CLASS = "class"


class _Level(NamedTuple):
    """An owner (empty ``group``), or a group that the owner is in."""

    owner: str
    group: str


class Entitlement:
    """Judges leases for the length of one look; what is planned counts as done.

    Parameters
    ----------
    turn : Turn
        The call of the pool that looks.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._standings: dict[str, Standing] = {}
        self._lost: Counter[tuple[_Level, object]] = Counter()
        self._got: Counter[tuple[_Level, object]] = Counter()
        for lease_id in turn.ledger.activity.ending:
            self.lose(turn.ledger.leases[lease_id])

    # --- what is planned ------------------------------------------------------------------------

    def lose(self, lease: Lease) -> None:
        """Count a held lease as gone."""
        for level in self._levels(lease.owner):
            self._lost[level, lease.want.kind] += counted(lease).held_milli

    def get(self, lease: Lease) -> None:
        """Count a request as granted."""
        for level in self._levels(lease.owner):
            self._got[level, lease.want.kind] += counted(lease).queued_milli

    def copy(self) -> Entitlement:
        """Return another one with the same plans."""
        other = Entitlement(self._turn)
        other._lost, other._got = self._lost.copy(), self._got.copy()
        return other

    # --- verdicts -------------------------------------------------------------------------------

    def victim(self, lease: Lease) -> Victim:
        """Describe a held lease to an eviction policy."""
        now_ms = self._turn.now_ms
        since_ms = self._turn.ledger.activity.idle_since_ms(lease.id)
        held_ms = now_ms - (lease.granted_ms or 0)
        part = self._part(_Level(lease.owner, ""), lease)
        return Victim(
            lease,
            idle_ms=0 if since_ms is None else now_ms - since_ms,
            held_ms=held_ms,
            over_milli=max(0, part.held_milli - part.deserved_milli),
            rank=rank(lease.want.priority, held_ms),
            memory_bytes=sum(share.memory_bytes for share in lease.shares),
        )

    def wants_busy(self, request: Lease) -> bool:
        """Whether a request could take anything that is in use."""
        return self._turn.config.preempt and (self._deserves(request) or self._within_fair(request))

    def ground(self, request: Lease, lease: Lease) -> Ground | None:
        """Say on which ground a lease may be taken back for a request; None for none."""
        if not self._spares(request, lease):
            return None
        if self._is_idle(lease) and (lease.notice_ms is None or lease.notice_idle):
            return Ground.IDLE
        # a notice that an idle lease was given is not carried out on another ground
        if not self._turn.config.preempt or lease.notice_idle or lease.owner == request.owner:
            return None
        if self._deserves(request) and self._is_over(lease):
            return Ground.DESERVED
        if self._outranks(request, lease) and self._within_fair(request) and self._has_more(lease):
            return Ground.CLASS
        return None

    def has_less(self, request: Lease) -> bool:
        """Whether a request's owner has no more than their fair share, or than they deserve, with it."""
        part = self._part(_Level(request.owner, ""), request)
        return self._after(request, part.held_milli) <= max(part.deserved_milli, part.fair_milli)

    def _is_idle(self, lease: Lease) -> bool:
        least_ms = self._turn.config.reclaim_idle_ms
        since_ms = self._turn.ledger.activity.idle_since_ms(lease.id)
        return least_ms is not None and since_ms is not None and self._turn.now_ms - since_ms >= least_ms

    def _spares(self, request: Lease, lease: Lease) -> bool:
        """Whether its owner, and every group that is not the request's too, keep what they deserve."""
        if request.owner == lease.owner or self._turn.config.quotas.say_nothing:
            return True
        common = {level.group for level in self._levels(request.owner) if level.group}
        loss = counted(lease).held_milli
        for level in self._levels(lease.owner):
            if level.group in common:
                continue
            part = self._part(level, lease)
            left = part.held_milli - self._lost[level, lease.want.kind] - loss
            if left < part.deserved_milli:
                return False
        return True

    def _has_more(self, lease: Lease) -> bool:
        """Whether its owner has more than their fair share, with all that is planned done."""
        level = _Level(lease.owner, "")
        part = self._part(level, lease)
        return part.held_milli - self._lost[level, lease.want.kind] > part.fair_milli

    def _is_over(self, lease: Lease) -> bool:
        part = self._part(_Level(lease.owner, ""), lease)
        return part.held_milli > part.deserved_milli

    def _deserves(self, request: Lease) -> bool:
        """Whether an owner, or a group, still has what they deserve, or less, with the request granted."""
        parts = [(level, self._part(level, request)) for level in self._levels(request.owner)]
        if not any(
            part.deserved_milli and self._after(request, part.held_milli, level) <= part.deserved_milli
            for level, part in parts
        ):
            return False
        own = parts[0][1]
        return self._after(request, own.held_milli) <= max(own.deserved_milli, own.fair_milli)

    def _within_fair(self, request: Lease) -> bool:
        """Whether a request is of a higher class than something held, and its owner's share allows it."""
        held = self._turn.ledger.activity.classes
        lower = [it for it in Priority if RANKS[it] < RANKS[request.want.priority] and held[it]]
        urgent = request.want.priority is Priority.HIGH  # above one that has decayed, too
        return bool(lower or urgent) and self.has_less(request)

    def _outranks(self, request: Lease, lease: Lease) -> bool:
        held_ms = self._turn.now_ms - (lease.granted_ms or 0)
        return rank(request.want.priority) - rank(lease.want.priority, held_ms) >= _CLASS

    def _after(self, request: Lease, held_milli: int, level: _Level | None = None) -> int:
        """Return what would be held if the request were granted, and all that is planned done."""
        key = (level or _Level(request.owner, ""), request.want.kind)
        return held_milli - self._lost[key] + self._got[key] + counted(request).queued_milli

    # --- standings ------------------------------------------------------------------------------

    def _standing(self, lease: Lease) -> Standing:
        standing = self._standings.get(lease.owner)
        if standing is None:
            ledger, now_ms = self._turn.ledger, self._turn.now_ms
            found = ledger.standings.of((lease.owner,), now_ms)
            standing = self._standings[lease.owner] = found.get(lease.owner, Standing())
        return standing.of_kind(lease.want.kind)

    def _levels(self, owner: str) -> Iterator[_Level]:
        """Yield an owner, then the groups around them, from the innermost."""
        yield _Level(owner, "")
        for name, _ in self._turn.config.quotas.chain(owner)[1:]:
            yield _Level("", name)

    def _part(self, level: _Level, lease: Lease) -> Part:
        """Return what a level of a lease's owner has of the lease's kind of device."""
        standing = self._standing(lease)
        if not level.group:
            return Part(standing.held_milli, standing.deserved_milli, standing.fair_milli)
        names = [it.group for it in self._levels(lease.owner) if it.group]
        inwards = len(names) - 1 - names.index(level.group)
        return standing.above[inwards] if inwards < len(standing.above) else Part()
