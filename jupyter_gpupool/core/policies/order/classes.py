"""Priority classes as numbers, and how the advantage of the high one is used up.

Rule of this module: whoever holds something with high priority comes closer to the normal class all the time,
and is there after `ADVANTAGE_MS`; a high-priority lease cannot keep a device for ever.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import Priority

#: After being held for this long a high priority is worth no more than a normal one, milliseconds.
ADVANTAGE_MS = 60 * 60_000
#: Rank of each class; what lies between is reached by decay only.
RANKS = {Priority.LOW: 0, Priority.NORMAL: 100, Priority.HIGH: 200}
#: In how many steps the advantage is used up.
_STEPS = 4


def rank(priority: Priority, held_ms: int = 0) -> int:
    """Return the rank of a priority that has been held for a while; higher comes first.

    Parameters
    ----------
    priority : Priority
        The class.
    held_ms : int
        For how long it has been held without a break, milliseconds; 0 for what is not held.
    """
    full, normal = RANKS[priority], RANKS[Priority.NORMAL]
    if full <= normal:
        return full
    gone = min(_STEPS, max(0, held_ms) * _STEPS // ADVANTAGE_MS)
    return full - (full - normal) * gone // _STEPS
