"""Which recipe is for which type.

Rules of this module: types of libraries are named, never imported; the answer for a type is looked up once.
"""

from __future__ import annotations

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
        Whether it is also for types derived from it (that have no recipe of their own).
    """

    module: str
    qualname: str
    reduce: Reducer
    subclasses: bool = False


class Registry:
    """Recipes by type.

    Parameters
    ----------
    recipes : iterable of Recipe
        In order: a later one for the same type replaces an earlier one.
    """

    def __init__(self, recipes: tuple[Recipe, ...] | list[Recipe] = ()) -> None:
        self._recipes = list(recipes)
        self._known: dict[type, Reducer | None] = {}
        self._modules = -1

    def add(self, recipe: Recipe) -> None:
        """Take one more in."""
        self._recipes.append(recipe)
        self._known.clear()

    def reducer(self, kind: type) -> Reducer | None:
        """Find the reducer for a type; None where it is saved in the usual way."""
        try:
            return self._known[kind]
        except KeyError:
            found = self._known[kind] = self._find(kind)
            return found

    def refresh(self) -> None:
        """Forget answers that may be others now that more modules are imported; once for each capture."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            self._known.clear()

    def _find(self, kind: type) -> Reducer | None:
        for base in kind.__mro__:
            for recipe in reversed(self._recipes):
                if (base is kind or recipe.subclasses) and self._is(base, recipe):
                    return recipe.reduce
        return None

    @staticmethod
    def _is(kind: type, recipe: Recipe) -> bool:
        found: Any = sys.modules.get(recipe.module)
        for part in recipe.qualname.split("."):
            found = getattr(found, part, None)
        return found is kind
