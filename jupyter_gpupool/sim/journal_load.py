"""What a journal says that people asked for, as a workload.

Rule of this module: the journal is only read. It does not say when a holder was idle, so that a lease counts
as in use from its start to its end; leases that were forgotten since are not in it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jupyter_gpupool.cluster.journal_read import read_leases
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.sim.workload import Person, Workload, batch, once

_NOTES = (
    "A journal does not say when a holder was idle: a lease counts as in use from its start to its end.",
    "Devices that were asked for by name or id are left to the pool.",
)


def journal_workload(path: Path) -> Workload:
    """Read a journal.

    Raises
    ------
    InvalidValue
        If there is no lease in it.
    JournalError
        If it cannot be read.
    """
    leases, now_ms = read_leases(path)
    if not leases:
        raise InvalidValue(f"The journal {path} has no leases.", hint="Play a class with --users.")
    first_ms = min(it.requested_ms for it in leases)
    return batch(path.name, (_person(it, first_ms, now_ms) for it in leases), _NOTES)


def _person(lease: Lease, first_ms: int, now_ms: int) -> Person:
    """Return who asked for a lease: when, for how long they would have waited, and for how long they held."""
    ended_ms = lease.ended_ms if lease.ended_ms is not None else now_ms
    want = replace(lease.want, device="")
    at_ms = lease.requested_ms - first_ms
    if lease.granted_ms is None:
        gone = lease.ended_ms is not None
        return once(
            lease.owner, at_ms, want, 1, max(1, ended_ms - lease.requested_ms) if gone else lease.wait_ms
        )
    person = once(lease.owner, at_ms, want, ended_ms - lease.granted_ms, lease.wait_ms)
    return replace(person, visits=(replace(person.visits[0], pinned=lease.pinned),))
