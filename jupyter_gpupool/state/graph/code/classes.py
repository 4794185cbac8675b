"""Classes that only the notebook has.

Rules of this module: a class is made bare first, without any hook of its bases or metaclass running, and gets
what it holds afterwards: its methods refer to it. What it holds is set as it was, not made again.
"""

from __future__ import annotations

import abc
import ctypes
import gc
from importlib import import_module
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Generic

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.code.functions import is_by_name
from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.graph.naming import reason_of
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_abc: Any = import_module("_abc")
#: What belongs to the class as it was made, and is made again with it.
_OF_ITSELF = frozenset(
    {"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "_abc_impl", "__slotnames__"}
)
#: What a class may have for its instances, and `type` has for itself: a proxy's ``__class__`` is a property.
_SAID_BY_TYPE = frozenset(
    {
        *("__class__", "__name__", "__mro__", "__base__", "__bases__", "__flags__", "__text_signature__"),
        *("__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__"),
    }
)


def _class(value: type, capturing: Capturing) -> Reduced | None:
    for single in (None, NotImplemented, ...):
        if value is type(single):
            return type, (single,)
    if is_by_name(value):
        return None
    if not value.__flags__ & (1 << 9):  # Py_TPFLAGS_HEAPTYPE: written in Python, or by type()
        return _unnamed(value, capturing)
    held = vars(value)
    metaclass = type(value)
    basics = {
        "__module__": held.get("__module__"),
        "__qualname__": value.__qualname__,
        "__doc__": value.__doc__,
    }
    if "__slots__" in held or _has_slots(value):
        basics["__slots__"] = _slots(value)
    if Generic in value.__bases__ and "__orig_bases__" in held:
        basics["__orig_bases__"] = held["__orig_bases__"]
    attributes = {name: item for name, item in held.items() if not _is_made_again(name, item)}
    registered = [entry() for entry in abc_registry(value)]
    state = (attributes, [entry for entry in registered if entry is not None])
    return make_class, (metaclass, value.__name__, value.__bases__, basics), state, None, None, fill_class


def _unnamed(value: type, capturing: Capturing) -> Reduced:
    """Find a class of C that its module does not call by its own name, by what refers to it."""
    import types

    for name, kind in vars(types).items():
        if kind is value:
            return getattr, (types, name)
    for name in ("dict_keys", "dict_values", "dict_items"):
        if value is type(getattr({}, name[5:])()):
            return type_of_view, (name[5:],)
    return capturing.lose(value, "it is a class of C that no module names")


def type_of_view(method: str) -> type:
    """Return the type of a dict's views."""
    return type(getattr({}, method)())


def _has_slots(value: type) -> bool:
    return any(isinstance(item, MemberDescriptorType) for item in vars(value).values())


def _slots(value: type) -> tuple[str, ...]:
    """Return the slots as they are to be declared: `__slots__` itself may be used up, or changed since."""
    declared = [name for name, item in vars(value).items() if _is_slot(value, item)]
    return (*declared, *(name for name in ("__dict__", "__weakref__") if name in vars(value)))


def _is_slot(value: type, item: Any) -> bool:
    return isinstance(item, MemberDescriptorType) and item.__objclass__ is value


def _is_made_again(name: str, item: Any) -> bool:
    return name in _OF_ITSELF or isinstance(item, MemberDescriptorType | GetSetDescriptorType)


def abc_registry(value: type) -> list[Any]:
    """Return weak references to classes that were registered with an abstract one."""
    if "_abc_impl" not in vars(value):
        return []
    found: set[Any] = _abc._get_dump(value)[0]
    return list(found)


def make_class(metaclass: type, name: str, bases: tuple[type, ...], basics: dict[str, Any]) -> Any:
    """Make a bare class; a marker that is a class where that fails."""
    try:
        for needed in (metaclass, *bases):
            if lost.is_lost(needed):
                reason = f"it is derived from {lost.loss_of(needed).type_name}, which is lost"
                return current().lost_class(name, reason)
        made = _bare(metaclass, name, bases, basics)
        if issubclass(metaclass, abc.ABCMeta):
            _abc._abc_init(made)
        return made
    except MemoryError:
        raise
    except Exception as error:
        return current().lost_class(name, f"making it again failed: {reason_of(error)}")


def _bare(metaclass: type, name: str, bases: tuple[type, ...], basics: dict[str, Any]) -> Any:
    """Make a class that none of its bases is told of."""
    told = next((base for base in _reached(bases) if "__init_subclass__" in vars(base)), None)
    if told is None:
        return type.__new__(metaclass, name, bases, basics)
    hook = vars(told)["__init_subclass__"]
    type.__setattr__(told, "__init_subclass__", classmethod(_hear_nothing))
    try:
        return type.__new__(metaclass, name, bases, basics)
    finally:
        type.__setattr__(told, "__init_subclass__", hook)


def _reached(bases: tuple[type, ...]) -> tuple[type, ...]:
    """Return the classes that a new one would look names up in, but for object."""
    if len(bases) == 1:
        return bases[0].__mro__[:-1]
    waiting = [list(base.__mro__[:-1]) for base in bases]
    order: list[type] = []
    while waiting := [rest for rest in waiting if rest]:
        heads = (rest[0] for rest in waiting)
        found = next((one for one in heads if not any(one in rest[1:] for rest in waiting)), waiting[0][0])
        order.append(found)
        waiting = [[one for one in rest if one is not found] for rest in waiting]
    return tuple(order)


def _hear_nothing(cls: type, /, **keywords: Any) -> None:
    """Stand for a hook while a class is made again."""


def fill_class(made: Any, state: tuple[dict[str, Any], list[type]]) -> None:
    """Give a class what it holds."""
    attributes, registered = state
    for name in [name for name in attributes if name in vars(made)]:
        type.__delattr__(made, name)  # so that all are in their order
    for name, item in attributes.items():
        if name in _SAID_BY_TYPE:
            _hold(made, name, item)
        else:
            type.__setattr__(made, name, item)
    if "_abc_impl" in vars(made):
        for kind in registered:
            if not lost.is_lost(kind):
                _abc._abc_register(made, kind)


def _hold(made: type, name: str, item: Any) -> None:
    """Put something into a class's own dict that `type` would take for a word about the class."""
    (own,) = (one for one in gc.get_referents(vars(made)) if type(one) is dict)
    own[name] = item
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(made))


def is_from_notebook(kind: type) -> bool:
    """Tell whether a class is saved by value."""
    return not is_by_name(kind)


RECIPES = (Recipe(module="builtins", qualname="type", reduce=_class, subclasses=True, regardless=True),)
