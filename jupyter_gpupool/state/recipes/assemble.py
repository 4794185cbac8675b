"""All recipes in one registry.

Rule of this module: this is the only place that knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.state.recipes import (
    archives,
    bars,
    chance,
    combinatorics,
    databases,
    devicearrays,
    exceptions,
    figures,
    files,
    hopeless,
    iterators,
    locks,
    logs,
    loops,
    queues,
    shared,
    small,
    stepping,
    temporary,
    threads,
    users,
    weakrefs,
)
from jupyter_gpupool.state.recipes.registry import Recipe, Registry

_OURS: tuple[tuple[Recipe, ...], ...] = (
    hopeless.RECIPES,
    archives.RECIPES,
    bars.RECIPES,
    chance.RECIPES,
    combinatorics.RECIPES,
    databases.RECIPES,
    devicearrays.RECIPES,
    exceptions.RECIPES,
    figures.RECIPES,
    files.RECIPES,
    iterators.RECIPES,
    locks.RECIPES,
    logs.RECIPES,
    loops.RECIPES,
    queues.RECIPES,
    shared.RECIPES,
    small.RECIPES,
    stepping.RECIPES,
    temporary.RECIPES,
    threads.RECIPES,
    weakrefs.RECIPES,
)


def registry(more: Iterable[Recipe] = ()) -> Registry:
    """Put all recipes into one registry.

    Parameters
    ----------
    more : iterable of Recipe
        Recipes of memory and code; those that users registered come last, and so count first.
    """
    return Registry([*(recipe for recipes in _OURS for recipe in recipes), *more, *users.recipes()])
