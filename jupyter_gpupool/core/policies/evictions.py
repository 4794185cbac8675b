"""Eviction policies by the name an administrator writes (``PoolConfig.evict``).

Rule of this module: a table and how to look a policy up in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies.evict import EvictPolicy
from jupyter_gpupool.core.policies.evict.longest_idle import longest_idle
from jupyter_gpupool.core.policies.evict.most_over import most_over
from jupyter_gpupool.core.policies.evict.newest import newest

#: What `PoolConfig.evict` may name.
EVICTIONS: Mapping[str, EvictPolicy] = {
    "longest_idle": longest_idle,
    "most_over": most_over,
    "newest": newest,
}


def evict_policy(name: str) -> EvictPolicy:
    """Find an eviction policy by name.

    Raises
    ------
    InvalidValue
        If there is none of that name; the message lists those that exist.
    """
    try:
        return EVICTIONS[name]
    except KeyError:
        raise InvalidValue(
            f"There is no eviction policy named “{name}”.",
            hint=f"Set evict to one of: {', '.join(sorted(EVICTIONS))}.",
        ) from None
