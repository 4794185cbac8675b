"""New requests: what is refused at once, and what is taken into the queue.

Rule of this module: everything is looked at before anything is changed, and a refusal says what would help.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.asks import ask_of
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.errors import (
    AlreadyHolds,
    DoesNotFitNow,
    DuplicateLease,
    GrantsPaused,
    InvalidValue,
    NeverFits,
    NoSuchDevice,
)
from jupyter_gpupool.core.events import LeaseRequested
from jupyter_gpupool.core.fitting import Obstacle, large_enough, memory_for
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.shares import MOST_DEVICES, WHOLE_MILLI, format_compute, format_memory
from jupyter_gpupool.core.turn import Turn
from jupyter_gpupool.core.wording import (
    describe_device,
    describe_devices,
    describe_largest,
    describe_lease,
    describe_none_offered,
    describe_obstacle,
    describe_size,
    describe_want,
    plural,
)

#: How many models a refusal lists.
_MODELS = 6


def on_lease_requested(turn: Turn, event: LeaseRequested) -> None:
    """Take a request into the queue; whatever fits is granted afterwards, in the same call."""
    if event.lease_id in turn.ledger.leases:
        raise DuplicateLease(f"There is a lease {event.lease_id} already.")
    _check_amounts(event.want)
    if (event.wait_ms is not None and event.wait_ms < 0) or (event.hold_ms is not None and event.hold_ms < 1):
        raise InvalidValue("A request cannot wait for less than nothing, or be held for no time.")
    check_accepting(turn)
    want = _with_host(turn, _resolved(turn, event.want))
    _check_holder(turn, event, want)
    want = hooks.check_request(turn, event.owner, want)
    _check_ever_fits(turn, want)
    lease = Lease(
        id=event.lease_id,
        owner=event.owner,
        holder=event.holder,
        want=want,
        state=LeaseState.QUEUED,
        requested_ms=turn.now_ms,
        requested_wall_ms=turn.wall_ms,
        wait_ms=event.wait_ms,
        hold_ms=event.hold_ms,
    )
    if event.wait_ms == 0 and turn.queue.place_for(lease, turn.now_ms) is None:
        hooks.check_now(turn, lease)
        raise _refused_now(turn, want, event.owner)
    turn.add(lease)
    turn.queue.fields.count(want)


def full_want(turn: Turn, owner: str, want: Want) -> Want:
    """Fill in what a request leaves to the pool, and refuse what could never be granted.

    Raises
    ------
    GPUPoolError
        If it means nothing, or is more than a quota or any device allows.
    """
    _check_amounts(want)
    want = hooks.check_request(turn, owner, _with_host(turn, _resolved(turn, want)))
    _check_ever_fits(turn, want)
    return want


def _check_amounts(want: Want) -> None:
    """Refuse amounts that mean nothing."""
    check_size(want.compute_milli, want.memory_bytes)
    _check_count(want)
    check_host(want)


def check_size(compute_milli: int, memory_bytes: int | None) -> None:
    """Refuse sizes that mean nothing.

    Raises
    ------
    InvalidValue
        If they are out of range.
    """
    if not 1 <= compute_milli <= WHOLE_MILLI:
        raise InvalidValue(
            f"A share of {compute_milli} thousandths is out of range.",
            hint=f"Ask for 1 to {WHOLE_MILLI} thousandths of one device.",
        )
    if memory_bytes is not None and memory_bytes < 1:
        raise InvalidValue(
            f"A memory size of {memory_bytes} B is out of range.", hint="Ask for at least one byte."
        )


def check_host(want: Want) -> None:
    """Refuse what means nothing beside a share.

    Raises
    ------
    InvalidValue
        If it is less than nothing, or asked for beside a share of the processor itself.
    """
    if want.host_cpu_milli < 0 or want.host_memory_bytes < 0:
        raise InvalidValue("A request cannot take less than nothing of its node.", hint="Ask for at least 0.")
    if want.asks_host and want.kind is DeviceKind.CPU:
        raise InvalidValue(
            "A share of a CPU is a part of its node's cores and memory already.",
            hint="Ask for a larger share, or for its memory; cores and main memory go with other devices.",
        )


def _with_host(turn: Turn, want: Want) -> Want:
    """Fill in what goes with a share of an accelerator where the request says nothing of that."""
    if want.kind is DeviceKind.CPU:
        check_host(want)
        return want
    config = turn.config
    if not (config.host_cpu_milli or config.host_memory_bytes) or want.asks_host or want.kind is None:
        return want
    milli = want.compute_milli * want.count
    return replace(
        want,
        host_cpu_milli=-(-config.host_cpu_milli * milli // WHOLE_MILLI),
        host_memory_bytes=-(-config.host_memory_bytes * milli // WHOLE_MILLI),
    )


def _check_count(want: Want) -> None:
    """Refuse numbers of devices that mean nothing."""
    if not 1 <= want.count <= MOST_DEVICES:
        raise InvalidValue(
            f"{want.count} devices is out of range.", hint=f"Ask for 1 to {MOST_DEVICES} devices."
        )


def check_accepting(turn: Turn) -> None:
    """Refuse while nothing can be granted.

    Raises
    ------
    GrantsPaused
        If the journal cannot be written.
    """
    if not turn.ledger.accepting:
        raise GrantsPaused(
            "Nothing can be granted while the pool's journal cannot be written.",
            hint="Try again later; what is held stays held.",
        )


def _resolved(turn: Turn, want: Want) -> Want:
    """Fill in the device kind, as far as the pool knows its devices."""
    if want.kind is None and (want.asks_host or want.model) and not want.device:
        want = replace(want, kind=DeviceKind.CUDA)
    kind = turn.queue.kind_of(want)
    if kind is not None and (turn.queue.fields.of(want) or turn.queue.matching(want)):
        return replace(want, kind=kind)
    if not turn.ledger.settled():
        return want
    what = f"named “{want.device}”" if want.device else f"of kind {_kind_name(want.kind)}"
    if want.device and want.kind is not None:
        what = f"of kind {_kind_name(want.kind)} named “{want.device}”"
    if want.model:
        models = sorted({it.model for it in turn.ledger.devices().values()})
        if len(models) > _MODELS:
            models = [*models[:_MODELS], f"and {len(models) - _MODELS} more"]
        raise NoSuchDevice(
            f"There is no device {what} whose model is “{want.model}” in this pool.",
            hint=f"Models: {', '.join(models) or 'none'}.",
        )
    known = turn.ledger.devices().values()
    raise NoSuchDevice(
        f"There is no device {what} in this pool.", hint=f"Devices: {describe_devices(turn.ledger, known)}."
    )


def _kind_name(kind: DeviceKind | None) -> str:
    return kind.value if kind is not None else "any"


def _check_holder(turn: Turn, event: LeaseRequested, want: Want) -> None:
    """Refuse a second lease of one kind for one holder."""
    for lease in turn.ledger.of_holder(event.owner, event.holder.key):
        kind = lease.want.kind
        if kind is not None and want.kind is not None and kind is not want.kind:
            continue
        what = describe_lease(turn.ledger, lease)
        if lease.state is LeaseState.QUEUED:
            raise AlreadyHolds(
                f"This holder already waits for {what} (lease {lease.id}).",
                hint="Cancel that request first, or wait for it.",
            )
        raise AlreadyHolds(
            f"This holder already has {what} (lease {lease.id}).",
            hint=f"Resize it to {format_compute(want.compute_milli)}, or release it first.",
        )


def _check_ever_fits(turn: Turn, want: Want) -> None:
    """Refuse what is larger than every device that it could mean, or more than there are on a node."""
    if turn.queue.could_ever(want) or not turn.ledger.settled():
        return
    matching = [device for _, device in turn.queue.matching(want)]
    large = [it for it in matching if large_enough(want, it)]
    if not large:
        limit, hint = describe_largest(turn.ledger, want, matching)
        raise NeverFits(f"{describe_want(want)} never fits: {limit}.", hint=hint)
    if want.asks_host:
        _check_host_ever_fits(turn, want, large)
    if want.count == 1:
        return
    most = len(large) if want.spread else max(Counter(it.node_id for it in large).values())
    if want.count <= most:
        return
    where = "in the pool" if want.spread else "on one node"
    more = "" if want.spread or want.count > len(large) else ", or let them be on several nodes"
    raise NeverFits(
        f"{describe_want(want)} never fits: there are at most {plural(most, 'such device', 'such devices')} "
        f"{where}.",
        hint=f"Ask for at most {most}{more}.",
    )


def _check_host_ever_fits(turn: Turn, want: Want, devices: list[Device]) -> None:
    """Refuse more cores or main memory than any node with such devices has."""
    ask = ask_of(want, devices=1 if want.spread else None)
    hosts = [turn.ledger.host_of(it, ever=True) for it in dict.fromkeys(it.node_id for it in devices)]
    known = [it.device for it in hosts if it is not None and it.device is not None]
    if not known:
        raise NeverFits(
            f"{describe_want(want)} never fits: no node with such a device says how many cores it has.",
            hint="Ask without cores and main memory, or let the agents serve their CPU, too.",
        )
    cores = max(it.compute_units for it in known)
    size = max(it.memory_bytes for it in known)
    if any(
        ask.cpu_milli <= it.compute_units * WHOLE_MILLI and ask.memory_bytes <= it.memory_bytes
        for it in known
    ):
        return
    most = f"{plural(cores, 'core', 'cores')} and {format_memory(size)} of main memory"
    raise NeverFits(
        f"{describe_want(want)} never fits: a node with such a device has at most {most}.",
        hint="Ask for less of the node.",
    )


def _refused_now(turn: Turn, want: Want, owner: str) -> DoesNotFitNow:
    """Say why a request that would not wait is refused, and what would fit."""
    message = f"{describe_want(want)} is not free now."
    usable = turn.queue.could_use(want)
    if not usable:
        return DoesNotFitNow(message, hint=f"{_none_offered(turn, want)}; ask again and wait.")
    rivals = [it for it in turn.ledger.waiting() if it.want.kind in (None, want.kind)]
    if rivals:
        ahead = plural(len(rivals), "request is", "requests are")
        return DoesNotFitNow(message, hint=f"{ahead} ahead in the queue; ask again and wait.")
    account, device, bar = turn.queue.meant.nearest(want, owner, usable)
    if bar is not None and bar is not Obstacle.ROOM:
        why = describe_obstacle(turn.ledger, account, device, bar)
        return DoesNotFitNow(message, hint=f"{why[0].upper()}{why[1:]}. Ask again and wait.")
    short = turn.queue.meant.short_host(want, owner, usable)
    if short:
        return DoesNotFitNow(message, hint=f"{short[0].upper()}{short[1:]}. Ask for less, or wait.")
    free = account.free
    enough = want.compute_milli <= free.compute_milli
    needed = memory_for(device, want.compute_milli, want.memory_bytes)
    short = f" (it takes {format_memory(needed)} there)" if enough and want.memory_bytes is None else ""
    size = describe_size(free.compute_milli, free.memory_bytes)
    name = describe_device(turn.ledger, device.id)
    return DoesNotFitNow(message, hint=f"Free now on {name}: {size}{short}. Ask for less, or wait.")


def _none_offered(turn: Turn, want: Want) -> str:
    """Say why there is no device at the moment that a request could use."""
    if not turn.ledger.accounts:
        return "No node has joined yet"
    large = [account for account, device in turn.queue.matching(want) if large_enough(want, device)]
    if not large:
        return "No such device is in the pool at the moment"
    why = describe_none_offered(turn.ledger, large)
    return f"{why[0].upper()}{why[1:]}"
