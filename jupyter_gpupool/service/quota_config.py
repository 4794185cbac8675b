"""Quotas as an administrator writes them: a YAML file.

Rule of this module: everything is checked when the service starts, and an error says where it is, with file
and line. docs/scheduling.md explains the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from zoneinfo import ZoneInfo

from jupyter_gpupool.cluster.written import Placed, read_placed, read_placed_text
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.core.quotas import Amount, Group, Limits, Quotas, Rules
from jupyter_gpupool.core.shares import format_compute, format_memory, parse_memory

#: What a file may have.
_TOP = ("version", "time_zone", "each", "groups", "owners")
#: What the rules of a group or an owner may have.
_RULES = ("weight", "deserved", "limits", "priorities", "pins")
_GROUP = ("name", "parent", *_RULES, "each", "owners")
_OWNER = ("name", *_RULES)
_LIMITS = ("compute", "memory", "leases", "hours_per_week", "cpus", "memory_host")
_KINDS = tuple(kind.value for kind in DeviceKind)
#: Thousandths of a device x milliseconds in a device-hour.
_HOUR = 1000 * 3_600_000
_Reader = Callable[[Placed], int]
_Writer = Callable[[int], str]
#: The largest numbers that anybody means.
_MOST = Decimal(1_000_000)


class BadQuotas(GPUPoolError):
    """Raised when a file of quotas cannot be understood. The message says where, and what is possible."""

    code = "bad_quotas"


def read_quotas(path: Path) -> Quotas:
    """Read a file of quotas.

    Raises
    ------
    BadQuotas
        If it cannot be read or understood.
    """
    return _quotas(read_placed(path, BadQuotas))


def quotas_of(text: str, name: str) -> Quotas:
    """Read quotas as they stand in a file that is called so in errors.

    Raises
    ------
    BadQuotas
        If they cannot be understood.
    """
    return _quotas(read_placed_text(text, name, BadQuotas))


def _quotas(root: Placed | None) -> Quotas:
    if root is None:
        return Quotas()
    said = root.fields("a file of quotas", _TOP)
    if "version" in said and said["version"].value != "1":
        raise said["version"].wrong(f"“version” is “{said['version'].value}”; this version reads 1.")
    groups = tuple(_groups(said["groups"])) if "groups" in said else ()
    _check_owners(said.get("groups"))
    try:
        return Quotas(
            each=_rules(said["each"], _RULES) if "each" in said else Rules(),
            groups=groups,
            owners=dict(_owners(said["owners"])) if "owners" in said else {},
            time_zone=_zone(said["time_zone"]) if "time_zone" in said else ZoneInfo("UTC"),
        )
    except InvalidValue as error:
        raise root.wrong(error.message) from error


def _groups(listed: Placed) -> Iterator[Group]:
    names: dict[str, Placed] = {}
    for entry in listed.items("“groups”"):
        said = entry.fields("a group", _GROUP)
        name = _name(entry, said)
        if name in names:
            raise entry.wrong(f"there is a group “{name}” already, in {names[name].where}.")
        names[name] = entry
        owners = said["owners"].items("“owners”") if "owners" in said else ()
        yield Group(
            name=name,
            parent=_text(said["parent"], "parent") if "parent" in said else "",
            rules=_rules(entry, _GROUP),
            each=_rules(said["each"], _RULES) if "each" in said else Rules(),
            owners=frozenset(_text(owner, "owners") for owner in owners),
        )
    _check_parents(listed, names)


def _check_parents(listed: Placed, names: Mapping[str, Placed]) -> None:
    """See that the group above each group is there, and that none is above itself."""
    parents = {name: entry.value["parent"].value for name, entry in names.items() if "parent" in entry.value}
    for name, parent in parents.items():
        place = names[name].value["parent"]
        if parent not in names:
            raise place.wrong(f"there is no group “{parent}”; there are {', '.join(sorted(names))}.")
        seen, above = {name}, parent
        while above in parents and above not in seen:
            seen.add(above)
            above = parents[above]
        if above in seen:
            raise place.wrong(f"group “{name}” would be inside itself.")


def _check_owners(listed: Placed | None) -> None:
    """See that nobody is in two groups."""
    seen: dict[str, str] = {}
    for entry in listed.value if listed is not None else ():
        for owner in entry.value["owners"].value if "owners" in entry.value else ():
            if owner.value in seen:
                raise owner.wrong(f"“{owner.value}” is in a group already, in {seen[owner.value]}.")
            seen[owner.value] = owner.where


def _owners(listed: Placed) -> Iterator[tuple[str, Rules]]:
    names: dict[str, str] = {}
    for entry in listed.items("“owners”"):
        name = _name(entry, entry.fields("an owner", _OWNER))
        if name in names:
            raise entry.wrong(f"there are rules for “{name}” already, in {names[name]}.")
        names[name] = entry.where
        yield name, _rules(entry, _OWNER)


def _rules(entry: Placed, known: tuple[str, ...]) -> Rules:
    said = entry.fields("this", known)
    weight = _number(said["weight"], "weight", least=Decimal("0.001")) if "weight" in said else Decimal(1)
    return Rules(
        weight_milli=int(weight * 1000),
        deserved_milli=_amount(said.get("deserved"), "deserved", 1000),
        limits=_limits(said["limits"]) if "limits" in said else Limits(),
        priorities=_priorities(said["priorities"]) if "priorities" in said else None,
        pins=_whole(said["pins"], "pins") if "pins" in said else None,
    )


def _limits(entry: Placed) -> Limits:
    said = entry.fields("“limits”", _LIMITS)
    return Limits(
        compute_milli=_amount(said.get("compute"), "compute", 1000),
        memory_bytes=_by_kind(said.get("memory"), _memory),
        leases=_whole(said["leases"], "leases") if "leases" in said else None,
        week_milli_ms=_amount(said.get("hours_per_week"), "hours_per_week", _HOUR),
        host_cpu_milli=int(_number(said["cpus"], "cpus") * 1000) if "cpus" in said else None,
        host_memory_bytes=_memory(said["memory_host"]) if "memory_host" in said else None,
    )


def _priorities(entry: Placed) -> frozenset[Priority]:
    words = [each.value for each in Priority]
    found = set()
    for item in entry.items("“priorities”"):
        if item.value not in words:
            raise item.wrong(f"“{item.value}” is no priority; there are {', '.join(words)}.")
        found.add(Priority(item.value))
    return frozenset(found)


def _amount(item: Placed | None, name: str, unit: int) -> Amount:
    return _by_kind(item, lambda one: int(_number(one, name) * unit))


def _by_kind(item: Placed | None, read: _Reader) -> Amount:
    """Read one number for every kind of device, or one for each kind that is named."""
    if item is None:
        return Amount()
    if not isinstance(item.value, dict):
        return Amount.each(read(item))
    said = item.fields("this", _KINDS)
    return Amount(**{kind: read(said[kind]) for kind in said})


def _memory(item: Placed) -> int:
    try:
        return parse_memory(str(item.value))
    except InvalidValue as error:
        raise item.wrong(str(error)) from error


def _number(item: Placed, name: str, least: Decimal = Decimal(0)) -> Decimal:
    try:
        number = Decimal(str(item.value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not least <= number <= _MOST:
        raise item.wrong(f"“{name}” is “{item.value}”; it must be a number from {least} to {_MOST}.")
    return number


def _whole(item: Placed, name: str) -> int:
    number = _number(item, name)
    if number != int(number):
        raise item.wrong(f"“{name}” is “{item.value}”; it must be a whole number.")
    return int(number)


def _zone(item: Placed) -> ZoneInfo:
    try:
        return ZoneInfo(str(item.value))
    except (OSError, ValueError, KeyError) as error:  # whatever zoneinfo raises of names that are none
        what = f"there is no time zone “{item.value}” on this machine; write one as Europe/Berlin."
        raise item.wrong(what) from error


def _name(entry: Placed, said: Mapping[str, Placed]) -> str:
    if "name" not in said:
        raise entry.wrong("it has no “name”.")
    return _text(said["name"], "name")


def _text(item: Placed, name: str) -> str:
    if not isinstance(item.value, str) or not item.value.strip():
        raise item.wrong(f"“{name}” must be a name.")
    return item.value.strip()


# --- showing ------------------------------------------------------------------------------------


def describe_quotas(quotas: Quotas) -> Iterator[tuple[str, str]]:
    """Yield whose rules there are, and what they say, for a person."""
    if quotas.each != Rules():
        yield "each owner", describe_rules(quotas.each)
    for group in quotas.groups:
        above = f"in group {group.parent}; " if group.parent else ""
        owners = f"; owners: {', '.join(sorted(group.owners))}" if group.owners else ""
        yield f"group {group.name}", f"{above}{describe_rules(group.rules)}{owners}"
        if group.each != Rules():
            yield f"each owner in {group.name}", describe_rules(group.each)
    for owner, rules in quotas.owners.items():
        yield f"owner {owner}", describe_rules(rules)


def describe_rules(rules: Rules) -> str:
    """Write rules in one line."""
    limits = rules.limits
    parts = [
        f"weight {format_compute(rules.weight_milli)}",
        *_shown("deserves", rules.deserved_milli, format_compute),
        *_shown("at most", limits.compute_milli, format_compute),
        *_shown("memory at most", limits.memory_bytes, format_memory),
        *([f"at most {limits.leases} leases"] if limits.leases is not None else []),
        *_shown("hours a week at most", limits.week_milli_ms, lambda it: f"{it / _HOUR:g}"),
    ]
    if rules.priorities is not None:
        words = [each.value for each in Priority if each in rules.priorities]
        parts.append(f"priorities {' '.join(words) or 'none'}")
    if rules.pins is not None:
        parts.append(f"at most {rules.pins} pinned")
    return ", ".join(parts)


def _shown(what: str, amount: Amount, write: _Writer) -> Iterator[str]:
    if amount.cuda is not None and amount.cuda == amount.cpu:
        yield f"{what} {write(amount.cuda)}"
        return
    for kind in DeviceKind:
        number = amount.of(kind)
        if number is not None:
            yield f"{what} {write(number)} ({kind.value})"
