"""Owners of a workload by their names: who is in which group, and who pins.

Rule of this module: `*` stands for any letters of a name, so that nobody has to list a class that does not
exist; a pattern that means nobody is refused, because it would change nothing without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.quotas import Group, Quotas
from jupyter_gpupool.sim.workload import Workload

#: How many names are shown where none was meant.
_SHOWN = 5


def with_owners(quotas: Quotas, workload: Workload) -> Quotas:
    """Put owners of a workload into groups whose file names them with a `*`.

    Raises
    ------
    InvalidValue
        If a name with a `*` means nobody, or an owner would be in two groups.
    """
    if not any("*" in owner for group in quotas.groups for owner in group.owners):
        return quotas
    there = _owners(workload)
    return replace(quotas, groups=tuple(_with_owners(group, there) for group in quotas.groups))


def _with_owners(group: Group, there: tuple[str, ...]) -> Group:
    found: set[str] = set()
    for owner in group.owners:
        found.update(_meant(owner, there, f"Group “{group.name}”") if "*" in owner else (owner,))
    return replace(group, owners=frozenset(found))


def pinned(workload: Workload, names: str) -> Workload:
    """Let some owners pin every lease that they get.

    Parameters
    ----------
    workload : Workload
        Who comes.
    names : str
        Names of owners, separated by commas.

    Raises
    ------
    InvalidValue
        If a name means nobody.
    """
    there = _owners(workload)
    who: set[str] = set()
    for name in (it.strip() for it in names.split(",") if it.strip()):
        who.update(_meant(name, there, "--pinned"))
    if not who:
        return workload
    people = tuple(
        replace(it, visits=tuple(replace(visit, pinned=True) for visit in it.visits))
        if it.owner in who
        else it
        for it in workload.people
    )
    return replace(workload, people=people)


def _owners(workload: Workload) -> tuple[str, ...]:
    return tuple(dict.fromkeys(it.owner for it in workload.people))


def _meant(name: str, there: Iterable[str], whose: str) -> list[str]:
    found = [owner for owner in there if fnmatchcase(owner, name)]
    if not found:
        known = list(there)
        more = ", …" if len(known) > _SHOWN else ""
        raise InvalidValue(
            f"{whose} names “{name[:60]}”, and nobody in this workload is called that.",
            hint=f"There are: {', '.join(known[:_SHOWN])}{more}",
        )
    return found
