"""What an administrator decides about a pool, as one frozen value that the core is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    """Rules of one pool; all durations in milliseconds of pool time.

    Attributes
    ----------
    order : str
        Name of the queue order (``policies/order``).
    place : str
        Name of the placement policy (``policies/place``).
    attach_ms : int
        How long a granted lease waits for its holder.
    restart_grace_ms : int
        How long a lease waits for its kernel to come back.
    ending_ms : int
        How long an agent may take to confirm a detach before the device is quarantined.
    agent_grace_ms : int
        How long an agent may be away before its leases end.
    """

    order: str = "fifo"
    place: str = "best_fit"
    attach_ms: int = 60_000
    restart_grace_ms: int = 10_000
    ending_ms: int = 30_000
    agent_grace_ms: int = 15_000
