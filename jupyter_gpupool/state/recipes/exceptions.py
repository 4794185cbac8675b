"""Exceptions: with their cause, context and notes, and without the frames that they came from.

Rule of this module: an exception is made without the code of its class being asked, for its `__init__` need
not take what ended up in its args.
"""

from __future__ import annotations

import types
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_CHAIN = ("__cause__", "__context__", "__suppress_context__")


def _exception(value: BaseException, capturing: Capturing) -> Reduced:
    if value.__traceback__ is not None:
        reason = "its traceback is not kept: it refers to frames that are gone after a restore"
        capturing.note(value, FindingKind.CHANGED, reason)
    chain = {name: found for name in _CHAIN if (found := getattr(value, name)) is not None}
    if _says_itself(type(value)):
        usual: Any = value.__reduce_ex__(5)
        made, args, *rest = usual
        state = {"chain": chain, "own": rest[0] if rest else None}
        return made, args, state, None, None, fill_own
    attributes = dict(vars(value))
    members = {
        name: found for name in _members(type(value)) if (found := getattr(value, name, None)) is not None
    }
    state = {"args": value.args, "attributes": attributes, "members": members, "chain": chain}
    return make_exception, (type(value), _builtin(type(value)), _for_making(value)), state, None, None, fill


def _for_making(value: BaseException) -> tuple[Any, ...]:
    """Return args for making it: a group needs its members, others are given theirs with the state."""
    if isinstance(value, BaseExceptionGroup):
        return (value.message, list(value.exceptions))
    if isinstance(value, UnicodeError):
        return value.args
    return ()


def _builtin(kind: type) -> type:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and not _is_python(base))


def _is_python(kind: type) -> bool:
    return bool(kind.__flags__ & (1 << 9))  # made at run time: a class statement


def _says_itself(kind: type) -> bool:
    return any(
        "__reduce__" in vars(base) or "__reduce_ex__" in vars(base)
        for base in kind.__mro__[: kind.__mro__.index(_builtin(kind))]
    )


def _members(kind: type) -> list[str]:
    return [
        name
        for base in kind.__mro__
        for name, found in vars(base).items()
        if isinstance(found, types.MemberDescriptorType) and not name.startswith("__")
    ]


def make_exception(kind: type, base: Any, args: tuple[Any, ...]) -> Any:
    """Make an exception of a class, without that being asked."""
    value = base.__new__(kind, *args)
    if args:
        base.__init__(value, *args)
    return value


def fill(value: Any, state: dict[str, Any]) -> None:
    """Give an exception what it had."""
    value.args = state["args"]
    vars(value).update(state["attributes"])
    for name, member in state["members"].items():
        try:
            setattr(value, name, member)
        except (AttributeError, TypeError):
            continue  # a readonly one, which it was made with
    _set_chain(value, state["chain"])


def fill_own(value: Any, state: dict[str, Any]) -> None:
    """Give an exception of a class that says how it is pickled what it had."""
    own = state["own"]
    if own is not None:
        value.__setstate__(own)
    _set_chain(value, state["chain"])


def _set_chain(value: Any, chain: dict[str, Any]) -> None:
    for name in _CHAIN:  # setting the cause suppresses the context: that comes last
        if name in chain:
            setattr(value, name, chain[name])


RECIPES = (
    Recipe(module="builtins", qualname="BaseException", reduce=_exception, subclasses=True, regardless=True),
)
