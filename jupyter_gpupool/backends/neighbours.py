"""What is remembered of the leases on the CPU between calls.

Rule of this module: it makes the backend fairer and faster, and is rebuilt from attachments as they are
shown to it; nothing that an undo needs is here only.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.leasegroups import base_of
from jupyter_gpupool.backends.undo import GroupRecord, ProcessRecord, Undo


@dataclass(slots=True)
class Neighbour:
    """One lease, as the others see it."""

    holder: ProcessMark
    undo: Undo
    #: How many cores' worth of compute it was granted.
    cores: float
    #: What its tree was last seen to use; None when unknown.
    used_bytes: int | None = None
    #: False for limits beside a share of another device: they give way to a share of the CPU.
    leased: bool = True


class Neighbours:
    """All leases on one CPU."""

    def __init__(self) -> None:
        self._leases: dict[str, Neighbour] = {}

    def note(
        self, lease_id: str, holder: ProcessMark, undo: Undo, cores: float, *, leased: bool = True
    ) -> Neighbour:
        """Remember a lease as it is now."""
        lease = self._leases.setdefault(lease_id, Neighbour(holder, undo, cores))
        lease.holder, lease.undo, lease.cores, lease.leased = holder, undo, cores, leased
        return lease

    def leases_any(self) -> bool:
        """Say whether there is any lease on the CPU."""
        return any(lease.leased for lease in self._leases.values())

    def leases_cpu(self, holder: ProcessMark) -> bool:
        """Say whether a process holds a share of the CPU."""
        return any(lease.leased and lease.holder == holder for lease in self._leases.values())

    def forget(self, lease_id: str) -> None:
        """Forget a lease."""
        self._leases.pop(lease_id, None)

    def holders_besides(self, lease_id: str) -> set[int]:
        """Return the processes that hold other leases: they and their children are not this one's."""
        return {lease.holder.pid for lease in self._besides(lease_id)}

    def core_load(self, lease_id: str) -> dict[int, float]:
        """Return how much of each core the other leases were granted."""
        load: dict[int, float] = {}
        for lease in self._besides(lease_id):
            for core in lease.undo.cores:
                load[core] = load.get(core, 0.0) + lease.cores / len(lease.undo.cores)
        return load

    def used_bytes(self) -> int:
        """Return what the trees of all leases were last seen to use."""
        return sum(lease.used_bytes or 0 for lease in self._leases.values())

    def take_over(self, lease_id: str, undo: Undo, tree: Sequence[ProcessMark]) -> None:
        """Record how processes were before another lease held them, where one does.

        A process that holds a lease of its own may have been under its parent's: what it gets back in the
        end is what it had before both.
        """
        for lease in self._besides(lease_id):
            for mark, record in lease.undo.by_mark().items():
                if mark in tree and mark not in undo.by_mark():
                    taken = copy.deepcopy(record)
                    taken.groups = {group.path: _home(lease.undo, record, group) for group in undo.groups}
                    undo.processes.append(taken)

    def _besides(self, lease_id: str) -> list[Neighbour]:
        return [lease for other, lease in self._leases.items() if other != lease_id]


def _home(other: Undo, record: ProcessRecord, group: GroupRecord) -> str:
    """Return where a process was before another lease put it into a group of the same kind."""
    for theirs in other.groups:
        same = (theirs.version, theirs.controller) == (group.version, group.controller)
        if same and theirs.path in record.groups:
            return record.groups[theirs.path]
    return str(base_of(group))
