"""What stands around functions: descriptors, caches, proxies of dicts, type variables.

Rule of this module: what was counted or cached may be begun anew, and is then reported as rebuilt.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import gc
import types
import typing
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.code.functions import is_by_name
from jupyter_gpupool.state.graph.code.modules import is_importable
from jupyter_gpupool.state.graph.known import is_named
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

_UNSET = object()


def _property(value: property, capturing: Capturing) -> Reduced:
    arguments = (value.fget, value.fset, value.fdel, value.__doc__)
    extra = {**getattr(value, "__dict__", {})}
    name = getattr(value, "__name__", None) if hasattr(property, "__name__") else None
    if name is not None and name != getattr(value.fget, "__name__", None):
        extra["__name__"] = name
    return (type(value), arguments, extra, None, None, set_all) if extra else (type(value), arguments)


def _around(value: Any, capturing: Capturing) -> Reduced:
    """Take a staticmethod or classmethod apart."""
    return type(value), (value.__func__,), {**vars(value)}, None, None, set_dict_only


def _cached(value: Any, capturing: Capturing) -> Reduced | None:
    if is_by_name(value):
        return None
    if value.cache_info().currsize:
        capturing.note(value, FindingKind.REBUILT, "its cache is empty, and fills again when it is called")
    parameters = value.cache_parameters()
    wrapped = value.__wrapped__
    return (
        make_cached,
        (wrapped, parameters["maxsize"], parameters["typed"]),
        {**vars(value)},
        None,
        None,
        set_dict,
    )


def make_cached(wrapped: Any, maxsize: int | None, typed: bool) -> Any:
    """Put an empty cache around a function."""
    return functools.lru_cache(maxsize, typed)(wrapped)


def set_dict(value: Any, attributes: dict[str, Any]) -> None:
    """Give an object its attributes."""
    value.__dict__.update(attributes)


def set_dict_only(value: Any, attributes: dict[str, Any]) -> None:
    """Give an object these attributes, and no others."""
    value.__dict__.clear()
    value.__dict__.update(attributes)


def set_all(value: Any, attributes: dict[str, Any]) -> None:
    """Give an object its attributes, one by one."""
    for name, attribute in attributes.items():
        setattr(value, name, attribute)


def _proxy(value: Any, capturing: Capturing) -> Reduced:
    below = gc.get_referents(value)[0]
    for kind in gc.get_referrers(below) if isinstance(below, dict) else ():
        if (
            isinstance(kind, type)
            and type.__getattribute__(kind, "__dict__") == value
            and _is_of(kind, below)
        ):
            return vars, (kind,)
    return types.MappingProxyType, (below,)


def _is_of(kind: type, below: Any) -> bool:
    return gc.get_referents(vars(kind))[0] is below


def _member(value: enum.Enum, capturing: Capturing) -> Reduced | None:
    kind = type(value)
    if is_by_name(kind):
        return None
    base = getattr(kind, "_member_type_", object)
    reduced: Any = object.__reduce_ex__(value, 4)
    state = reduced[2] if len(reduced) > 2 else None
    return make_member, (base, kind, *reduced[1][1:]), state, None, None, set_dict


def make_member(base: Any, kind: type, *arguments: Any) -> Any:
    """Make a member of an enum, past the look-up of members by value."""
    return base.__new__(kind, *arguments)


def _is_by(value: Any, module: object, name: object) -> bool:
    """Tell whether a process that imports a module finds a value there by its name."""
    return is_importable(module) and is_named(value, module, name)


def _type_variable(value: Any, capturing: Capturing) -> Reduced | None:
    if _is_by(value, value.__module__, value.__name__):
        return None
    keywords = {
        "bound": value.__bound__,
        "covariant": value.__covariant__,
        "contravariant": value.__contravariant__,
    }
    if getattr(value, "__infer_variance__", False):
        keywords = {"bound": value.__bound__, "infer_variance": True}
    elif not (value.__covariant__ or value.__contravariant__):
        keywords = {"bound": value.__bound__}
    constraints = getattr(value, "__constraints__", ())
    return make_variable, (type(value), value.__name__, constraints, keywords, value.__module__)


def make_variable(
    kind: Any, name: str, constraints: tuple[Any, ...], keywords: dict[str, Any], module: str
) -> Any:
    """Make a type variable that is like one that was there."""
    made = kind(name, *constraints, **{key: item for key, item in keywords.items() if item is not None})
    made.__module__ = module
    return made


def _many_types(value: Any, capturing: Capturing) -> Reduced | None:
    if _is_by(value, value.__module__, value.__name__):
        return None
    return make_variable, (type(value), value.__name__, (), {}, value.__module__)


def _new_type(value: Any, capturing: Capturing) -> Reduced | None:
    if _is_by(value, value.__module__, value.__qualname__):
        return None
    return typing.NewType, (value.__name__, value.__supertype__), {**vars(value)}, None, None, set_dict


def _alias(value: Any, capturing: Capturing) -> Reduced | None:
    if _is_by(value, value.__module__, value.__name__):
        return None
    return make_alias, (type(value), value.__name__, value.__value__, value.__type_params__)


def make_alias(kind: Any, name: str, value: Any, parameters: tuple[Any, ...]) -> Any:
    """Make what ``type NAME = …`` makes."""
    return kind(name, value, type_params=parameters)


def _context_variable(value: contextvars.ContextVar[Any], capturing: Capturing) -> Reduced:
    default = _UNSET
    empty = contextvars.Context()
    with contextlib.suppress(LookupError):
        default = empty.run(value.get)
    arguments = (value.name,) if default is _UNSET else (value.name, default)
    now = value.get(_UNSET)
    if now is _UNSET or now is default:
        return make_context_variable, arguments
    return make_context_variable, arguments, (now,), None, None, set_context_variable


def make_context_variable(name: str, *default: Any) -> contextvars.ContextVar[Any]:
    """Make a context variable."""
    return contextvars.ContextVar(name, default=default[0]) if default else contextvars.ContextVar(name)


def set_context_variable(variable: contextvars.ContextVar[Any], now: tuple[Any]) -> None:
    """Set what it was in the context that was saved."""
    variable.set(now[0])


def _token(value: Any, capturing: Capturing) -> Reduced:
    reason = "a token of a context variable counts in the context that made it only"
    return capturing.lose(value, reason, "Set the variable again where it has to be reset.")


def _singledispatch_method(value: Any, capturing: Capturing) -> Reduced:
    return make_bare, (type(value),), {**vars(value)}, None, None, set_dict


def _cached_property(value: Any, capturing: Capturing) -> Reduced:
    attributes = {name: item for name, item in vars(value).items() if name != "lock"}
    return make_cached_property, (type(value), value.func), attributes, None, None, set_dict


def make_cached_property(kind: Any, function: Any) -> Any:
    """Make one with a lock of its own, where this Python has locks there."""
    return kind(function)


def make_bare(kind: type) -> Any:
    """Make an object without its constructor."""
    return object.__new__(kind)


RECIPES = (
    Recipe(module="builtins", qualname="property", reduce=_property, subclasses=True),
    Recipe(module="builtins", qualname="staticmethod", reduce=_around, subclasses=True),
    Recipe(module="builtins", qualname="classmethod", reduce=_around, subclasses=True),
    recipe_for(type(functools.lru_cache(len)), _cached),
    recipe_for(types.MappingProxyType, _proxy),
    Recipe(module="enum", qualname="Enum", reduce=_member, subclasses=True, regardless=True),
    Recipe(module="typing", qualname="TypeVar", reduce=_type_variable),
    Recipe(module="typing", qualname="ParamSpec", reduce=_type_variable),
    Recipe(module="typing", qualname="TypeVarTuple", reduce=_many_types),
    Recipe(module="typing", qualname="NewType", reduce=_new_type),
    Recipe(module="typing", qualname="TypeAliasType", reduce=_alias),
    recipe_for(contextvars.ContextVar, _context_variable),
    recipe_for(contextvars.Token, _token),
    Recipe(module="functools", qualname="singledispatchmethod", reduce=_singledispatch_method),
    Recipe(module="functools", qualname="cached_property", reduce=_cached_property, subclasses=True),
)
