"""Filters of warnings.

Rules of this module: the list itself stays the same object, for modules hold on to it; no library is imported
because a filter is about its warnings.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

#: Where in a filter the kind of the warning stands.
_CATEGORY = 2


class _ByName(type):
    """A kind of warnings that is told by its names, because nobody has imported it yet."""

    names: tuple[str, str]

    def __subclasscheck__(cls, kind: type) -> bool:
        return any((base.__module__, base.__qualname__) == cls.names for base in kind.__mro__)


@functools.cache
def _standing_for(module: str, qualname: str) -> type:
    """Return what stands for a kind of warnings until that is imported; always the same one."""
    return _ByName(qualname.rpartition(".")[2], (Warning,), {"names": (module, qualname)})


def _named(category: Any) -> Any:
    """Return the names of a library's kind of warnings; any other as it is."""
    if isinstance(category, _ByName):
        return category.names
    module, qualname = getattr(category, "__module__", None), getattr(category, "__qualname__", None)
    top = module.partition(".")[0] if isinstance(module, str) else "__main__"
    if top == "__main__" or top in sys.stdlib_module_names:
        return category
    return (module, qualname) if known.is_named(category, module, qualname) else category


def _called(category: Any) -> Any:
    """Return the kind of warnings that has some names, or what stands for it."""
    if not isinstance(category, tuple):
        return category
    module, qualname = category
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # a module's __getattr__ might import
    return found if isinstance(found, type) else _standing_for(module, qualname)


def _with_category(filters: list[Any], change: Any) -> list[Any]:
    return [(*it[:_CATEGORY], change(it[_CATEGORY]), *it[_CATEGORY + 1 :]) for it in filters]


def _take(tell: Tell) -> list[Any]:
    return _with_category(list(warnings.filters), _named)


def _assign(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    with warnings.catch_warnings():
        pass  # makes Python forget what it has decided by the old ones


def _put(value: list[Any], tell: Tell) -> Undo:
    changes, before = Changes("warnings", tell), list(warnings.filters)
    whole = [one for one in value if not lost.is_lost(one) and not any(map(lost.is_lost, one))]
    wanted = _with_category(whole, _called)
    if wanted != before:
        changes.make("warnings.filters", lambda: _assign(wanted), lambda: _assign(before))
    return changes.undo


SECTION = Section(name="warnings", take=_take, put=_put)
