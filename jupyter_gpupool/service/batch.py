"""Events on their way through the host's writer.

Rule of this module: plain data.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jupyter_gpupool.cluster.journal import IdempotencyRow
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import Effect, WriteDown
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.events import Event, HolderAttached, HolderDetached, HolderExited


@dataclass(slots=True)
class Item:
    """One event.

    Attributes
    ----------
    event : Event or None
        What happened; None for other rules, and for a try to write to a journal that failed.
    future : Future or None
        Who waits for it; None for a fact that nobody waits for.
    key : IdempotencyRow or None
        To be written down with it.
    effects, error
        What the Pool made of it.
    """

    event: Event | None
    future: asyncio.Future[None] | None = None
    key: IdempotencyRow | None = None
    effects: Sequence[Effect] = field(default_factory=tuple)
    error: GPUPoolError | None = None
    #: What makes other rules of the present ones; such an item is a batch of its own.
    rules: Callable[[PoolConfig], PoolConfig] | None = None
    #: When it came, pool time.
    came_ms: int = 0


def next_batch(items: deque[Item], most: int) -> list[Item]:
    """Take the items that are handled together: what came before other rules is not handled after them."""
    batch: list[Item] = []
    while items and len(batch) < most:
        if items[0].rules is not None:
            return batch or [items.popleft()]
        batch.append(items.popleft())
    return batch


def writes_of(batch: Iterable[Item]) -> list[WriteDown]:
    """Return what a batch writes down, in order."""
    return [effect for item in batch for effect in item.effects if isinstance(effect, WriteDown)]


def parts_told(batch: Iterable[Item]) -> list[str]:
    """Return the leases of which agents have told in a batch, also what is not written down."""
    told = (HolderAttached, HolderDetached, HolderExited)
    return [item.event.lease_id for item in batch if isinstance(item.event, told)]
