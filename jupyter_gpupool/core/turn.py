"""One call of `Pool.handle`: the time it has, and what it has changed so far.

Rule of this module: every change of a lease passes `Turn.move` (or `Turn.add` for a new one), which asks the
table, closes the usage segment, and writes the transition down. Handlers refuse before they change anything.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import Effect, WriteDown
from jupyter_gpupool.core.errors import StaleReport, UnknownLease
from jupyter_gpupool.core.leases import Lease, LeaseEvent, LeaseState, next_state
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue
from jupyter_gpupool.core.quotas import usage_until


class Turn:
    """What a handler is given beside its event.

    Attributes
    ----------
    ledger, queue, config
        The pool's state, its queue, and its rules.
    now_ms, wall_ms : int
        Pool time (never before that of the last call) and UTC, milliseconds.
    effects : list of Effect
        What the host must do, in order.
    changed : bool
        Whether anything that can be seen has changed.
    """

    __slots__ = ("changed", "config", "effects", "ledger", "now_ms", "queue", "wall_ms")

    def __init__(self, ledger: Ledger, queue: Queue, config: PoolConfig, now_ms: int, wall_ms: int) -> None:
        self.ledger = ledger
        self.queue = queue
        self.config = config
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.effects: list[Effect] = []
        self.changed = False

    def live(self, lease_id: str) -> Lease:
        """Find a live lease.

        Raises
        ------
        UnknownLease
            If there is none of that id.
        """
        lease = self.ledger.leases.get(lease_id)
        if lease is None:
            raise UnknownLease(
                f"There is no live lease {lease_id}.", hint="It may have ended; list the leases."
            )
        return lease

    def reported(self, lease_id: str, generation: int, event: LeaseEvent) -> Lease:
        """Find the live lease that an agent reports on, and see that ``event`` may happen to it.

        Raises
        ------
        UnknownLease
            If there is no such lease.
        StaleReport
            If the report is about another process than the current one.
        IllegalTransition
            If the event is not legal in the lease's state.
        """
        lease = self.live(lease_id)
        if lease.state is not LeaseState.QUEUED and generation != lease.generation:
            raise StaleReport(
                f"A report of “{event.value}” is about generation {generation} of lease {lease_id}, "
                f"which is at generation {lease.generation}."
            )
        next_state(lease, event)
        return lease

    def add(self, lease: Lease) -> None:
        """Take a new lease into the ledger and write it down."""
        self.ledger.put(lease)
        self._write(lease, None, None)

    def move(self, lease: Lease, event: LeaseEvent, **changes: Any) -> Lease:
        """Let ``event`` happen to a lease, with these changes of its fields; return its new value."""
        changes["state"] = next_state(lease, event)
        if lease.used_until_ms is not None:
            changes["used_milli_ms"] = usage_until(lease, self.now_ms)
            changes["used_until_ms"] = self.now_ms
        after = _changed(lease, changes)
        self.ledger.put(after)
        self._write(after, lease.state, event)
        return after

    def order(self, effect: Effect) -> None:
        """Have the host do something."""
        self.effects.append(effect)

    def _write(self, lease: Lease, before: LeaseState | None, event: LeaseEvent | None) -> None:
        self.changed = True
        self.effects.append(
            WriteDown(lease=lease, before=before, event=event, now_ms=self.now_ms, wall_ms=self.wall_ms)
        )


#: Every field of a lease at once, and what writes one of them into a value that is being made.
_NAMES = tuple(it.name for it in fields(Lease))
_read_all = attrgetter(*_NAMES)
_PUT = {name: getattr(Lease, name).__set__ for name in _NAMES}
_PUT_ALL = tuple(_PUT.values())


def _changed(lease: Lease, changes: dict[str, Any]) -> Lease:
    """Do what ``dataclasses.replace`` does, several times as fast: every decision makes such values.

    Raises
    ------
    KeyError
        If a lease has no such field.
    """
    after = object.__new__(Lease)
    for put, value in zip(_PUT_ALL, _read_all(lease), strict=True):
        put(after, value)
    for name, value in changes.items():
        _PUT[name](after, value)
    return after
