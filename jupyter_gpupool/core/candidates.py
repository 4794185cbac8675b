"""Which leases and devices one look at reclaim considers: few, however large the pool is.

Rules of this module: nothing is decided here. Of what may be in use a part is looked at each time, and the
next part with the next look, so that all come up in their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.drains import drain_of
from jupyter_gpupool.core.evictions import Find, Usable
from jupyter_gpupool.core.fitting import large_enough
from jupyter_gpupool.core.leases import Lease, LeaseState, Priority, Want
from jupyter_gpupool.core.turn import Turn

#: How many idle leases, leases in use, and nodes one look considers.
_IDLE, _BUSY, _NODES = 128, 128, 16


class Candidates:
    """What may be considered, as things are now.

    Parameters
    ----------
    turn : Turn
        The call of the pool that looks.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._book = turn.ledger.activity
        self._busy: list[Lease] | None = None

    @staticmethod
    def any(turn: Turn) -> bool:
        """Whether there could be any lease to take back, seen from afar."""
        book, config = turn.ledger.activity, turn.config
        if book.noticed or (config.release_idle_ms is not None and book.any_idle):
            return True
        if not turn.ledger.any_waiting():
            return False
        if config.reclaim_idle_ms is not None and book.any_idle:
            return True
        if not config.preempt or not book.held:
            return False
        if not config.quotas.say_nothing or book.classes[Priority.LOW]:
            return True
        return any(group.priority is Priority.HIGH for group in turn.ledger.waitlist.groups)

    # --- leases ---------------------------------------------------------------------------------

    def noticed(self) -> list[Lease]:
        """List what has been told already that it is taken back."""
        return self._ready(self._book.noticed)

    def idle(self, length_ms: int | None) -> list[Lease]:
        """List what has been idle for so long, longest first; what is next has its moment noted."""
        if length_ms is None:
            return []
        before_ms = self._turn.now_ms - length_ms
        found = [it for it, _ in zip(self._book.idle_before(before_ms), range(_IDLE), strict=False)]
        return self._ready(found)

    def busy(self) -> list[Lease]:
        """List some of what is held; others with the next look."""
        if self._busy is None:
            self._busy = self._ready(self._in_turn())
        return self._busy

    def _in_turn(self) -> Iterator[str]:
        """Yield leases owner by owner, and put those owners last."""
        looked_at = 0
        for owner in list(self._book.held):
            lease_ids = self._book.held.pop(owner)
            self._book.held[owner] = lease_ids
            for lease_id in list(lease_ids):
                if looked_at == _BUSY:
                    return
                looked_at += 1
                lease_ids[lease_id] = lease_ids.pop(lease_id)
                yield lease_id

    def _ready(self, lease_ids: Iterable[str]) -> list[Lease]:
        leases = (self._turn.ledger.leases[it] for it in list(lease_ids))
        return [it for it in leases if self._may_go(it)]

    def _may_go(self, lease: Lease) -> bool:
        """Whether anything may take a lease back: it is held for a while, not pinned, and not in motion."""
        ready_ms = (lease.granted_ms or 0) + self._turn.config.least_run_ms
        if ready_ms > self._turn.now_ms:
            self._book.wake_by(ready_ms)
            return False
        if lease.state is not LeaseState.ACTIVE or lease.pending or self._is_pinned(lease):
            return False
        return drain_of(self._turn.ledger, lease) is None  # that ends it, at a time of its own

    def _is_pinned(self, lease: Lease) -> bool:
        """Whether a lease is pinned, and its owner's quota (still) allows that."""
        if not lease.pinned:
            return False
        allowed = [rules.pins for _, rules in self._turn.config.quotas.chain(lease.owner)]
        return all(it is None or it > 0 for it in allowed)

    # --- devices --------------------------------------------------------------------------------

    def finder(self, want: Want) -> Find:
        """Return what finds a device by its id if a request could use it."""
        ledger, fields = self._turn.ledger, self._turn.queue.fields.of(want)

        def find(device_id: str) -> tuple[Account, Device] | None:
            account = ledger.accounts.get(device_id)
            device = account.device if account is not None else None
            if account is None or device is None or ledger.withheld(account) is not None:
                return None
            if not large_enough(want, device) or not any(field.key.has(device) for field in fields):
                return None
            return account, device

        return find

    def near(self, want: Want, device_ids: Iterable[str]) -> Usable:
        """List the devices that a gang could use: of the nodes of those given, and of nodes near it."""
        ask = self._turn.queue.fields.ask(want, devices=1 if want.spread else None)
        devices = (self._turn.ledger.accounts[it].device for it in device_ids)
        nodes = dict.fromkeys(it.node_id for it in devices if it is not None)
        fields = self._turn.queue.fields.of(want)
        for field in fields:
            nodes.update(dict.fromkeys(it.node for it in field.near.first(ask, max(_NODES, want.count))))
        there = (account for field in fields for it in nodes for account in field.members.get(it, ()))
        find = self.finder(want)
        return [found for it in there if (found := find(it.device_id)) is not None]
