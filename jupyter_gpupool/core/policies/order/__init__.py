"""Queue orders: who is considered first.

Rule of this package: one pure function a file, all with the signature `OrderPolicy`. The order of two
requests follows from these two, the time and the standings alone, so that some of them are ordered as all
are; of two requests of one owner and priority the earlier comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease

#: How long a request waits before it counts as aged where nothing else is said, milliseconds.
AGING_MS = 30 * 60_000


class Part(NamedTuple):
    """What somebody has of one kind of device, and what is theirs; thousandths of devices.

    Attributes
    ----------
    held_milli : int
        Compute held now.
    deserved_milli : int
        What they deserve of the pool.
    fair_milli : int
        The same with their part of the surplus, as far as they ask for it.
    """

    held_milli: int = 0
    deserved_milli: int = 0
    fair_milli: int = 0


class Standing(NamedTuple):
    """How one owner stands when the queue is ordered.

    Attributes
    ----------
    held_milli : int
        Compute held now, thousandths of devices.
    deserved_milli : int
        What the owner deserves of the pool.
    fair_milli : int
        The same with the owner's part of the surplus, as far as the owner asks for it.
    used_milli_ms : int
        Decayed usage: thousandths of a device x milliseconds, halved with each half-life.
    attained_milli_ms : int
        Usage since the owner was last idle (for least attained service).
    weight_milli : int
        The owner's weight, thousandths of a normal one.
    above : tuple of Part
        The groups that the owner is in, from the outermost.
    oldest : str
        The owner's request that has waited for longest; empty when none waits.
    urgent_ms : int
        For how long the owner has held a lease of high priority.
    aging_ms : int
        After how long the oldest request counts as aged.
    kinds : mapping of DeviceKind to Standing
        The same for each kind of device; what stands here is about the pool's default kind.
    """

    held_milli: int = 0
    deserved_milli: int = 0
    fair_milli: int = 0
    used_milli_ms: int = 0
    attained_milli_ms: int = 0
    weight_milli: int = 1000
    above: tuple[Part, ...] = ()
    oldest: str = ""
    urgent_ms: int = 0
    aging_ms: int = AGING_MS
    kinds: Mapping[DeviceKind, Standing] = {}

    def of_kind(self, kind: DeviceKind | None) -> Standing:
        """Return how the owner stands with devices of one kind."""
        return self.kinds.get(kind, self) if kind is not None else self


#: ``(waiting, now_ms, standings by owner) -> waiting in the order in which the pool considers it``.
#: ``waiting`` comes in the order of arrival; ``now_ms`` is pool time.
OrderPolicy = Callable[[Sequence[Lease], int, Mapping[str, Standing]], Sequence[Lease]]
