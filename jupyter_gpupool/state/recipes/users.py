"""Recipes of other people: registered by hand, or by packages through an entry point.

Rules of this module: a fault in somebody's recipe costs the value that it was for; a package is asked for its
recipes only once it is in use.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import said
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

#: Packages name here, under the name of their top module, a function that registers their recipes.
GROUP = "jupyter_gpupool.state"

Save = Callable[[Any], Any]
Load = Callable[[Any], Any]

_registered: dict[tuple[type, bool], Recipe] = {}
_asked: set[str] = set()


def register(kind: type[Any], save: Save, load: Load, *, subclasses: bool = False) -> None:
    """Say how values of a type are saved and made again.

    Parameters
    ----------
    kind : type
        The type.
    save : callable
        Takes a value and returns what to save in place of it: anything that can be saved itself.
    load : callable
        Takes that and returns the value. It is saved too: by name if a module has it, else by what it is.
    subclasses : bool, optional
        Whether it is also for types derived from this one, that do not say themselves how they are pickled.

    Raises
    ------
    TypeError
        When these are not a type and two functions.

    Examples
    --------
    >>> register(Connection, lambda one: one.address, Connection)  # doctest: +SKIP
    """
    right: Any = (isinstance(kind, type), callable(save), callable(load))
    if not all(right):
        raise TypeError("register() takes a type, a function that saves, and a function that loads.")
    _registered[kind, subclasses] = Recipe(
        module=kind.__module__,
        qualname=kind.__qualname__,
        reduce=_reducer(save, load),
        subclasses=subclasses,
        kind=kind,
    )


def unregister(kind: type) -> None:
    """Forget what was said of a type."""
    for subclasses in (False, True):
        _registered.pop((kind, subclasses), None)


def _reducer(save: Save, load: Load) -> Callable[[Any, Capturing], Reduced]:
    def reduce(value: Any, capturing: Capturing) -> Reduced:
        try:
            state = save(value)
        except MemoryError:
            raise
        except Exception as error:
            reason = f"its recipe failed: {type(error).__name__}: {error}"
            return capturing.lose(
                value, reason, f"Mend the recipe that was registered for {said(type(value))}."
            )
        return load, (state,)

    return reduce


def recipes() -> list[Recipe]:
    """Return the recipes of packages that are in use, then those that were registered by hand."""
    for point in _points(tuple(sys.path)):
        if point.name in sys.modules and point.name not in _asked:
            _asked.add(point.name)
            _ask(point)
    return list(_registered.values())


@lru_cache(maxsize=1)
def _points(path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    """Look for the entry points of the packages on a path, reading only files that speak of the group."""
    return tuple(
        point
        for entry in path
        for file in sorted(Path(entry or ".").glob("*-info/entry_points.txt"))
        if GROUP in file.read_text("utf-8", "replace")
        for point in metadata.PathDistribution(file.parent).entry_points.select(group=GROUP)
    )


def _ask(point: metadata.EntryPoint) -> None:
    try:
        point.load()()
    except Exception as error:
        logging.getLogger(__name__).warning(
            "The recipes of %s cannot be used (%s: %s); its values are saved in the usual way.",
            point.value,
            type(error).__name__,
            error,
        )
