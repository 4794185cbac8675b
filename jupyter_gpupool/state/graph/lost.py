"""Markers: what stands where a value could not be saved, or not be made again.

Rules of this module: a marker can be looked at, compared by identity and used as a key; every other touch
raises and says what it was. A class that is lost stays a class, so that its instances can be told of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from jupyter_gpupool.state.errors import LostValue

#: What Python itself asks a value for, also while it only looks at it.
_OPEN = frozenset(
    {"__class__", "__dict__", "__doc__", "__setstate__", "__weakref__", "__module__", "__name__"}
)


class Loss(NamedTuple):
    """What a marker stands for."""

    type_name: str
    reason: str
    hint: str = ""


class LostAttribute(LostValue, AttributeError):
    """Raised for names with underscores, which tools ask everything for."""


def _said(loss: Loss) -> str:
    end = f" {loss.hint}" if loss.hint else ""
    return f"This {loss.type_name} was not restored: {loss.reason}.{end}"


def _refuse(loss: Loss, name: str = "") -> NoReturn:
    raise (LostAttribute if name.startswith("_") else LostValue)(_said(loss))


class LostType(type):
    """The type of markers; a lost class is one of these, and refuses to be used as one."""

    def __call__(cls, *args: Any, **keywords: Any) -> NoReturn:
        """Refuse to make an instance."""
        _refuse(loss_of(cls))

    def __getattribute__(cls, name: str) -> Any:
        """Refuse all but what Python needs to know of a class."""
        if name in _OPEN or name in ("__mro__", "__bases__", "__qualname__", "__new__"):
            return super().__getattribute__(name)
        _refuse(loss_of(cls), name)

    def __repr__(cls) -> str:
        """Say what it was, and why it is not there."""
        return shown(cls)

    def __hash__(cls) -> int:
        """Hash by identity."""
        return type.__hash__(cls)


class Lost(metaclass=LostType):
    """A value that is not there."""

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        """Make an instance of a lost class, as the stream asks for."""
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        """Take nothing: an instance of a lost class is met by its state."""

    def __getattribute__(self, name: str) -> Any:
        """Refuse all but what Python needs to know of an object."""
        if name in _OPEN:
            return object.__getattribute__(self, name)
        _refuse(loss_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse."""
        _refuse(loss_of(self))

    def __delattr__(self, name: str) -> None:
        """Refuse."""
        _refuse(loss_of(self))

    def __repr__(self) -> str:
        """Say what it was, and why it is not there."""
        return shown(self)

    def __eq__(self, other: object) -> bool:
        """Compare by identity."""
        return self is other

    def __hash__(self) -> int:
        """Hash by identity."""
        return object.__hash__(self)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **keywords: Any) -> NoReturn:
        _refuse(loss_of(self))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refuse."
    return refuse


_OPERATORS = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul "
    "rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror iadd isub imul imatmul itruediv "
    "ifloordiv imod ipow ilshift irshift iand ixor ior neg pos abs invert lt le gt ge"
)
_OTHERS = (
    "bool int float complex index round trunc floor ceil format bytes call iter next reversed len contains "
    "length_hint getitem setitem delitem enter exit aenter aexit aiter anext await copy deepcopy fspath"
)
for _name in f"{_OPERATORS} {_OTHERS}".split():
    type.__setattr__(Lost, f"__{_name}__", _refusal(f"__{_name}__"))


def loss_of(lost: Any) -> Loss:
    """Return what a marker stands for."""
    if isinstance(lost, LostType):
        found = type.__getattribute__(lost, "__dict__").get("_loss")
    else:
        found = object.__getattribute__(lost, "__dict__").get("_loss") or loss_of(type(lost))
    return found or Loss("value", "it is not there")


def shown(lost: Any) -> str:
    """Return a marker as it is printed."""
    loss = loss_of(lost)
    return f"<lost {loss.type_name}: {loss.reason}>"


def is_lost(value: Any) -> bool:
    """Tell whether a value is a marker."""
    return type(value) is LostType or type(type(value)) is LostType


def marker(type_name: str, reason: str, hint: str = "") -> Any:
    """Make a marker in place of a value."""
    lost = object.__new__(Lost)
    object.__getattribute__(lost, "__dict__")["_loss"] = Loss(type_name, reason, hint)
    return lost


def lost_class(type_name: str, reason: str, hint: str = "") -> Any:
    """Make a marker in place of a class, or of something that may have been one."""
    name = type_name.rpartition(".")[2]
    return type.__new__(LostType, name, (Lost,), {"_loss": Loss(type_name, reason, hint)})


def turn_into(value: Any, type_name: str, reason: str, hint: str = "") -> bool:
    """Turn an object that came back half made into a marker, where Python lets its class be changed."""
    try:
        object.__setattr__(value, "__class__", Lost)
        kept = object.__getattribute__(value, "__dict__")
    except (TypeError, AttributeError):
        return False
    kept.clear()
    kept["_loss"] = Loss(type_name, reason, hint)
    return True
