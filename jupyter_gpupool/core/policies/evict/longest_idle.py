"""Take what has been idle for longest; then over quota, of the lowest class, with the least to save."""

from __future__ import annotations

from jupyter_gpupool.core.policies.evict import Victim

#: Who has been idle for equally many minutes is equally idle, milliseconds.
_MINUTE_MS = 60_000


def longest_idle(victim: Victim) -> tuple[int, ...]:
    """Order by idle time in minutes, then excess, class and memory."""
    return (-(victim.idle_ms // _MINUTE_MS), -victim.over_milli, victim.rank, victim.memory_bytes)
