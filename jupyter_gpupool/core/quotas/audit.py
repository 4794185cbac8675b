"""The book checked against the leases that it follows: everything added up from scratch.

Rule of this module: it trusts no running sum, and changes nothing; only checks of invariants call it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.quotas.book import Book, Held
from jupyter_gpupool.core.quotas.counted import counted
from jupyter_gpupool.core.quotas.lines import Line


class _Sum(NamedTuple):
    """What a line must say: compute and memory that are held, compute that is waited for."""

    held_milli: int = 0
    held_bytes: int = 0
    queued_milli: int = 0


#: Whose line: ``owner`` or ``group``, the name, and the kind of device.
_Key = tuple[str, str, DeviceKind]


def contradiction(book: Book, leases: Iterable[Lease]) -> str:
    """Compare the book with the leases: say what does not add up; empty when all does."""
    live = list(leases)
    lines = {("owner", name, kind): line for name, kind, line in book.owner_lines()}
    lines |= {("group", name, kind): line for name, kind, line in book.group_lines() if name}
    sums = _sums(book, live)
    for key in sums.keys() | lines.keys():
        line, total = lines.get(key, _NO_LINE), sums.get(key, _Sum())
        booked = _Sum(line.held_milli, line.held_bytes, line.queued_milli)
        if booked != total:
            return f"the book has {booked} of {key[0]} {key[1]} ({key[2].value}), and it adds up to {total}"
    return _wrong_counts(book, live) or _wrong_claims(book)


#: What is asked of a line that there is not.
_NO_LINE = Line()


def _sums(book: Book, leases: Iterable[Lease]) -> dict[_Key, _Sum]:
    found: defaultdict[_Key, _Sum] = defaultdict(_Sum)
    for lease in leases:
        one = counted(lease)
        if one.kind is None:
            continue
        keys: list[_Key] = [("owner", lease.owner, one.kind)]
        keys += [("group", name, one.kind) for name, _ in book.quotas.chain(lease.owner)[1:]]
        for key in keys:
            was = found[key]
            found[key] = _Sum(
                was.held_milli + one.held_milli,
                was.held_bytes + one.held_bytes,
                was.queued_milli + one.queued_milli,
            )
    return found


def _wrong_counts(book: Book, leases: Iterable[Lease]) -> str:
    """Compare what is held and pinned by each owner, and held in each group, of all kinds together."""
    pinned: Counter[str] = Counter()
    held: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    in_group: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for lease in leases:
        one = counted(lease)
        pinned[lease.owner] += one.pinned
        groups = [in_group[name] for name, _ in book.quotas.chain(lease.owner)[1:]]
        for sums in (held[lease.owner], *groups):
            sums[0] += one.held
            sums[1] += one.host_cpu_milli
            sums[2] += one.host_memory_bytes
    for owner, booked in book.owner_counts():
        total = (Held(*held[owner]), pinned[owner])
        if booked != total:
            return f"the book has {booked} of {owner}, and it adds up to {total}"
    wrong = {name for name, total in book.group_counts() if total != Held(*in_group[name])}
    return f"what group {min(wrong)} holds of all kinds is counted wrong" if wrong else ""


def _wrong_claims(book: Book) -> str:
    """Compare what each group, and the pool, is asked for with what is claimed from it."""
    parents = {group.name: group.parent for group in book.quotas.groups}
    base: Counter[tuple[str, DeviceKind]] = Counter()
    asked: Counter[tuple[str, DeviceKind]] = Counter()
    claims = [(book.quotas.group_of.get(name, ""), kind, line) for name, kind, line in book.owner_lines()]
    claims += [(parents[name], kind, line) for name, kind, line in book.group_lines() if name]
    for above, kind, line in claims:
        if line.claim is not None:
            base[above, kind] += line.claim.base
            asked[above, kind] += line.claim.base + line.claim.need
    for name, kind, line in book.group_lines():
        if (line.below.base, line.asked_below) != (base[name, kind], asked[name, kind]):
            return f"the claims on {name or 'the pool'} ({kind.value}) do not add up"
    return ""
