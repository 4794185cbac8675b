"""Resizes: another size on the same device, in two steps.

Rule of this module: a resize never queues. While the agent has not answered, the larger of old and new is
taken; the agent's answer makes the new size the size, or drops it.
"""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.devices import Device, Free
from jupyter_gpupool.core.errors import DoesNotFitNow, IllegalTransition, NeverFits
from jupyter_gpupool.core.events import LimitsApplied, LimitsRefused, ResizeRequested
from jupyter_gpupool.core.fitting import memory_for
from jupyter_gpupool.core.leases import Lease, LeaseEvent, LeaseState, Share, next_state
from jupyter_gpupool.core.lifecycle import apply_pending
from jupyter_gpupool.core.requests import check_accepting, check_size
from jupyter_gpupool.core.shares import format_compute, format_memory
from jupyter_gpupool.core.turn import Turn
from jupyter_gpupool.core.wording import (
    describe_device,
    describe_instance,
    describe_size,
    describe_withheld,
)


def on_resize_requested(turn: Turn, event: ResizeRequested) -> None:
    """Reserve the new size beside the old one, on each of its devices, and have the agent put it in force."""
    lease = turn.live(event.lease_id)
    check_size(event.compute_milli, event.memory_bytes)
    _check_state(lease)
    if len(turn.ledger.nodes_of(lease)) > 1:
        raise DoesNotFitNow(
            f"Lease {lease.id} cannot be resized: it has devices on several nodes.",
            hint="Release it, and ask for the other size.",
        )
    devices = [_device_of(turn, lease, share) for share in lease.shares]
    for _, device in devices:
        _check_divisible(turn, lease, device, event)
    wanted = tuple(
        Share(
            device_id=device.id,
            compute_milli=event.compute_milli,
            memory_bytes=memory_for(device, event.compute_milli, event.memory_bytes),
        )
        for _, device in devices
    )
    if wanted == lease.shares:
        return
    check_accepting(turn)
    for (account, device), held, size in zip(devices, lease.shares, wanted, strict=True):
        _check_room(turn, lease, (account, device), held, size)
    hooks.check_resize(turn, lease, wanted)
    lease = turn.move(lease, LeaseEvent.RESIZE_ASKED, pending=wanted)
    apply_pending(turn, lease)


def _check_state(lease: Lease) -> None:
    if lease.state is LeaseState.QUEUED:
        raise IllegalTransition(
            f"Lease {lease.id} is {lease.state.value}; only a lease that is held can be resized.",
            hint="Cancel the request, and ask for the other size.",
        )
    next_state(lease, LeaseEvent.RESIZE_ASKED)
    if lease.pending:
        raise IllegalTransition(
            f"Lease {lease.id} is being resized already.", hint="Wait until that is done, and ask again."
        )


def _device_of(turn: Turn, lease: Lease, share: Share) -> tuple[Account, Device]:
    account = turn.ledger.accounts[share.device_id]
    if account.device is None or not turn.ledger.connected(account.device.node_id):
        raise DoesNotFitNow(
            f"Lease {lease.id} cannot be resized now: the agent of its node is not connected.",
            hint="Try again when it is back.",
        )
    return account, account.device


def _check_divisible(turn: Turn, lease: Lease, device: Device, event: ResizeRequested) -> None:
    """Refuse another size of what is granted whole or not at all."""
    if not device.whole_only:
        return
    raise DoesNotFitNow(
        f"Lease {lease.id} cannot be resized: it has the whole of {describe_instance(turn.ledger, device)}, "
        "which is not divided.",
        hint=f"Release it, and request {format_compute(event.compute_milli)}: "
        "then the smallest instance or GPU is granted that has it.",
    )


def _check_room(turn: Turn, lease: Lease, place: tuple[Account, Device], held: Share, wanted: Share) -> None:
    """Refuse a grow for which there is no room; a dimension that does not grow needs none."""
    account, device = place
    name = describe_device(turn.ledger, device.id)
    if wanted.memory_bytes > max(device.memory_bytes, held.memory_bytes):
        raise NeverFits(
            f"{format_memory(wanted.memory_bytes)} is more than {name} has.",
            hint=f"Ask for at most {format_memory(device.memory_bytes)}.",
        )
    more_compute = wanted.compute_milli - held.compute_milli
    more_memory = wanted.memory_bytes - held.memory_bytes
    if max(more_compute, more_memory) > 0:
        withheld = describe_withheld(turn.ledger, account)
        if withheld:
            raise DoesNotFitNow(
                f"Lease {lease.id} cannot grow now: {withheld}.",
                hint="It can shrink; or try again later.",
            )
    free = _open_to_grows(turn, account)
    if more_compute > max(0, free.compute_milli) or more_memory > max(0, free.memory_bytes):
        largest = describe_size(
            held.compute_milli + free.compute_milli, held.memory_bytes + free.memory_bytes
        )
        raise DoesNotFitNow(
            f"Lease {lease.id} cannot grow to {describe_size(wanted.compute_milli, wanted.memory_bytes)}: "
            f"that is not free on {name}.",
            hint=f"It can have at most {largest} there now.",
        )


def _open_to_grows(turn: Turn, account: Account) -> Free:
    """Return what of a device leases may grow into: not what is kept for who is first in line."""
    kept = turn.queue.kept_beside(account.device_id)
    free = account.free
    if kept is None:
        return free
    return Free(compute_milli=min(free.compute_milli, kept[0]), memory_bytes=min(free.memory_bytes, kept[1]))


def on_limits_applied(turn: Turn, event: LimitsApplied) -> None:
    """Make the size that is in force now the size of the lease."""
    lease = turn.reported(event.lease_id, event.generation, LeaseEvent.LIMITS_APPLIED)
    want = lease.want
    if lease.pending:
        size = lease.pending[0]
        want = replace(want, compute_milli=size.compute_milli, memory_bytes=size.memory_bytes)
    turn.move(
        lease,
        LeaseEvent.LIMITS_APPLIED,
        want=want,
        shares=lease.pending or lease.shares,
        pending=(),
        isolation=event.isolation,
    )


def on_limits_refused(turn: Turn, event: LimitsRefused) -> None:
    """Drop the size that could not be put in force."""
    lease = turn.reported(event.lease_id, event.generation, LeaseEvent.LIMITS_REFUSED)
    if lease.pending:
        turn.move(lease, LeaseEvent.LIMITS_REFUSED, pending=())
