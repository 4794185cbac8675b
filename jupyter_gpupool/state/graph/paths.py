"""Where a value is: the way to it from a variable, as Python.

Rules of this module: it is looked for only when there is something to report; the search is bounded, and runs
no code of the values' classes.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.graph.naming import name_of, type_name_of
from jupyter_gpupool.state.graph.remarks import Remark
from jupyter_gpupool.state.kinds import is_a, is_one_of
from jupyter_gpupool.state.model import Finding

#: So many values are looked at for one report.
_MOST_VALUES = 300_000
#: So many children of one container are looked at.
_MOST_CHILDREN = 100_000
#: Reports of one kind for one variable that are told apart.
_MOST_ALIKE = 10
_LONGEST_KEY = 40
_ATOMS = (int, float, str, bytes, bool, type(None))
#: Keys that are told as Python writes them.
_WRITTEN = (str, int, float, bool, bytes, tuple)


def findings(remarks: list[Remark], variables: dict[str, Any], names: Collection[str]) -> list[Finding]:
    """Say where the values are that there is something to say of."""
    if not remarks:
        return []
    shown = _capped(remarks)
    found = find({id(remark.value): remark.value for remark, _ in shown}, variables, names)
    return [_finding(remark, more, found.get(id(remark.value))) for remark, more in shown]


def _capped(remarks: list[Remark]) -> list[tuple[Remark, int]]:
    """Keep some of those that say the same of one variable, the last with how many more there are."""
    groups: dict[tuple[Any, ...], list[Remark]] = {}
    for remark in remarks:
        key = (remark.variable, id(type(remark.value)), remark.kind, remark.reason)
        groups.setdefault(key, []).append(remark)
    return [
        (remark, len(group) - _MOST_ALIKE if number == _MOST_ALIKE - 1 else 0)
        for group in groups.values()
        for number, remark in enumerate(group[:_MOST_ALIKE])
    ]


def _finding(remark: Remark, more: int, place: tuple[str, str] | None) -> Finding:
    variable, path = place if place is not None else (remark.variable, remark.variable)
    is_marker = lost.is_lost(remark.value)
    said = lost.loss_of(remark.value).type_name if is_marker else type_name_of(remark.value)
    reason = f"{remark.reason} (and {more:,} more like it)" if more > 0 else remark.reason
    return Finding(
        kind=remark.kind, variable=variable, path=path, type_name=said, reason=reason, hint=remark.hint
    )


def find(
    wanted: dict[int, Any], variables: dict[str, Any], names: Collection[str]
) -> dict[int, tuple[str, str]]:
    """Find the shortest way to some values.

    Returns
    -------
    dict of int to (str, str)
        For the ids of those that were found: the variable, and the path from it.
    """
    found: dict[int, tuple[str, str]] = {}
    seen: dict[int, Any] = {id(variables): variables}
    queue: deque[tuple[Any, str, str]] = deque()
    for name in names:
        if name in variables:
            _meet(variables[name], name, name, wanted, found, seen, queue)
    while queue and len(found) < len(wanted) and len(seen) < _MOST_VALUES:
        value, variable, path = queue.popleft()
        for suffix, child in children(value):
            _meet(child, variable, _joined(path, suffix), wanted, found, seen, queue)
    return found


def _meet(
    value: Any,
    variable: str,
    path: str,
    wanted: dict[int, Any],
    found: dict[int, tuple[str, str]],
    seen: dict[int, Any],
    queue: deque[tuple[Any, str, str]],
) -> None:
    if id(value) in seen or is_one_of(type(value), _ATOMS):
        return
    seen[id(value)] = value
    if id(value) in wanted:
        found[id(value)] = (variable, path)
    if not is_a(value, ModuleType):
        queue.append((value, variable, path))


def _joined(path: str, suffix: str) -> str:
    return path + suffix if suffix else path


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, with how Python writes the way there."""
    kind = type(value)
    if lost.is_lost(value):
        return
    if kind is dict:
        for key, item in list(value.items())[:_MOST_CHILDREN]:
            yield f"[{_key(key)}]", item
            yield " (a key)", key
    elif kind is list or kind is tuple:
        for number, item in enumerate(value[:_MOST_CHILDREN]):
            yield f"[{number}]", item
    elif kind is FunctionType:
        yield from _of_function(value)
    elif kind is CellType:
        yield from (("", item) for item in gc.get_referents(value))
    else:
        yield from _of_instance(value)


def _key(key: Any) -> str:
    written = repr(key) if is_one_of(type(key), _WRITTEN) else f"<{name_of(type(key))}>"
    return written if len(written) <= _LONGEST_KEY else f"{written[:_LONGEST_KEY]}…"


def _of_function(value: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
        for item in gc.get_referents(cell):
            yield f".<closure {name}>", item
    for number, item in enumerate(value.__defaults__ or ()):
        yield f".__defaults__[{number}]", item
    for name, item in (value.__kwdefaults__ or {}).items():
        yield f".__kwdefaults__[{name!r}]", item
    for name, item in value.__dict__.items():
        yield f".{name}", item


def _of_instance(value: Any) -> Iterator[tuple[str, Any]]:
    own = _dict_of(value)
    if own is not None:
        for name, item in list(own.items()):
            yield f".{name}", item
    for child in gc.get_referents(value):
        if child is not own and not is_a(child, type):
            yield f".<in {name_of(type(value))}>", child


def _dict_of(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    if is_a(value, type):
        found = dict(found)
    return found if isinstance(found, dict) else None
