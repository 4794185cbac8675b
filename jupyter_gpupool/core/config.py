"""What an administrator decides about a pool, as one frozen value that the core is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_gpupool.core.policies.order import AGING_MS
from jupyter_gpupool.core.quotas.model import Quotas
from jupyter_gpupool.core.reservations import Reserved

#: After which half of the usage is forgotten, where nothing is configured: 4 hours.
HALF_LIFE_MS = 4 * 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    """Rules of one pool; all durations in milliseconds of pool time.

    Attributes
    ----------
    order : str
        Name of the queue order (``policies/order``).
    place : str
        Name of the placement policy (``policies/score``).
    attach_ms : int
        How long a granted lease waits for its holder.
    restart_grace_ms : int
        How long a lease waits for its kernel to come back.
    ending_ms : int
        How long an agent may take to confirm a detach before the device is quarantined.
    agent_grace_ms : int
        How long an agent may be away before its leases end.
    quotas : Quotas
        What owners and groups may have, and deserve.
    reservations : tuple of Reserved
        What is reserved for groups at some times.
    half_life_ms : int
        After how long half of an owner's usage is forgotten.
    aging_ms : int
        After how long an owner's oldest request comes before those of others.
    evict : str
        Name of the policy that chooses which leases are taken back (``policies/evict``).
    reclaim_idle_ms : int or None
        After how long without any activity a lease may be taken back for somebody who waits; None for never.
    release_idle_ms : int or None
        After how long without any activity it is taken back though nobody waits; None for never.
    notice_ms : int
        How long its holder knows that before it happens.
    least_run_ms : int
        For how long after its grant a lease is not taken back, whatever happens.
    host_cpu_milli : int
        Thousandths of a core that go with each whole accelerator, where a request says nothing of that; 0 for
        none that are counted.
    host_memory_bytes : int
        The same of main memory, bytes.
    preempt : bool
        Whether leases that are in use are taken back from owners who have more than they deserve, for owners
        who have less, or whose request is of a higher class.
    """

    order: str = "fair"
    place: str = "bid_price"
    attach_ms: int = 60_000
    restart_grace_ms: int = 10_000
    ending_ms: int = 30_000
    agent_grace_ms: int = 15_000
    quotas: Quotas = field(default_factory=Quotas)
    reservations: tuple[Reserved, ...] = ()
    half_life_ms: int = HALF_LIFE_MS
    aging_ms: int = AGING_MS
    evict: str = "longest_idle"
    reclaim_idle_ms: int | None = 10 * 60_000
    release_idle_ms: int | None = None
    notice_ms: int = 60_000
    least_run_ms: int = 5 * 60_000
    preempt: bool = True
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0
