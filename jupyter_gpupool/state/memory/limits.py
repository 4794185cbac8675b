"""Small things of numpy and torch that say something of a type of numbers, or walk through an array.

Rule of this module: what is a constant of a type is asked for again, never copied.
"""

from __future__ import annotations

import gc
import operator
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

#: A walk that has come further cannot be set there in reasonable time: numpy has no way but step by step.
_MOST_STEPS = 10_000_000


def reduce_limits(limits: Any, capturing: Capturing) -> Reduced:
    """Take the limits of a type of numbers apart."""
    kind = type(limits)
    if kind.__module__ == "torch":
        return make_torch_limits, (kind, str(limits.dtype))
    return kind, (limits.dtype,)


def make_torch_limits(kind: Any, dtype: str) -> Any:
    """Make the limits of a type of torch's numbers."""
    import torch

    return kind(getattr(torch, dtype))


def reduce_walk(walk: Any, capturing: Capturing) -> Reduced:
    """Take a walk through an array (`ndarray.flat`) apart: the array, and how far it has come."""
    if walk.index > _MOST_STEPS:
        return capturing.lose(walk, "it has walked too far through its array", "Begin a new one: array.flat.")
    return make_walk, (walk.base, walk.index)


def make_walk(array: Any, index: int) -> Any:
    """Make a walk through an array that has come as far."""
    walk = array.flat
    for _ in range(index):
        next(walk)
    return walk


def reduce_function(function: Any, capturing: Capturing) -> Reduced | None:
    """Take a function of numpy apart that was made from one of Python; None for those that have a name."""
    inner = gc.get_referents(function)[0]
    if not isinstance(inner, types.FunctionType | types.BuiltinFunctionType | type | types.MethodType):
        return None
    return make_function, (inner, function.nin, function.nout)


def make_function(inner: Any, arguments: int, results: int) -> Any:
    """Make a function of numpy from one of Python."""
    import numpy as np

    return np.frompyfunc(inner, arguments, results)


def reduce_bag(bag: Any, capturing: Capturing) -> Reduced:
    """Take apart what gives the arrays of a file by attributes: it only knows the file."""
    proxy = object.__getattribute__(bag, "_obj")
    return type(bag), (operator.attrgetter("__enter__.__self__")(proxy),)
