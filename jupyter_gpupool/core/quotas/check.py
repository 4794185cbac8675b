"""Whether an owner may hold so much more: the limits of the owner, and of each group above.

Rules of this module: it looks, and changes nothing; what was held before a limit was lowered stays held, and
only more of what is limited is refused. A message names the limit, whose it is, what is used, and what fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import QuotaExceeded
from jupyter_gpupool.core.leases import Lease, Priority, Share, Want
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.quotas.counted import counted
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_memory

#: Thousandths of a device x milliseconds in a device-hour.
DEVICE_HOUR = 1000 * 3_600_000
#: What people call a device kind.
_KINDS = {DeviceKind.CPU: "CPU", DeviceKind.CUDA: "CUDA"}
#: Who can do something about it.
_RAISE = "an administrator of the pool can raise it"
#: What a limit is about -> what of `More` it limits.
_ASKED = {
    "compute": "compute_milli",
    "memory": "memory_bytes",
    "leases": "leases",
    "cpus": "host_cpu_milli",
    "memory_host": "host_memory_bytes",
}
#: How that is called in "ask for at most 4 cores", where the number does not say it.
_OF = {"cpus": " cores", "memory_host": " of main memory"}


#: Limits of what leases of all kinds of devices hold together.
OF_ALL_KINDS = frozenset({"leases", "cpus", "memory_host"})


class More(NamedTuple):
    """What is to be held in addition.

    Attributes
    ----------
    compute_milli, memory_bytes : int
        Compute and memory.
    leases : int
        Leases.
    host_cpu_milli, host_memory_bytes : int
        Cores and main memory beside shares.
    """

    compute_milli: int = 0
    memory_bytes: int = 0
    leases: int = 0
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0


class Bound(NamedTuple):
    """One limit, and how near it is.

    Attributes
    ----------
    group : str
        The group whose limit it is; empty for the owner's.
    what : str
        ``compute``, ``memory``, ``leases``, ``week``, ``cpus`` or ``memory_host``.
    kind : DeviceKind
        The kind of device (of those in `OF_ALL_KINDS`: any).
    limit, used : int
        In thousandths of devices, bytes, leases, thousandths of a device x milliseconds, or of a core.
    """

    group: str
    what: str
    kind: DeviceKind
    limit: int
    used: int

    @property
    def left(self) -> int:
        """What is left below the limit; never negative."""
        return max(0, self.limit - self.used)


def bounds(book: Book, owner: str, kind: DeviceKind, now_ms: int) -> Iterator[Bound]:
    """Yield every limit that an owner is under with one kind of device, the owner's own first."""
    for group, rules, line, held in book.lines_of(owner, kind):
        limits = rules.limits
        if (most := limits.compute_milli.of(kind)) is not None:
            yield Bound(group, "compute", kind, most, line.held_milli)
        if (most := limits.memory_bytes.of(kind)) is not None:
            yield Bound(group, "memory", kind, most, line.held_bytes)
        if limits.leases is not None:
            yield Bound(group, "leases", kind, limits.leases, held.leases)
        if (most := limits.week_milli_ms.of(kind)) is not None:
            yield Bound(group, "week", kind, most, book.week_of_line(line, now_ms))
        if limits.host_cpu_milli is not None:
            yield Bound(group, "cpus", kind, limits.host_cpu_milli, held.host_cpu_milli)
        if limits.host_memory_bytes is not None:
            yield Bound(group, "memory_host", kind, limits.host_memory_bytes, held.host_memory_bytes)


def _asked(bound: Bound, more: More) -> int:
    """Return how much of what a limit is about is to be added; of a week anything at all counts."""
    if bound.what == "week":
        return 1 if more.compute_milli > 0 else 0
    asked: int = getattr(more, _ASKED[bound.what])
    return asked


def exceeded(book: Book, owner: str, kind: DeviceKind, more: More, now_ms: int) -> Bound | None:
    """Return the first limit that would be exceeded; None when none would."""
    for bound in bounds(book, owner, kind, now_ms):
        asked = _asked(bound, more)
        if asked > 0 and bound.used + asked > bound.limit:
            return bound
    return None


def never(book: Book, owner: str, kind: DeviceKind, more: More, now_ms: int) -> Bound | None:
    """Return a limit that would be exceeded even if nothing else were held; None when there is none."""
    for bound in bounds(book, owner, kind, now_ms):
        if _asked(bound, more) > bound.limit:
            return bound
    return None


def check_grow(book: Book, owner: str, kind: DeviceKind, more: More, now_ms: int) -> None:
    """See that an owner may hold so much more now.

    Raises
    ------
    QuotaExceeded
        If a limit of the owner, or of a group above, would be exceeded.
    """
    bound = exceeded(book, owner, kind, more, now_ms)
    if bound is not None:
        raise refusal(bound, owner)


def more_of(want: Want, shares: tuple[Share, ...] = ()) -> More:
    """Return what a request would add: with shares that were chosen, else as far as it says itself."""
    memory = sum(share.memory_bytes for share in shares) or (want.memory_bytes or 0) * want.count
    return More(want.compute_milli * want.count, memory, 1, want.host_cpu_milli, want.host_memory_bytes)


def more_in_resize(lease: Lease, shares: tuple[Share, ...]) -> More:
    """Return what another size would add to a held lease; negative where it is smaller."""
    now = counted(lease)
    compute = shares[0].compute_milli * lease.want.count
    return More(compute - now.held_milli, sum(share.memory_bytes for share in shares) - now.held_bytes)


def more_in_move(lease: Lease, want: Want, shares: tuple[Share, ...]) -> More:
    """Return what a held lease would have in addition if it had these shares in place of its own."""
    now, after = counted(lease), more_of(want, shares)
    alike = want.kind is now.kind  # what is given up of one kind is no room for another
    return More(
        after.compute_milli - (now.held_milli if alike else 0),
        after.memory_bytes - (now.held_bytes if alike else 0),
        0,
        after.host_cpu_milli - now.host_cpu_milli,
        after.host_memory_bytes - now.host_memory_bytes,
    )


def check_priority(book: Book, owner: str, priority: Priority) -> None:
    """See that an owner may use a priority.

    Raises
    ------
    QuotaExceeded
        If not; the message names those that are allowed.
    """
    group, allowed = book.quotas.may_use(owner)
    if priority in allowed:
        return
    words = " and ".join(each.value for each in Priority if each in allowed) or "none at all"
    raise QuotaExceeded(
        f"Priority {priority.value} is not for {_who(group, owner)}: {_whose(group, owner)} allows {words}.",
        hint=f"Ask with a priority that is allowed; {_RAISE}.",
    )


def check_pin(book: Book, owner: str) -> None:
    """See that an owner may pin one more lease.

    Raises
    ------
    QuotaExceeded
        If not; the message says how many are pinned, and how many may be.
    """
    pinned = book.pins(owner)
    for group, rules in book.quotas.chain(owner):
        if rules.pins is not None and pinned >= rules.pins:
            raise QuotaExceeded(
                f"{_capital(_whose(group, owner))} allows {rules.pins} pinned leases for each owner, "
                f"and {pinned} are pinned.",
                hint=f"Unpin another lease first; {_RAISE}." if pinned else f"{_capital(_RAISE)}.",
            )


# --- trimming -----------------------------------------------------------------------------------


def trimmed(
    book: Book, owner: str, kind: DeviceKind, want: Want, now_ms: int, device_bytes: int | None = None
) -> Want:
    """Make a request as much smaller as the limits need: fewer devices first, then smaller shares.

    When nothing is left at the moment, only what could never be had is taken away, and it waits.

    Parameters
    ----------
    book, owner, kind, want, now_ms
        Who asks for what, and when.
    device_bytes : int or None
        Memory of the largest device that is meant: a request that names no memory gets its part of it.
    """
    found = list(bounds(book, owner, kind, now_ms))
    compute, memory = (_room([it for it in found if it.what == what]) for what in ("compute", "memory"))
    if want.memory_bytes is None and memory is not None and device_bytes:
        in_memory = memory * WHOLE_MILLI // device_bytes
        compute = in_memory if compute is None else min(compute, in_memory)
    if compute and want.compute_milli * want.count > compute:
        count, milli = _within(want.count, want.compute_milli, compute)
        want = replace(want, count=count, compute_milli=milli)
    if memory and want.memory_bytes is not None and want.memory_bytes * want.count > memory:
        count, size = _within(want.count, want.memory_bytes, memory)
        want = replace(want, count=count, memory_bytes=size)
    cores, host = (_room([it for it in found if it.what == what]) for what in ("cpus", "memory_host"))
    return replace(
        want,
        host_cpu_milli=min(want.host_cpu_milli, cores or want.host_cpu_milli),
        host_memory_bytes=min(want.host_memory_bytes, host or want.host_memory_bytes),
    )


def _room(found: list[Bound]) -> int | None:
    """Return what is left below some limits; where nothing is, the lowest of them; None without any."""
    if not found:
        return None
    return min(bound.left for bound in found) or min(bound.limit for bound in found)


def _within(count: int, size: int, room: int) -> tuple[int, int]:
    """Make ``count`` parts of a size fit into some room."""
    count = max(1, min(count, room // size))
    return count, min(size, room // count)


# --- words --------------------------------------------------------------------------------------


def refusal(bound: Bound, owner: str, *, alone: bool = False) -> QuotaExceeded:
    """Say which limit is in the way, whose it is, what is used, and what would fit (``alone``: at best)."""
    return QuotaExceeded(f"{_capital(describe_bound(bound, owner))}.", hint=_fits(bound, alone=alone))


def describe_bound(bound: Bound, owner: str) -> str:
    """Write "the quota of group “ml” allows 2 CUDA devices at once, and 1.5 are held"."""
    kind, whose = _KINDS[bound.kind], _whose(bound.group, owner)
    limit, used = _number(bound, bound.limit), _number(bound, bound.used)
    if bound.what == "compute":
        noun = "device" if bound.limit <= 1000 else "devices"
        of = "of a " if bound.limit < 1000 else ""
        return f"{whose} allows {limit} {of}{kind} {noun} at once, and {used} is held"
    if bound.what == "memory":
        return f"{whose} allows {limit} of {kind} memory at once, and {used} is held"
    if bound.what == "leases":
        noun, are = "lease" if bound.limit == 1 else "leases", "is" if bound.used == 1 else "are"
        return f"{whose} allows {limit} {noun} at once, and {used} {are} held"
    if bound.what == "cpus":
        noun = "core" if bound.limit == WHOLE_MILLI else "cores"
        return f"{whose} allows {limit} {noun} beside devices at once, and {used} is held"
    if bound.what == "memory_host":
        return f"{whose} allows {limit} of main memory beside devices at once, and {used} is held"
    return f"{whose} allows {limit} {kind} device-hours a week, and {used} are used"


def _fits(bound: Bound, *, alone: bool) -> str:
    if bound.what == "leases":
        return f"Release one first; {_RAISE}." if bound.limit else f"{_capital(_RAISE)}."
    if bound.what == "week":
        return f"It begins anew on Monday; {_RAISE}." if bound.limit else f"{_capital(_RAISE)}."
    left = bound.limit if alone else bound.left
    if left:
        return f"Ask for at most {_number(bound, left)}{_OF.get(bound.what, '')}; {_RAISE}."
    return f"Release something first; {_RAISE}." if bound.used else f"{_capital(_RAISE)}."


def _number(bound: Bound, number: int) -> str:
    if bound.what in ("compute", "cpus"):
        return format_compute(number)
    if bound.what in ("memory", "memory_host"):
        return format_memory(number)
    if bound.what == "week":
        return f"{number / DEVICE_HOUR:.1f}"
    return str(number)


def _whose(group: str, owner: str) -> str:
    return f"the quota of group “{group}”" if group else f"the quota of {owner}"


def _who(group: str, owner: str) -> str:
    return f"group “{group}”" if group else owner


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
