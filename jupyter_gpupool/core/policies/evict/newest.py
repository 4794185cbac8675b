"""Take what was granted last: the least work is lost."""

from __future__ import annotations

from jupyter_gpupool.core.policies.evict import Victim


def newest(victim: Victim) -> tuple[int, ...]:
    """Order by the time held, then class and memory."""
    return (victim.held_ms, victim.rank, victim.memory_bytes)
