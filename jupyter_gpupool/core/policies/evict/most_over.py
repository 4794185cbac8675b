"""Take from whoever is most over quota; there, what has been idle for longest."""

from __future__ import annotations

from jupyter_gpupool.core.policies.evict import Victim


def most_over(victim: Victim) -> tuple[int, ...]:
    """Order by excess, then idle time, class and memory."""
    return (-victim.over_milli, -victim.idle_ms, victim.rank, victim.memory_bytes)
