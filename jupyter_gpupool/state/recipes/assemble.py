"""All recipes in one registry.

Rule of this module: this is the only place that knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.state.recipes import (
    combinatorics,
    exceptions,
    files,
    hopeless,
    iterators,
    locks,
    logs,
    queues,
    stepping,
    weakrefs,
)
from jupyter_gpupool.state.recipes.registry import Recipe, Registry

_OURS: tuple[tuple[Recipe, ...], ...] = (
    hopeless.RECIPES,
    locks.RECIPES,
    queues.RECIPES,
    files.RECIPES,
    iterators.RECIPES,
    stepping.RECIPES,
    combinatorics.RECIPES,
    weakrefs.RECIPES,
    exceptions.RECIPES,
    logs.RECIPES,
)


def registry(more: Iterable[Recipe] = ()) -> Registry:
    """Put all recipes into one registry.

    Parameters
    ----------
    more : iterable of Recipe
        Recipes of memory and code, which stand before those of libraries' users.
    """
    return Registry([*(recipe for recipes in _OURS for recipe in recipes), *more])
