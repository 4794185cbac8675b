"""Ways of making values that several recipes use.

Rule of this module: what is made is blank first and filled then, so that values may reach each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.recipes.registry import Reduced


def new(kind: type) -> Any:
    """Make a blank instance."""
    made: Any = kind
    return made.__new__(made)


def set_attributes(value: Any, attributes: Mapping[str, Any]) -> None:
    """Give an instance its attributes, whatever its class makes of setting them."""
    own = getattr(value, "__dict__", None)
    for name, attribute in attributes.items():
        if own is not None and not hasattr(type(value), name):
            own[name] = attribute
        else:
            object.__setattr__(value, name, attribute)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return an instance's attributes: those of its dict, and those in slots of its classes."""
    found = dict(getattr(value, "__dict__", None) or {})
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{base.__name__.lstrip('_')}{slot}" if _is_private(slot) else slot
            if slot not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _is_private(slot: str) -> bool:
    return slot.startswith("__") and not slot.endswith("__")


def plain(value: Any, /, **changes: Any) -> Reduced:
    """Take an instance of a class written in Python apart, with some attributes replaced."""
    return new, (type(value),), {**attributes_of(value), **changes}, None, None, set_attributes


def extra(value: Any) -> dict[str, Any] | None:
    """Return what a class derived from one of the library added to an instance; None for nothing."""
    return dict(getattr(value, "__dict__", None) or {}) or None


def named(module: str, name: str) -> Any:
    """Find what a module calls by a name; the module has to be there already or is imported."""
    __import__(module)
    found = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def afterwards(work: Callable[[], None]) -> None:
    """Do something once a restore cannot fail any more, and holds nothing that the namespace does not."""
    loading.current().afterwards(work)


def said(kind: type) -> str:
    """Return a type as it is named to people."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
