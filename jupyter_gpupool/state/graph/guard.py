"""What stands between the stream and the code of a class: one object that fails costs itself.

Rules of this module: its two functions are in every stream, so their names and arguments never change;
running out of memory, and being stopped, end the restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_gpupool.state.errors import LostValue
from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.graph.naming import name_of, reason_of

#: A setter, a state, items of a list, and items of a dict: what `fill` is given.
Parts = tuple[Callable[[Any, Any], object] | None, Any, list[Any] | None, list[tuple[Any, Any]] | None]


def make(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make an object; a marker where that fails."""
    try:
        return function(*arguments)
    except MemoryError:
        raise
    except Exception as error:
        return current().lost(_what(function, arguments), because(error))


def fill(value: Any, parts: Parts) -> None:
    """Give an object what it consists of, as pickle does; what fails half-way becomes a marker."""
    if lost.is_lost(value):
        return
    setter, state, items, pairs = parts
    try:
        if items:
            _extend(value, items)
        if pairs:
            for key, item in pairs:
                value[key] = item
        if state is None:
            return
        if setter is not None:
            setter(value, state)
        else:
            set_state(value, state)
    except MemoryError:
        raise
    except Exception as error:
        current().broken(value, because(error))


def because(error: Exception) -> str:
    """Say in a clause why an object could not be made."""
    if isinstance(error, LostValue):
        return f"it needs something that is lost ({error})"
    return f"making it again failed: {reason_of(error)}"


def set_state(value: Any, state: Any) -> None:
    """Set a state the way that pickle does, past a ``__setattr__`` of the class."""
    own = getattr(type(value), "__setstate__", None)
    if own is not None:
        own(value, state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        value.__dict__.update(state)
    for name, item in (slots or {}).items():
        try:
            object.__setattr__(value, name, item)
        except TypeError:
            setattr(value, name, item)


def _extend(value: Any, items: list[Any]) -> None:
    extend = getattr(type(value), "extend", None)
    if extend is not None:
        extend(value, items)
        return
    for item in items:
        value.append(item)


def _what(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    if lost.is_lost(function):
        return lost.loss_of(function).type_name
    for found in (*arguments[:1], function):
        if isinstance(found, type):
            return lost.loss_of(found).type_name if lost.is_lost(found) else name_of(found)
    return str(getattr(function, "__qualname__", "object"))
