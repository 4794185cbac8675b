"""What an administrator says of owners and groups: weights, what they deserve, and what they may have.

Rules of this module: frozen values that contradict each other nowhere: groups form a tree under the pool, and
an owner is in one group at most. What is not said is not limited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import cached_property

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Priority

#: The weight of who is given none, thousandths.
NORMAL_WEIGHT = 1000


@dataclass(frozen=True, slots=True)
class Amount:
    """A number for each kind of device; None where nothing is said.

    Attributes
    ----------
    cuda, cpu : int or None
        The number for devices of that kind.
    """

    cuda: int | None = None
    cpu: int | None = None

    @classmethod
    def each(cls, number: int | None) -> Amount:
        """Say the same number of every kind."""
        return cls(number, number)

    def of(self, kind: DeviceKind) -> int | None:
        """Return what is said of a kind."""
        return self.cuda if kind is DeviceKind.CUDA else self.cpu


#: Nothing is said of any kind.
NOTHING = Amount()


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What may not be exceeded, by whoever it is said of; None for no limit.

    Attributes
    ----------
    compute_milli : Amount
        Compute held at once, thousandths of devices.
    memory_bytes : Amount
        Device memory held at once, bytes.
    leases : int or None
        Leases held at once, of all kinds together.
    week_milli_ms : Amount
        Compute used in a calendar week (Monday to Sunday in the time zone of the quotas), thousandths of a
        device x milliseconds.
    host_cpu_milli, host_memory_bytes : int or None
        Cores (thousandths) and main memory (bytes) held at once beside shares of other devices, of all kinds
        together; shares of CPUs count as compute.
    """

    compute_milli: Amount = NOTHING
    memory_bytes: Amount = NOTHING
    leases: int | None = None
    week_milli_ms: Amount = NOTHING
    host_cpu_milli: int | None = None
    host_memory_bytes: int | None = None


#: No limit at all.
UNLIMITED = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What is said of one group, or of one owner.

    Attributes
    ----------
    weight_milli : int
        Part of the surplus beside that of the others in the same group, thousandths of a normal weight.
    deserved_milli : Amount
        Compute that it gets before any surplus is shared out, and that is not taken from it.
    limits : Limits
        What it may not exceed.
    priorities : frozenset of Priority or None
        Priorities that it may use; None for those of the group above (all of them, for the pool).
    pins : int or None
        How many leases it may have pinned at once; None for no limit of its own.
    """

    weight_milli: int = NORMAL_WEIGHT
    deserved_milli: Amount = NOTHING
    limits: Limits = UNLIMITED
    priorities: frozenset[Priority] | None = None
    pins: int | None = None


#: What is said of whom nothing is said of.
DEFAULT = Rules()


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Owners, and groups of them, with rules for their sum.

    Attributes
    ----------
    name : str
        Unique among groups.
    parent : str
        Name of the group above; empty for the pool.
    rules : Rules
        For the sum over the group.
    each : Rules
        For each owner in the group who has no rules of their own.
    owners : frozenset of str
        Who is in it.
    """

    name: str
    parent: str = ""
    rules: Rules = DEFAULT
    each: Rules = DEFAULT
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The rules of a pool for all its owners; the default limits nothing, and all owners weigh the same.

    Attributes
    ----------
    each : Rules
        For each owner who is in no group and has no rules of their own.
    groups : tuple of Group
        The groups.
    owners : mapping of str to Rules
        Rules of single owners; they replace those for each owner of the group.
    time_zone : tzinfo
        Where weeks begin.

    Raises
    ------
    InvalidValue
        If groups do not form a tree, or an owner is in several.
    """

    each: Rules = DEFAULT
    groups: tuple[Group, ...] = ()
    owners: Mapping[str, Rules] = field(default_factory=dict)
    time_zone: tzinfo = UTC

    def __post_init__(self) -> None:
        """See that the groups form a tree."""
        if len(self.by_name) < len(self.groups) or "" in self.by_name:
            raise InvalidValue("Quotas have two groups of one name, or one without a name.")
        if len(self.group_of) < sum(len(group.owners) for group in self.groups):
            raise InvalidValue("Quotas have an owner who is in two groups.")
        for group in self.groups:
            if len(list(self.above(group.name))) > len(self.groups):
                raise InvalidValue(f"Quotas have group “{group.name}” inside itself.")

    @cached_property
    def by_name(self) -> Mapping[str, Group]:
        """Groups by name."""
        return {group.name: group for group in self.groups}

    @cached_property
    def group_of(self) -> Mapping[str, str]:
        """Names of groups by owner; whoever is missing is directly under the pool."""
        return {owner: group.name for group in self.groups for owner in group.owners}

    def placed(self, members: Mapping[str, str]) -> Quotas:
        """Return these rules with more owners in groups; who is in one by name stays there.

        Parameters
        ----------
        members : mapping of str to str
            Names of groups by owner; groups that are not there count for nothing.
        """
        more: dict[str, set[str]] = {}
        for owner, group in members.items():
            if owner not in self.group_of:
                more.setdefault(group, set()).add(owner)
        groups = (replace(it, owners=it.owners | more.get(it.name, frozenset())) for it in self.groups)
        return replace(self, groups=tuple(groups))

    @cached_property
    def say_nothing(self) -> bool:
        """True when these are the default: nothing can ever be refused because of them."""
        return self == Quotas(time_zone=self.time_zone)

    @cached_property
    def limit_weeks(self) -> bool:
        """True when somebody's hours in a week are limited."""
        groups = [rules for group in self.groups for rules in (group.rules, group.each)]
        return any(it.limits.week_milli_ms != NOTHING for it in (self.each, *groups, *self.owners.values()))

    def above(self, name: str) -> Iterator[Group]:
        """Yield a group and the groups above it, up to the pool (at most one more than there are groups)."""
        for _ in range(len(self.groups) + 1):
            if not name:
                return
            if name not in self.by_name:
                raise InvalidValue(f"Quotas have no group “{name}”.")
            yield self.by_name[name]
            name = self.by_name[name].parent

    def rules_of(self, owner: str) -> Rules:
        """Return the rules of one owner: their own, else those for each owner of the group."""
        own = self.owners.get(owner)
        if own is not None:
            return own
        group = self.by_name.get(self.group_of.get(owner, ""))
        return group.each if group is not None else self.each

    def chain(self, owner: str) -> tuple[tuple[str, Rules], ...]:
        """Return the rules that an owner is under: their own (with an empty name), then group by group up."""
        groups = self.above(self.group_of.get(owner, ""))
        return (("", self.rules_of(owner)), *((group.name, group.rules) for group in groups))

    def may_use(self, owner: str) -> tuple[str, frozenset[Priority]]:
        """Return which priorities an owner may use, and the name of the group that says so (empty: they)."""
        for name, rules in self.chain(owner):
            if rules.priorities is not None:
                return name, rules.priorities
        return "", frozenset(Priority)
