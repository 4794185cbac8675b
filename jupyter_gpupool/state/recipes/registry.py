"""Which recipe is for which type.

Rules of this module: types of libraries are named, never imported; the answer for a type is looked up once.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing

#: What a reducer returns, as `object.__reduce_ex__` does: a function of a module, its arguments, then
#: perhaps a state, list items, dict items, and a function that sets the state.
Reduced = tuple[Any, ...]
#: Takes a value apart; None where the usual way is right for this one.
Reducer = Callable[[Any, "Capturing"], Reduced | None]
#: A class that has one of these says itself how it is pickled.
_OWN_WAY = frozenset({"__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How values of one type are taken apart.

    Attributes
    ----------
    module, qualname : str
        The type by name: it counts once its module has been imported.
    reduce : Reducer
        Takes one apart.
    subclasses : bool
        Whether it is also for types derived from it, that have no recipe of their own and do not say
        themselves how they are pickled.
    regardless : bool
        With `subclasses`: also for those that say how they are pickled, because this recipe asks them.
    kind : type or None
        The type itself, where nothing names it (iterators of builtins).
    """

    module: str
    qualname: str
    reduce: Reducer
    subclasses: bool = False
    regardless: bool = False
    kind: type | None = None


def recipe_for(kind: type, reduce: Reducer) -> Recipe:
    """Make a recipe for a type at hand, of the standard library."""
    return Recipe(module=kind.__module__, qualname=kind.__qualname__, reduce=reduce, kind=kind)


class Registry:
    """Recipes by type.

    Parameters
    ----------
    recipes : iterable of Recipe
        In order: a later one for the same type replaces an earlier one.
    """

    def __init__(self, recipes: tuple[Recipe, ...] | list[Recipe] = ()) -> None:
        self._recipes = list(recipes)
        self._types: dict[type, Recipe] = {}
        self._known: dict[type, Reducer | None] = {}
        self._modules = -1

    def add(self, recipe: Recipe) -> None:
        """Take one more in."""
        self._recipes.append(recipe)
        self._modules = -1

    def reducer(self, kind: type) -> Reducer | None:
        """Find the reducer for a type; None where it is saved in the usual way."""
        try:
            return self._known[kind]
        except KeyError:
            found = self._known[kind] = self._find(kind)
            return found

    def refresh(self) -> None:
        """Look for the types of modules that are imported by now; once for each capture."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            self._known.clear()
            self._types = {kind: recipe for recipe in self._recipes if (kind := _reached(recipe)) is not None}

    def _find(self, kind: type) -> Reducer | None:
        if self._modules < 0:
            self.refresh()
        own_way = kind in copyreg.dispatch_table
        for base in kind.__mro__:
            recipe = self._types.get(base)
            if recipe is not None and (
                base is kind or (recipe.subclasses and (recipe.regardless or not own_way))
            ):
                return recipe.reduce
            own_way = own_way or base in copyreg.dispatch_table or not _OWN_WAY.isdisjoint(vars(base))
        return None


def _reached(recipe: Recipe) -> type | None:
    if recipe.kind is not None:
        return recipe.kind
    found: Any = sys.modules.get(recipe.module)
    for part in recipe.qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # a module's __getattr__ might import
    return found if isinstance(found, type) else None
