"""Orders out: what the processes around the pool must do, in the imperative.

Rule of this module: `WriteDown` effects are carried out (in one transaction) before all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_gpupool.core.leases import Lease, LeaseEvent, LeaseState, Share


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """Base of all effects."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteDown(Effect):
    """Write one transition, and the lease as it is after it, to the journal.

    Attributes
    ----------
    lease : Lease
        The lease after the transition.
    before : LeaseState or None
        The state before; None when the lease is new.
    event : LeaseEvent or None
        What happened; None when the lease is new.
    now_ms, wall_ms : int
        Pool time and UTC of the transition, milliseconds.
    """

    lease: Lease
    before: LeaseState | None
    event: LeaseEvent | None
    now_ms: int
    wall_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareAttach(Effect):
    """Tell the agent of ``node_id`` to expect the holder of this lease."""

    node_id: str
    lease: Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyLimits(Effect):
    """Tell the agent to put ``shares`` in force for a holder it has."""

    node_id: str
    lease_id: str
    generation: int
    shares: tuple[Share, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Detach(Effect):
    """Tell the agent to take the limits of a lease away, and to confirm that nothing is left."""

    node_id: str
    lease_id: str
    generation: int
