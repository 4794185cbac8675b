"""Fair: what is deserved first, then the surplus by weight, then who has used least.

In this order decide: an owner's oldest request that has waited too long (so that nothing starves, and nobody
gets ahead by asking often); whether the groups and the owner are below what they deserve, and how full their
fair share is, in quarters; the priority class, whose advantage is used up by holding; faded usage, in powers
of two; how much the owner has got since being idle, in three levels; and arrival.

Rule of this module: every criterion is coarse, so that the next one has a say among those who are alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.policies.order import Standing
from jupyter_gpupool.core.policies.order.classes import RANKS, rank

#: Shares are compared in so many parts, and beyond so many fair shares all are alike.
_PARTS, _MOST = 4, 64
#: Usage below this is none: one device for a minute, thousandths of a device x milliseconds.
_UNIT_MILLI_MS = 1000 * 60_000
#: Levels of attained service begin here: a device for 15 minutes, and for 2 hours.
_LEVELS_MILLI_MS = (15 * _UNIT_MILLI_MS, 120 * _UNIT_MILLI_MS)
#: Whoever nothing is known of.
_NOBODY = Standing()

#: What is the same for all requests of one owner and kind: fullness, usage and level.
_Alike = tuple[tuple[tuple[int, int], ...], int, int]
#: What decides, one after the other; ids are unique, so that no two leases are ever compared.
_Key = tuple[float, tuple[tuple[int, int], ...], int, int, int, int, str, Lease]


def fair(waiting: Sequence[Lease], now_ms: int, standings: Mapping[str, Standing]) -> Sequence[Lease]:
    """Order requests by how their owners stand.

    Parameters
    ----------
    waiting : sequence of Lease
        The requests, in any order.
    now_ms : int
        Pool time.
    standings : mapping of str to Standing
        How owners stand; one that is missing has nothing and deserves nothing.

    Returns
    -------
    sequence of Lease
        All of them, first to be considered first.
    """
    alike: dict[tuple[str, DeviceKind | None], tuple[Standing, _Alike]] = {}
    keyed: list[_Key] = []
    for lease in waiting:  # with many requests most of a decision is spent here: no call that can be spared
        want = lease.want
        whose = (lease.owner, want.kind)
        found = alike.get(whose)
        if found is None:
            standing = standings.get(lease.owner, _NOBODY).of_kind(want.kind)
            found = alike[whose] = (standing, (_fullness(standing), _usage(standing), _level(standing)))
        standing, (fullness, usage, level) = found
        urgency = -rank(want.priority, standing.urgent_ms) if standing.urgent_ms else -RANKS[want.priority]
        aged = _aged(lease, now_ms, standing) if lease.id == standing.oldest else inf
        keyed.append((aged, fullness, urgency, usage, level, lease.requested_ms, lease.id, lease))
    keyed.sort()
    return [it[-1] for it in keyed]


def _aged(lease: Lease, now_ms: int, standing: Standing) -> float:
    """Put an owner's oldest request first when it is too old, among such by arrival."""
    if now_ms - lease.requested_ms >= standing.aging_ms and lease.id == standing.oldest:
        return lease.requested_ms
    return inf


def _fullness(standing: Standing) -> tuple[tuple[int, int], ...]:
    """Say, from the outermost group to the owner, who is below what they deserve, and how full they are."""
    own = _part(standing.held_milli, standing.deserved_milli, standing.fair_milli)
    if not standing.above:
        return (own,)
    return (*[_part(*it) for it in standing.above], own)


def _part(held: int, deserved: int, fair_milli: int) -> tuple[int, int]:
    if held < deserved:
        return 0, held * _PARTS // deserved
    if not held:
        return 1, 0
    return 1, min(held * _PARTS // fair_milli, _MOST) if fair_milli else _MOST


def _usage(standing: Standing) -> int:
    """Return faded usage by weight, as a power of two."""
    weighted = standing.used_milli_ms * 1000 // standing.weight_milli
    return (weighted // _UNIT_MILLI_MS).bit_length()


def _level(standing: Standing) -> int:
    return bisect_right(_LEVELS_MILLI_MS, standing.attained_milli_ms)
