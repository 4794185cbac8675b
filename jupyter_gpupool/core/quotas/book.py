"""The book: how every owner and group stands, kept up to date lease by lease.

Rule of this module: it follows the ledger, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.policies.order import AGING_MS, Part, Standing
from jupyter_gpupool.core.quotas.counted import NOTHING, Counted, counted, counts_alike
from jupyter_gpupool.core.quotas.lines import Calendar, Line, Oldest, Reading
from jupyter_gpupool.core.quotas.model import Quotas, Rules
from jupyter_gpupool.core.quotas.usage import OwnerUsage
from jupyter_gpupool.core.quotas.water import Claim, Level
from jupyter_gpupool.core.quotas.weeks import Week

#: Standings are as of a moment that is at most so long ago, so that few are worked out anew, milliseconds.
STEP_MS = 5_000


#: How high the water stands where an owner is, below these groups.
Water = tuple[tuple[Part, ...], Level]


class Held(NamedTuple):
    """What is held of all kinds of devices together.

    Attributes
    ----------
    leases : int
        How many leases.
    host_cpu_milli, host_memory_bytes : int
        Cores and main memory beside their shares.
    """

    leases: int = 0
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0


class _Owner:
    """What is known of one owner."""

    __slots__ = ("groups", "held", "lines", "pins", "queued", "rules", "shown", "urgent")

    def __init__(self, rules: Rules, groups: tuple[str, ...]) -> None:
        self.rules = rules
        #: Groups, from the outermost.
        self.groups = groups
        self.lines: dict[DeviceKind, Line] = {}
        self.held = Held()
        self.pins = 0
        self.queued: dict[DeviceKind | None, Oldest] = {}
        self.urgent: dict[DeviceKind, Oldest] = {}
        #: The standing as it was last shown, after what else than the owner it depends on.
        self.shown: tuple[int, object, DeviceKind, Standing] | None = None


class Book:
    """How owners and groups stand.

    Parameters
    ----------
    quotas : Quotas
        The rules.
    half_life_ms : int
        After which half of the usage is forgotten.
    aging_ms : int
        After how long a request counts as aged.
    usage : iterable of OwnerUsage
        What was written down; the leases that were held then must be noted before the first `tick`.
    """

    def __init__(
        self,
        quotas: Quotas,
        *,
        half_life_ms: int,
        aging_ms: int = AGING_MS,
        usage: Iterable[OwnerUsage] = (),
    ) -> None:
        self.quotas = quotas
        self._aging_ms = aging_ms
        self._calendar = Calendar(quotas.time_zone, half_life_ms)
        self._now_ms = 0
        self._owners: dict[str, _Owner] = {}
        #: Lines of groups; that of the pool has an empty name.
        self._groups: dict[str, dict[DeviceKind, Line]] = {}
        self._group_held: dict[str, Held] = {}
        self._capacity: dict[DeviceKind, int] = {}
        self._known_waters: dict[tuple[str, ...], dict[DeviceKind, Water]] = {}
        for row in usage:
            week = Week(row.week_start_ms, row.week_start_ms)
            if row.week_start_ms:
                week = self._calendar.week(row.week_start_ms)
            read = Reading(row.used_milli_ms, row.attained_milli_ms, week, row.week_milli_ms)
            owner = self._owner(row.owner)
            owner.lines[row.kind] = Line(row.at_ms, read)
            for name in ("", *owner.groups):
                self._group(name, row.kind)

    # --- what happens ---------------------------------------------------------------------------

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Take over one moment in both times."""
        first = not self._calendar.known
        self._calendar.set(now_ms, wall_ms)
        self._now_ms = max(self._now_ms, now_ms)
        if first:
            self._add_up()

    def _add_up(self) -> None:
        """Begin to count for groups: the sum of what their owners have used this week."""
        this = self._calendar.week(self._calendar.wall_ms(self._now_ms) or 0)
        for name, lines in self._groups.items():
            for kind, group in lines.items():
                owners = [it for it in self._owners.values() if name in it.groups and kind in it.lines]
                used = sum(self.week_of_line(it.lines[kind], self._now_ms) for it in owners)
                group.read, group.at_ms = Reading(week=this, week_milli_ms=used), self._now_ms

    def capacity(self, milli: Mapping[DeviceKind, int]) -> None:
        """Take over how much compute the pool has of each kind, thousandths of devices."""
        self._capacity = dict(milli)

    def note(self, before: Lease | None, after: Lease | None) -> None:
        """Take over one change of one lease; None for one that is new, or has ended."""
        if before is not None and after is not None and counts_alike(before, after):
            return
        old, new = counted(before), counted(after)
        if old == new:
            return
        lease = after or before
        if lease is None:
            return
        owner = self._owner(lease.owner)
        owner.shown = None
        self._note_ages(owner, lease, old, new)
        owner.pins += new.pinned - old.pinned
        beside = (new.host_cpu_milli, new.host_memory_bytes) != (old.host_cpu_milli, old.host_memory_bytes)
        if beside or new.held is not old.held:
            self._hold(owner, old, new)
        if old.kind is not new.kind:
            # what waits for any kind is counted in no line, and must not be taken out of one
            if old.kind is not None:
                self._count(owner, old.kind, lease, old, NOTHING)
            old = NOTHING
        kind = new.kind or old.kind
        if kind is not None:
            self._count(owner, kind, lease, old, new)

    def _hold(self, owner: _Owner, old: Counted, new: Counted) -> None:
        """Count what is granted, or given back, whatever the kind of device."""
        more = (
            new.held - old.held,
            new.host_cpu_milli - old.host_cpu_milli,
            new.host_memory_bytes - old.host_memory_bytes,
        )
        owner.held = _plus(owner.held, more)
        for name in owner.groups:
            self._group_held[name] = _plus(self._group_held.get(name, Held()), more)

    def _note_ages(self, owner: _Owner, lease: Lease, old: Counted, new: Counted) -> None:
        if old.queued_milli:
            owner.queued[old.kind].drop(lease.id)
        if new.queued_milli:
            owner.queued.setdefault(new.kind, Oldest()).add(lease.requested_ms, lease.id)
        if (old.urgent, old.kind) != (new.urgent, new.kind):
            if old.urgent and old.kind is not None:
                owner.urgent[old.kind].drop(lease.id)
            if new.urgent and new.kind is not None:
                owner.urgent.setdefault(new.kind, Oldest()).add(lease.granted_ms or 0, lease.id)

    def _count(self, owner: _Owner, kind: DeviceKind, lease: Lease, old: Counted, new: Counted) -> None:
        line = owner.lines.get(kind)
        if line is None:
            line = owner.lines[kind] = Line(self._now_ms)
        lines = [line, *(self._group(name, kind) for name in reversed(owner.groups))]
        # before the first tick leases come from the journal, in the order of their grants
        now_ms = self._now_ms if self._calendar.known else lease.granted_ms or 0
        milli, memory = new.held_milli - old.held_milli, new.held_bytes - old.held_bytes
        for each in lines:
            if milli or memory:
                each.hold(milli, memory, now_ms, self._calendar)
            each.queued_milli += new.queued_milli - old.queued_milli
        self._claim(owner, kind, lines)

    def _claim(self, owner: _Owner, kind: DeviceKind, lines: list[Line]) -> None:
        """Pass on what an owner asks for, from group to group up to the pool."""
        rules = [owner.rules, *(self.quotas.by_name[name].rules for name in reversed(owner.groups))]
        above = [*lines[1:], self._group("", kind)]
        asked = lines[0].held_milli + lines[0].queued_milli
        for line, said, parent in zip(lines, rules, above, strict=True):
            most, deserved = said.limits.compute_milli.of(kind), said.deserved_milli.of(kind)
            if line is not lines[0]:
                asked = line.asked_below
                # a group of which nothing is said deserves what those in it do
                deserved = line.below.base if deserved is None else deserved
            asked = asked if most is None else min(most, asked)
            base = min(asked, deserved or 0)
            claim = Claim(base, asked - base, said.weight_milli) if asked else None
            was = line.claim
            if claim == was:
                return
            line.claim = claim
            parent.below.replace(was, claim)
            parent.asked_below += (asked if claim else 0) - (was.base + was.need if was else 0)

    def _owner(self, name: str) -> _Owner:
        owner = self._owners.get(name)
        if owner is None:
            groups = tuple(group for group, _ in self.quotas.chain(name)[:0:-1])
            owner = self._owners[name] = _Owner(self.quotas.rules_of(name), groups)
        return owner

    def _group(self, name: str, kind: DeviceKind) -> Line:
        lines = self._groups.setdefault(name, {})
        line = lines.get(kind)
        if line is None:
            line = lines[kind] = Line(self._now_ms)
        return line

    # --- what can be seen -----------------------------------------------------------------------

    @property
    def default_kind(self) -> DeviceKind:
        """The kind that standings are about where none is named: CUDA where there is any, else CPU."""
        return DeviceKind.CUDA if self._capacity.get(DeviceKind.CUDA) else DeviceKind.CPU

    def kinds(self, name: str) -> list[DeviceKind]:
        """List the kinds of devices that the pool has, or that an owner has had."""
        owner = self._owners.get(name)
        had = owner.lines if owner is not None else {}
        return [kind for kind in DeviceKind if self._capacity.get(kind) or kind in had]

    def of(self, owners: Iterable[str], now_ms: int) -> Mapping[str, Standing]:
        """Say how some owners stand at a pool time."""
        found = {}
        step, main = now_ms // STEP_MS, self.default_kind
        waters: dict[tuple[str, ...], dict[DeviceKind, Water]] = {}
        for name in owners:
            owner = self._owners.get(name)
            if owner is None:
                continue
            water = waters.get(owner.groups)
            if water is None:
                water = waters[owner.groups] = self._waters(owner.groups)
            shown = owner.shown
            if shown is None or shown[0] != step or shown[2] is not main:
                found[name] = standing = self._standing(owner, now_ms, water, main)
                owner.shown = (step, water, main, standing)
            elif shown[1] is water:
                found[name] = shown[3]
            else:
                found[name] = standing = self._at_other_level(owner, shown[3], now_ms, water, main)
                owner.shown = (step, water, main, standing)
        return found

    def _at_other_level(
        self,
        owner: _Owner,
        was: Standing,
        now_ms: int,
        water: Mapping[DeviceKind, Water],
        main: DeviceKind,
    ) -> Standing:
        """Return a standing of which only the part of the surplus may be another one."""
        if was.kinds or main not in owner.lines:
            return self._standing(owner, now_ms, water, main)
        claim, (above, level) = owner.lines[main].claim, water[main]
        fair = level.share(claim) if claim else 0
        if fair == was.fair_milli and above == was.above:
            return was
        held, deserved, _, used, attained, weight, _, oldest, urgent_ms, aging_ms, _ = was
        return Standing(held, deserved, fair, used, attained, weight, above, oldest, urgent_ms, aging_ms)

    def _waters(self, groups: tuple[str, ...]) -> dict[DeviceKind, Water]:
        """Share out from the pool down to some groups; the same object as long as the result is the same."""
        water = {kind: self._down(groups, kind) for kind in self._groups.get("", ())}
        known = self._known_waters.get(groups)
        if known != water:
            known = self._known_waters[groups] = water
        return known

    def _standing(
        self, owner: _Owner, now_ms: int, water: Mapping[DeviceKind, Water], main: DeviceKind
    ) -> Standing:
        kinds = {kind: self._of_kind(owner, kind, now_ms, water[kind]) for kind in owner.lines}
        standing = kinds.get(main)
        if standing is None:
            deserved = owner.rules.deserved_milli.of(main) or 0
            weight = owner.rules.weight_milli
            standing = Standing(deserved_milli=deserved, weight_milli=weight, aging_ms=self._aging_ms)
        unsettled = owner.queued.get(None)
        first = unsettled.first() if unsettled else None
        if first is not None:
            return standing._replace(oldest=first[1], kinds=kinds)
        return standing if len(kinds) == 1 and main in kinds else standing._replace(kinds=kinds)

    def _of_kind(self, owner: _Owner, kind: DeviceKind, now_ms: int, water: Water) -> Standing:
        line = owner.lines[kind]
        above, level = water
        # the moment follows from the line and the time alone, whoever asked before
        as_of_ms = max(line.at_ms, now_ms - now_ms % STEP_MS)
        used, attained = line.glance(as_of_ms, self._calendar)
        queued, urgent = owner.queued.get(kind), owner.urgent.get(kind)
        oldest, since = queued.first() if queued else None, urgent.first() if urgent else None
        return Standing(
            line.held_milli,
            owner.rules.deserved_milli.of(kind) or 0,
            level.share(line.claim) if line.claim else 0,
            used,
            attained,
            owner.rules.weight_milli,
            above,
            oldest[1] if oldest else "",
            max(0, as_of_ms - since[0]) if since else 0,
            self._aging_ms,
        )

    def _down(self, groups: tuple[str, ...], kind: DeviceKind) -> Water:
        """Share out one kind, from the pool down to some groups, from the outermost."""
        level = self._group("", kind).below.level(self._capacity.get(kind, 0))
        parts = []
        for name in groups:
            line = self._group(name, kind)
            fair = level.share(line.claim) if line.claim else 0
            said = self.quotas.by_name[name].rules.deserved_milli.of(kind)
            deserved = line.below.base if said is None else said
            parts.append(Part(line.held_milli, deserved, fair))
            level = line.below.level(fair)
        return tuple(parts), level

    def lines_of(self, name: str, kind: DeviceKind) -> Iterator[tuple[str, Rules, Line, Held]]:
        """Yield what counts for an owner: their own line, then those of their groups, innermost first.

        Each with the group's name (empty for the owner), the rules, the line, and what is held of all kinds.
        """
        owner = self._owner(name)
        line = owner.lines.get(kind)
        yield "", owner.rules, line if line is not None else Line(self._now_ms), owner.held
        for group in reversed(owner.groups):
            rules = self.quotas.by_name[group].rules
            yield group, rules, self._group(group, kind), self._group_held.get(group, Held())

    def read(self, line: Line, now_ms: int) -> Reading:
        """Return what a line has used up to now."""
        return line.look(now_ms, self._calendar)

    def week_of_line(self, line: Line, now_ms: int) -> int:
        """Return what a line has used this week, thousandths of a device x milliseconds."""
        read, wall_ms = line.look(now_ms, self._calendar), self._calendar.wall_ms(now_ms)
        return 0 if wall_ms is None or wall_ms >= read.week.end_ms else read.week_milli_ms

    def next_week_ms(self) -> int | None:
        """Return the pool time at which the next week begins; None where no week is limited."""
        return self._calendar.next_week_ms(self._now_ms) if self.quotas.limit_weeks else None

    def pins(self, name: str) -> int:
        """Return how many leases an owner has pinned."""
        return self._owner(name).pins

    def owner_lines(self) -> Iterator[tuple[str, DeviceKind, Line]]:
        """Yield every line of every owner."""
        for name, owner in self._owners.items():
            for kind, line in owner.lines.items():
                yield name, kind, line

    def group_lines(self) -> Iterator[tuple[str, DeviceKind, Line]]:
        """Yield every line of every group; that of the pool has an empty name."""
        for name, lines in self._groups.items():
            for kind, line in lines.items():
                yield name, kind, line

    def owner_counts(self) -> Iterator[tuple[str, tuple[Held, int]]]:
        """Yield what each owner holds of all kinds together, and how many leases are pinned."""
        for name, owner in self._owners.items():
            yield name, (owner.held, owner.pins)

    def group_counts(self) -> Iterator[tuple[str, Held]]:
        """Yield what is held in each group of all kinds together."""
        yield from self._group_held.items()

    def rows(self, owners: Iterable[str] | None = None) -> list[OwnerUsage]:
        """Return what must be written down of some owners (of all), as of the last change of each."""
        names = list(self._owners) if owners is None else [it for it in owners if it in self._owners]
        return [
            OwnerUsage(
                owner=name,
                kind=kind,
                at_ms=line.at_ms,
                used_milli_ms=line.read.used_milli_ms,
                attained_milli_ms=line.read.attained_milli_ms,
                week_start_ms=line.read.week.start_ms,
                week_milli_ms=line.read.week_milli_ms,
            )
            for name in names
            for kind, line in self._owners[name].lines.items()
        ]


def _plus(held: Held, more: tuple[int, int, int]) -> Held:
    return Held(*(one + other for one, other in zip(held, more, strict=True)))
