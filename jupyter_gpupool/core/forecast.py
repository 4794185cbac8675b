"""When a request that waits will probably be granted.

Those before it are granted one after the other, each where there is room first, by the ends of leases that
are known (``hold_ms``, announced ends) or expected by their owners' history. That is done three times: with
short holds, with middling ones, and with long ones.

Rule of this module: it looks and changes nothing, at a bounded price; what it cannot tell it does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from heapq import heapify, heappop, heappush

from jupyter_gpupool.core.accounts import Account, after_ends
from jupyter_gpupool.core.asks import ask_of, is_model, is_named
from jupyter_gpupool.core.deadlines import hold_ends_ms
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.estimates import Spread
from jupyter_gpupool.core.fitting import large_enough, memory_for
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.placement.rooms import Ask
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import Part, Together, reserved_by

#: Of so many requests before it, and of so many devices, nothing is told of a request.
_MOST_AHEAD, _MOST_DEVICES = 512, 4096

_Usable = Sequence[tuple[Account, Device]]


def forecast(
    ledger: Ledger, ahead: Sequence[Lease], lease: Lease, usable: _Usable, now_ms: int
) -> Spread | None:
    """Estimate the pool time of a grant; None when nobody can tell.

    Parameters
    ----------
    ledger : Ledger
        The leases, and how long such were held.
    ahead : sequence of Lease
        The requests before it, the first one first.
    lease : Lease
        The request.
    usable : sequence of (Account, Device)
        The devices on offer that it, or those before it, could use.
    now_ms : int
        Pool time.
    """
    if not usable or len(usable) > _MOST_DEVICES or len(ahead) > _MOST_AHEAD:
        return None
    times = [_run(ledger, ahead, lease, usable, now_ms, quantile) for quantile in range(3)]
    if lease.want.asks_host:
        nodes = {device.node_id for _, device in usable if _is_meant(lease.want, device)}
        times = [
            _later(at, _host_ms(ledger, lease.want, nodes, now_ms, quantile))
            for quantile, at in enumerate(times)
        ]
    if times[1] is None:
        return None
    low, middle, high = (it if it is not None else times[1] for it in times)
    return Spread(min(low, middle), middle, max(high, middle))


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _host_ms(ledger: Ledger, want: Want, nodes: Set[str], now_ms: int, quantile: int) -> int | None:
    """Return when the first of some nodes has room for what is asked for beside the devices."""
    ask = ask_of(want, devices=1 if want.spread else None)
    found = [
        at
        for node_id in nodes
        if (account := ledger.host_of(node_id)) is not None
        and (at := _host_ready_ms(ledger, account, ask, now_ms, quantile)) is not None
    ]
    return min(found, default=None)


def _host_ready_ms(ledger: Ledger, account: Account, ask: Ask, now_ms: int, quantile: int) -> int | None:
    """Let the leases on a node end one after the other, until there is room; None when it is unknown."""
    assert account.device is not None  # noqa: S101 - it has been reported
    lacking = Part(account.free_cpu_milli - ask.cpu_milli, account.free_memory_bytes - ask.memory_bytes)
    ends = [
        (end[quantile], it) for it in account.all_leases() if (end := end_of(ledger, it, now_ms)) is not None
    ]
    left, at = after_ends(account, account.device, lacking, ends, now_ms)
    return at if min(left) >= 0 else None


def is_known(ledger: Ledger, ahead: Sequence[Lease], usable: _Usable) -> bool:
    """Whether no history was needed: all that matters says itself when it ends."""
    held = (it for account, _ in usable for it in account.leases.values())
    return all(it.hold_ms is not None for it in ahead) and all(
        it.state is LeaseState.ENDING or _said_ms(it) is not None for it in held
    )


def end_of(ledger: Ledger, lease: Lease, now_ms: int) -> Spread | None:
    """Estimate the pool time at which a granted lease ends; None when nobody can tell."""
    if lease.state is LeaseState.ENDING:
        return None if lease.overdue else Spread(now_ms, now_ms, now_ms)
    said = _said_ms(lease)
    history = ledger.history.end(lease, now_ms)
    if said is None:
        return history
    said = max(said, now_ms)
    # whoever says how long may be done before that
    return Spread(said, said, said) if history is None else Spread(min(said, history.low_ms), said, said)


def _said_ms(lease: Lease) -> int | None:
    return min((it for it in (lease.notice_ms, hold_ends_ms(lease)) if it is not None), default=None)


class _Line:
    """What is free of one device as time goes on."""

    __slots__ = ("_bytes", "_ends", "_milli", "device", "version")

    def __init__(self, account: Account, device: Device, ends: list[tuple[float, int, int]]) -> None:
        self.device = device
        self.version = 0
        self._ends = sorted(ends)
        self._milli = account.free_compute_milli
        self._bytes = account.left_memory_bytes

    def ready(self, want: Want, now_ms: int) -> float:
        """Return when there is room for one share."""
        milli, size = _size(want, self.device)
        free, left, at = self._milli, self._bytes, float(now_ms)
        for end_ms, more, more_bytes in self._ends:
            if free >= milli and left >= size:
                return at
            free, left, at = free + more, left + more_bytes, max(at, end_ms)
        return at if free >= milli and left >= size else math.inf

    def take(self, want: Want, until: float) -> None:
        """Take a share until some time."""
        milli, size = _size(want, self.device)
        self._milli -= milli
        self._bytes -= size
        self._ends.append((until, milli, size))
        self._ends.sort()
        self.version += 1


def _size(want: Want, device: Device) -> tuple[int, int]:
    if device.whole_only:
        return WHOLE_MILLI, max(1, want.memory_bytes or 0)
    return want.compute_milli, memory_for(device, want.compute_milli, want.memory_bytes)


def _lines(ledger: Ledger, usable: _Usable, now_ms: int, quantile: int) -> list[_Line]:
    found = []
    for account, device in usable:
        leases = []
        for lease in account.all_leases():
            end = end_of(ledger, lease, now_ms)
            leases.append((math.inf if end is None else float(end[quantile]), lease))
        found.append(_Line(account, device, _freed(account, device, leases)))
    return found


def _freed(
    account: Account, device: Device, leases: list[tuple[float, Lease]]
) -> list[tuple[float, int, int]]:
    """Say what of a device is free when each lease on it has ended: when, thousandths and bytes."""
    if not account.beside:
        return [
            (at, share.compute_milli, share.memory_bytes)
            for at, lease in leases
            for share in reserved_by(lease)
            if share.device_id == device.id
        ]
    together, units = Together(device, account.all_leases()), max(1, device.compute_units)
    freed = ((at, together.remove(it)) for at, it in sorted(leases, key=lambda it: (it[0], it[1].id)))
    return [(at, part.cpu_milli // units, part.memory_bytes) for at, part in freed]


def _run(
    ledger: Ledger, ahead: Iterable[Lease], lease: Lease, usable: _Usable, now_ms: int, quantile: int
) -> int | None:
    """Grant the requests one after the other; return when it is the turn of the last one."""
    pick = _Picker(_lines(ledger, usable, now_ms, quantile), now_ms)
    at = float(now_ms)
    for request in (*ahead, lease):
        lines, at = pick.first(request.want)
        if request.id == lease.id:
            break
        if not lines or math.isinf(at):
            continue  # nobody knows when it will have room, and others may go before it
        hold_ms = request.hold_ms
        if hold_ms is None:
            hold = ledger.history.hold(request.owner)
            hold_ms = hold[quantile] if hold is not None else None
        until = math.inf if hold_ms is None else at + hold_ms
        for line in lines:
            line.take(request.want, until)
    return None if math.isinf(at) else round(at)


class _Picker:
    """Finds the devices that have room first, for one kind of request after the other."""

    def __init__(self, lines: list[_Line], now_ms: int) -> None:
        self._lines = lines
        self._now_ms = now_ms
        #: By what is asked for: the devices by when they have room, some of them out of date.
        self._heaps: dict[tuple[int, int | None, str, str], list[tuple[float, int, int]]] = {}

    def first(self, want: Want) -> tuple[list[_Line], float]:
        """Return the devices for a request, and when all of them have room."""
        if want.count > 1:
            return self._gang(want)
        key = (want.compute_milli, want.memory_bytes, want.device, want.model)
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = [
                (line.ready(want, self._now_ms), place, line.version)
                for place, line in enumerate(self._lines)
                if _is_meant(want, line.device)
            ]
            heapify(heap)
        while heap:
            at, place, version = heap[0]
            line = self._lines[place]
            if version == line.version:
                return [line], at
            heappop(heap)
            heappush(heap, (line.ready(want, self._now_ms), place, line.version))
        return [], math.inf

    def _gang(self, want: Want) -> tuple[list[_Line], float]:
        by_node: dict[str, list[tuple[float, int]]] = {}
        for place, line in enumerate(self._lines):
            if _is_meant(want, line.device):
                node = "" if want.spread else line.device.node_id
                by_node.setdefault(node, []).append((line.ready(want, self._now_ms), place))
        sets = [sorted(it)[: want.count] for it in by_node.values() if len(it) >= want.count]
        if not sets:
            return [], math.inf
        chosen = min(sets, key=lambda it: it[-1])
        return [self._lines[place] for _, place in chosen], chosen[-1][0]


def _is_meant(want: Want, device: Device) -> bool:
    if want.model and not is_model(device.model, want.model):
        return False
    return large_enough(want, device) and (not want.device or is_named(device, want.device))
