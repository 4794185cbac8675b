"""How values are taken apart that no recipe speaks of: as pickle does.

Rules of this module: what a class says of itself is asked for and may raise; the caller makes a marker of it.
Classes whose instances need nobody's code to be made again are left to the pickler itself.
"""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import fractions
import sys
import uuid
from types import ModuleType
from typing import Any

from jupyter_gpupool.state.graph import guard
from jupyter_gpupool.state.graph.code.modules import is_importable
from jupyter_gpupool.state.graph.known import is_named, named
from jupyter_gpupool.state.recipes.registry import Reduced

#: Types of the standard library that always can be taken apart and made again.
_TRUSTED = frozenset(
    {
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, complex, range, slice),
        collections.deque,
    }
)
#: What a class may say of how it is made again, changed or looked into.
_HOOKS = (
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__new__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
)
_OPTIONAL_HOOKS = (
    "__getnewargs__",
    "__getnewargs_ex__",
    "__setstate__",
    "__getattr__",
    "__slots__",
    "__class__",
)

#: How a class of Python says where its instances' attributes are; one may say something else.
_DICT = vars(type("_", (), {}))["__dict__"]


def is_trusted(kind: type) -> bool:
    """Tell whether instances of a class of the standard library always come back by themselves."""
    return kind in _TRUSTED


def is_plain_object(kind: type) -> bool:
    """Tell whether instances of a class are attributes in a dict, and no code of it runs to make them."""
    if (
        kind in copyreg.dispatch_table
        or kind.__itemsize__
        or not kind.__dictoffset__
        or kind.__base__ is None
    ):
        return False
    if any(hook in vars(base) for base in kind.__mro__[:-1] for hook in _OPTIONAL_HOOKS):
        return False
    if any(base.__flags__ & (1 << 9) == 0 for base in kind.__mro__[:-1]):  # a base of C
        return False
    if any(type(vars(base).get("__dict__", _DICT)) is not type(_DICT) for base in kind.__mro__[:-1]):
        return False
    return all(getattr(kind, hook, None) is getattr(object, hook, None) for hook in _HOOKS)


def take_apart(value: Any) -> Reduced:
    """Take a value apart as its class says."""
    own = copyreg.dispatch_table.get(type(value))
    reduced: Any = own(value) if own is not None else value.__reduce_ex__(5)
    if isinstance(reduced, str):
        module = getattr(value, "__module__", None) or _module_with(value, reduced)
        if not is_importable(module) or not is_named(value, module, reduced):
            raise TypeError(f"it is known only as {reduced}, which its module does not have")
        return named, (module, reduced)
    if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6 or not isinstance(reduced[1], tuple):
        raise TypeError("its class does not say how it is pickled")
    return reduced


def guarded(reduced: Reduced) -> Reduced:
    """Return the same with our guard around what is called when it is loaded."""
    function, arguments, state, items, pairs, setter = (*reduced, None, None, None, None)[:6]
    if state is None and items is None and pairs is None:
        return guard.make, (function, arguments)
    parts = (setter, state, None if items is None else list(items), None if pairs is None else list(pairs))
    return guard.make, (function, arguments), parts, None, None, guard.fill


def _module_with(value: Any, name: str) -> str | None:
    modules: list[Any] = list(sys.modules.copy().values())
    for module in modules:
        if isinstance(module, ModuleType) and vars(module).get(name) is value:
            return module.__name__
    return None


class Singletons:
    """Objects that modules have a name for, such as ``dataclasses.MISSING``: there is one in a process."""

    def __init__(self) -> None:
        self._names: dict[type, dict[int, tuple[str, str]]] = {}

    def of(self, kind: type) -> dict[int, tuple[str, str]]:
        """Return, for a class, the names of those of its instances that its module has a name for."""
        found = self._names.get(kind)
        if found is None:
            found = self._names[kind] = _instances(kind)
        return found


def _instances(kind: type) -> dict[int, tuple[str, str]]:
    of: Any = kind.__module__
    module = sys.modules.get(of) if isinstance(of, str) and of != "builtins" else None
    if module is None or not is_importable(of):
        return {}
    items = list(getattr(module, "__dict__", {}).items())
    return {id(item): (kind.__module__, name) for name, item in items if type(item) is kind}
