"""What a value is, told without asking it.

Rule of this module: `isinstance` asks a value for its ``__class__``, which may be code that raises or lies; a
comparison of classes, or a set of them, runs code of their metaclass. Nothing here does either.
"""

from __future__ import annotations

from typing import Any, TypeGuard


def is_a(value: object, kinds: Any) -> TypeGuard[Any]:
    """Tell whether a value is an instance of one of some classes, or of a class that is derived from one."""
    return issubclass(type(value), kinds)


def is_one_of(kind: type, kinds: Any) -> bool:
    """Tell whether a class is one of some classes itself."""
    return any(kind is one for one in kinds)
