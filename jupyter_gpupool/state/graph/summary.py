"""A few words about a value, for lists.

Rule of this module: nothing is asked of a class that is not known to answer at once.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.kinds import is_a, is_one_of

_LONGEST = 60
_SIZED: tuple[tuple[type, str], ...] = (
    (list, "item"),
    (tuple, "item"),
    (dict, "key"),
    (set, "member"),
    (frozenset, "member"),
    (bytes, "byte"),
    (bytearray, "byte"),
)
_PRINTED = (bool, int, float, complex, type(None))


def summary_of(value: Any) -> str:
    """Describe a value in a few words."""
    kind = type(value)
    sized = next((what for one, what in _SIZED if one is kind), None)
    if sized is not None:
        return _counted(len(value), sized)
    if kind is str:
        return repr(value) if len(value) <= _LONGEST else _counted(len(value), "character")
    if is_one_of(kind, _PRINTED):
        return str(value)[:_LONGEST] if kind is not int or value.bit_length() < 200 else "a large number"
    if lost.is_lost(value):
        return lost.loss_of(value).reason
    if is_a(value, FunctionType | ModuleType):
        return str(value.__name__)
    try:
        return _shaped(value, kind)
    except Exception:  # some tensors have no sizes, and say so like this
        return ""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _shaped(value: Any, kind: type) -> str:
    """Describe an array, a tensor or a frame: libraries that answer at once."""
    module: Any = kind.__module__
    if not isinstance(module, str) or module.partition(".")[0] not in ("numpy", "torch", "pandas"):
        return ""
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return ""
    sizes = " x ".join(f"{size:,}" for size in shape) or "a single value"
    dtype = getattr(value, "dtype", None)
    return f"{str(dtype).removeprefix('torch.')}, {sizes}" if dtype is not None else sizes
