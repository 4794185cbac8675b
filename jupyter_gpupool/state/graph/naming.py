"""How types and errors are named to people.

Rule of this module: nothing here runs code of the value that it speaks of.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.kinds import is_a

_LONGEST_REASON = 300
#: Where Python itself keeps a class's names, whatever its metaclass says.
_MODULE, _QUALNAME = vars(type)["__module__"], vars(type)["__qualname__"]


def name_of(kind: type) -> str:
    """Return a type with its module, but for builtins and the notebook."""
    try:
        module, name = _MODULE.__get__(kind), _QUALNAME.__get__(kind)
    except AttributeError:
        return "object"
    plain = not isinstance(module, str) or module in ("builtins", "__main__")
    return str(name) if plain else f"{module}.{name}"


def type_name_of(value: object) -> str:
    """Return the name of a value's type; a class or a function is named itself."""
    if lost.is_lost(value):
        return lost.loss_of(value).type_name
    if is_a(value, type):
        return f"class {name_of(value)}"
    return name_of(type(value))


def reason_of(error: BaseException) -> str:
    """Return an error as a clause."""
    try:
        text = str(error).strip().rstrip(".")
    except Exception as broken:
        text = f"its message raised {type(broken).__name__}"
    text = " ".join(text.split())
    if len(text) > _LONGEST_REASON:
        text = f"{text[:_LONGEST_REASON]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_notebooks(value: Any) -> bool:
    """Tell whether a function, method, class or object is of the notebook's own code."""
    value = getattr(value, "func", value) if type(value).__name__ == "partial" else value
    if is_a(value, MethodType):
        return is_notebooks(value.__func__) or is_notebooks(value.__self__)
    if is_a(value, FunctionType):
        return bool(value.__globals__.get("__name__") == "__main__")
    return bool(getattr(value if is_a(value, type) else type(value), "__module__", None) == "__main__")
