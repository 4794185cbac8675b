"""Values whose hash is code of their class: it needs attributes, which a cycle may not have brought yet.

Rules of this module: such a value gets its plain attributes as it is made; a set or dict that has such values
as keys is made empty, and filled when every object is whole.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.kinds import is_one_of

if TYPE_CHECKING:
    from jupyter_gpupool.state.recipes.registry import Reduced

_ATOMS = (bool, int, float, complex, str, bytes, type(None))


def has_own_hash(kind: type) -> bool:
    """Tell whether hashing an instance of a class runs code of that class."""
    return isinstance(kind.__hash__, FunctionType)


def is_plain(value: Any) -> bool:
    """Tell whether a value consists of nothing that could lead back to its holder."""
    return is_one_of(type(value), _ATOMS) or (type(value) is tuple and all(is_plain(item) for item in value))


def in_two_steps(value: Any) -> Reduced | None:
    """Take an instance apart so that its plain attributes are there at once; None where all are plain."""
    attributes = value.__dict__
    early = {name: item for name, item in attributes.items() if is_plain(item)}
    if len(early) == len(attributes):
        return None
    return make_early, (type(value), early), attributes, None, None, set_attributes


def make_early(kind: Any, attributes: dict[str, Any]) -> Any:
    """Make an instance that has some of its attributes."""
    if lost.is_lost(kind):
        return kind.__new__(kind)
    made = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


def set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    """Give an instance all of its attributes, in their order."""
    own = value.__dict__
    own.clear()
    own.update(attributes)


def set_own_dict(value: Any, attributes: dict[str, Any]) -> None:
    """Give an instance a dict that others know, too."""
    object.__setattr__(value, "__dict__", attributes)


def keyed_by(containers: list[Any], kinds: set[type]) -> list[Any]:
    """Return those sets and dicts that have instances of some classes as keys, or in tuples that are keys."""
    return [
        one
        for one in containers
        if (type(one) is dict or type(one) is set) and any(_is_of(key, kinds) for key in one)
    ]


def _is_of(key: Any, kinds: set[type]) -> bool:
    if type(key) is tuple or type(key) is frozenset:
        return any(_is_of(item, kinds) for item in key)
    return is_one_of(type(key), kinds)


def contents(container: Any) -> list[Any]:
    """Return what a set or dict holds."""
    return list(container.items()) if type(container) is dict else list(container)


def fill(shells: list[tuple[Any, list[Any]]]) -> None:
    """Fill sets and dicts that were made empty."""
    for container, held in shells:
        container.update(held)
