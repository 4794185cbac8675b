"""What a restore of some variables alone tears apart: what they shared with variables that stay as they are.

Rules of this module: only what can be changed in place is told of, and only where a restore of both would
have it shared again; the search is bounded, and runs no code of the values' classes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from jupyter_gpupool.state.graph import paths
from jupyter_gpupool.state.graph.naming import type_name_of
from jupyter_gpupool.state.model import Finding, FindingKind

#: Whether two names have one of these or two equal ones makes no difference, or it is found by its name.
_WITHOUT_IDENTITY = (int, float, complex, str, bytes, type(None), type, ModuleType)
#: What can be changed in place, and is nobody's but the user's.
_CONTAINERS = (list, dict, set, bytearray, deque)
_MOST_VALUES = 50_000
#: So many are told of.
_MOST_TOLD = 10


class _Met(NamedTuple):
    """A value, where it was met, and what it is the same by."""

    value: Any
    variable: str
    path: str
    key: object


def parted(values: Mapping[str, Any], only: Collection[str] | None, live: Mapping[str, Any]) -> list[Finding]:
    """Say what variables that are wanted shared with others, which stay what they are.

    Parameters
    ----------
    values : mapping of str to Any
        All variables as they were saved, made again.
    only : collection of str or None
        Those that are wanted; None for all.
    live : mapping of str to Any
        The namespace as it was until now: what it shares too is shared still.

    Returns
    -------
    list of Finding
        One for each shared thing, the outermost alone.
    """
    if only is None:
        return []
    outside: dict[object, _Met] = {}
    cut: list[str] = []
    for met in _walk({name: it for name, it in values.items() if name not in only}, cut):
        outside.setdefault(met.key, met)
    still = {met.key for met in _walk({name: it for name, it in live.items() if name in values}, cut)}
    inside = {name: values[name] for name in only if name in values}
    search = _walk(inside, cut, lambda it: it.key in outside and it.key not in still)
    torn = [met for met in search if met.key in outside and met.key not in still]
    found = [_finding(met, outside[met.key]) for met in torn[:_MOST_TOLD]]
    more = [f"{len(torn) - _MOST_TOLD:,} more of its parts were"] if len(torn) > _MOST_TOLD else []
    if cut:
        more.append(f"beyond the first {_MOST_VALUES:,} values nobody looked whether any were")
    return found + [_and(next(iter(inside), ""), what) for what in more]


def _and(variable: str, what: str) -> Finding:
    return Finding(
        kind=FindingKind.CHANGED,
        variable=variable,
        path=variable,
        type_name="",
        reason=f"{what} shared with variables that stay as they are here",
        hint="Restore all, if that matters.",
    )


def _finding(met: _Met, other: _Met) -> Finding:
    what = "it looked at the same memory as" if isinstance(met.key, tuple) else "it was the same object as"
    return Finding(
        kind=FindingKind.CHANGED,
        variable=met.variable,
        path=met.path,
        type_name=type_name_of(met.value),
        reason=f"{what} {other.path}, which stays as it is here",
        hint="Restore both, if that matters.",
    )


def _walk(
    variables: Mapping[str, Any], cut: list[str], stop: Callable[[_Met], bool] | None = None
) -> Iterator[_Met]:
    """Yield what can be shared among some variables, the outermost first; below what stops it, nothing.

    Where there are too many, the path to the first that was not looked at is added to ``cut``.
    """
    seen: dict[int, Any] = {}
    queue = deque((value, name, name) for name, value in variables.items())
    top = len(queue)
    while queue and len(seen) < _MOST_VALUES:
        value, variable, path = queue.popleft()
        top -= 1
        # never `isinstance`: it asks the value for its class, and a value may say anything then
        if id(value) in seen or issubclass(type(value), _WITHOUT_IDENTITY):
            continue
        seen[id(value)] = value
        mets = [_Met(value, variable, path, key) for key in _keys(value, at_top=top >= 0)]
        yield from mets
        if stop is None or not any(stop(met) for met in mets):
            queue.extend((child, variable, path + suffix) for suffix, child in paths.children(value))
    cut += [path for _, _, path in queue][:1]


def _keys(value: Any, *, at_top: bool) -> Iterator[object]:
    """Yield what a value is the same by: itself where it can be changed, and the memory that it looks at."""
    kind = type(value)
    if kind is FunctionType:
        return
    if at_top or issubclass(kind, _CONTAINERS) or kind.__module__ == "__main__":
        yield id(value)
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        base = value
        while type(base.base) is kind:
            base = base.base
        yield ("memory", base.__array_interface__["data"][0]) if base.nbytes else id(value)
    elif kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "untyped_storage"):
        try:
            pointer = value.untyped_storage().data_ptr()
        except (NotImplementedError, RuntimeError):  # sparse and fake ones have no memory of their own
            pointer = 0
        yield ("memory", pointer) if pointer else id(value)
