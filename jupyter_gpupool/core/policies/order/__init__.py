"""Queue orders: who is considered first.

Rule of this package: one pure function a file, all with the signature `OrderPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jupyter_gpupool.core.leases import Lease


class Standing(NamedTuple):
    """How one owner stands when the queue is ordered.

    Attributes
    ----------
    held_milli : int
        Compute held now, thousandths of devices.
    deserved_milli : int
        What the owner deserves of the pool.
    fair_milli : int
        The same with the owner's part of the surplus.
    used_milli_ms : float
        Decayed usage: thousandths of a device x milliseconds, halved with each half-life.
    attained_milli_ms : int
        Usage since the owner was last idle (for least attained service).
    """

    held_milli: int = 0
    deserved_milli: int = 0
    fair_milli: int = 0
    used_milli_ms: float = 0.0
    attained_milli_ms: int = 0


#: ``(waiting, now_ms, standings by owner) -> waiting in the order in which the pool considers it``.
#: ``waiting`` comes in the order of arrival; ``now_ms`` is pool time.
OrderPolicy = Callable[[Sequence[Lease], int, Mapping[str, Standing]], Sequence[Lease]]
