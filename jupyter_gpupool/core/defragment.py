"""Which leases would have to move for a request to fit that is blocked by how they lie.

A request for a whole device fits nowhere while a quarter of each of two is taken: there is room enough, in
the wrong places. What is told here is a proposal to the people concerned: a kernel that can restart, or that
is idle, could release its share and ask again.

Rule of this module: it looks at a few devices, and changes nothing; nobody is ever moved by the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.fitting import large_enough, memory_for
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue

#: At how many devices is looked, how many leases of each may move, and how many of them together.
_DEVICES, _LEASES, _TOGETHER = 16, 6, 2

_Usable = Sequence[tuple[Account, Device]]


class Move(NamedTuple):
    """A lease that would have to move.

    Attributes
    ----------
    lease : Lease
        The lease.
    from_id, to_id : str
        The device that it has a share of, and one that has room for it.
    """

    lease: Lease
    from_id: str
    to_id: str


def propose(ledger: Ledger, queue: Queue, lease: Lease, usable: _Usable) -> tuple[Move, ...]:
    """Find the fewest leases whose move would make room for a request for one device.

    Parameters
    ----------
    ledger, queue
        The pool.
    lease : Lease
        The request; nothing is proposed for one that asks for several devices.
    usable : sequence of (Account, Device)
        The devices on offer that are large enough for it.

    Returns
    -------
    tuple of Move
        Empty where no few moves would help.
    """
    if lease.want.count > 1:
        return ()
    divided = [it for it in usable if not _is_special(it[1])]
    roomy = sorted(divided, key=lambda it: (-it[0].free_compute_milli, -it[0].free_memory_bytes, it[1].id))
    near = roomy[:_DEVICES]
    movable = {account.device_id: _movable(ledger, account) for account, _ in near}
    for count in range(1, _TOGETHER + 1):
        for account, device in near:
            others = [it for it in near if it[1].id != device.id]
            for group in combinations(movable[account.device_id], count):
                moves = _placed(group, device, others)
                if moves and queue.fits_without(lease, {it.id for it in group}):
                    return moves
    return ()


def _is_special(device: Device) -> bool:
    """Whether more decides on a device than how much of it is free."""
    return device.whole_only or device.one_owner or device.most_leases is not None


def _movable(ledger: Ledger, account: Account) -> list[Lease]:
    """List the smallest leases on a device that can move: their kernel restarts, or nothing runs in it."""
    found = [
        it
        for it in account.leases.values()
        if it.state is LeaseState.ACTIVE
        and len(it.shares) == 1
        and not (it.pending or it.pinned or it.want.device or it.want.asks_host)
        and (it.holder.restartable or ledger.activity.idle_since_ms(it.id) is not None)
    ]
    return sorted(found, key=lambda it: (it.shares[0].compute_milli, it.id))[:_LEASES]


def _placed(leases: Iterable[Lease], device: Device, others: _Usable) -> tuple[Move, ...] | None:
    """Find another device for each of some leases; None where there is none for one of them."""
    taken: dict[str, tuple[int, int]] = {}
    moves = []
    for lease in leases:
        for account, other in others:
            milli, size = taken.get(other.id, (0, 0))
            needed = memory_for(other, lease.want.compute_milli, lease.want.memory_bytes)
            fits = (
                lease.want.compute_milli + milli <= account.free_compute_milli
                and needed + size <= account.free_memory_bytes
            )
            meant = other.kind is device.kind and (not lease.want.model or other.model == device.model)
            if fits and meant and large_enough(lease.want, other):
                taken[other.id] = (milli + lease.want.compute_milli, size + needed)
                moves.append(Move(lease, device.id, other.id))
                break
        else:
            return None
    return tuple(moves)
