"""Sources of random numbers: the process's own stay those, others go on where they were.

Rule of this module: a source that a module shares with everybody is found again, never copied; its state is
put back with the process.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import attributes_of, named, new, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_LEGACY = "numpy.random.mtrand"


def _random(value: random.Random, capturing: Capturing) -> Reduced:
    if value is getattr(random, "_inst", None):
        return named, ("random", "_inst")
    attributes = attributes_of(value)
    state = None if isinstance(value, random.SystemRandom) else random.Random.getstate(value)
    return new, (type(value),), (state, attributes), None, None, fill_random


def fill_random(value: random.Random, parts: tuple[Any, dict[str, Any]]) -> None:
    """Give a source its state."""
    state, attributes = parts
    if state is not None:
        random.Random.setstate(value, state)
    set_attributes(value, attributes)


def _numpy(value: Any, capturing: Capturing) -> Reduced | None:
    shared = getattr(sys.modules.get(_LEGACY), "_rand", None)
    if value is shared:
        return named, (_LEGACY, "_rand")
    if value is getattr(shared, "_bit_generator", None):
        return named, (_LEGACY, "_rand._bit_generator")
    return None


RECIPES = (
    Recipe(module="random", qualname="Random", reduce=_random, subclasses=True),
    Recipe(module=_LEGACY, qualname="RandomState", reduce=_numpy),
    Recipe(module="numpy.random._mt19937", qualname="MT19937", reduce=_numpy),
)
