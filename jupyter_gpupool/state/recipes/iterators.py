"""Iterators of builtins in the middle of what they walk over.

Rule of this module: an iterator goes on over the very object that it walked over, unless the order of that
one is not the same in another process (sets): then it goes on over what was left.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

_GENERATOR_HINT = "Make it again after a restore."


class _Sequence:
    def __getitem__(self, index: int) -> int:
        raise IndexError(index)


def _usual(value: Any, capturing: Capturing) -> Reduced:
    """Take those apart that say right themselves what they walk over, and where they are."""
    found: Reduced = value.__reduce__()
    if len(found) == 2 and found[0] is not iter:
        return found
    made, args, *state = found
    return make_usual, (made, args, *state)


def make_usual(made: Any, args: tuple[Any, ...], *state: Any) -> Any:
    """Make an iterator and put it to its place."""
    value = made(*args)
    if state and type(state[0]) is int and args and _is_short(args[0], state[0]):
        loading.current().later(lambda: value.__setstate__(state[0]))  # it is in what it walks over
    elif state:
        value.__setstate__(state[0])
    return value


def _is_short(walked: Any, place: int) -> bool:
    return isinstance(walked, list) and len(walked) <= place


def _dict(value: Any, capturing: Capturing) -> Reduced:
    found = gc.get_referents(value)
    if not found:
        return make_exhausted, (type(value).__name__,)
    walked, left = found[0], value.__length_hint__()
    if not left:
        return make_dict_iterator, (
            type(value).__name__,
            {1: 1} if _is_broken(value, walked) else None,
            -1,
            0,
        )
    return make_dict_iterator, (type(value).__name__, walked, len(walked), left)


def _is_broken(value: Any, walked: Any) -> bool:
    """Tell whether its dict has changed since, so that its next step says so; it is at an end otherwise."""
    try:
        next(value)
    except StopIteration:
        return False
    except RuntimeError:
        return True
    return False


_WALKS = {
    "dict_keyiterator": iter,
    "dict_valueiterator": lambda walked: iter(walked.values()),
    "dict_itemiterator": lambda walked: iter(walked.items()),
    "dict_reversekeyiterator": reversed,
    "dict_reversevalueiterator": lambda walked: reversed(walked.values()),
    "dict_reverseitemiterator": lambda walked: reversed(walked.items()),
}


def make_exhausted(name: str) -> Iterator[Any]:
    """Make an iterator of a dict that is at its end."""
    return _advanced(_WALKS[name]({}), 1)


def make_dict_iterator(name: str, walked: Any, length: int, left: int) -> Any:
    """Make an iterator over a dict, with so many steps left."""
    if walked is None:
        return make_exhausted(name)
    if length < 0:
        broken: Iterator[Any] = _WALKS[name](walked)
        walked[2] = 2
        return broken
    if len(walked) != length:
        reason = "it walks over a dict that holds it, and that is not full yet when it is made"
        return loading.current().lost(name, reason, _GENERATOR_HINT)
    return _advanced(_WALKS[name](walked), length - left)


def _advanced(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    next(islice(iterator, steps, steps), None) if steps else None
    return iterator


def _left(value: Any, capturing: Capturing) -> Reduced:
    """Keep what is left: the order of a set is another one in another process."""
    reason = "it goes on over what was left, and no longer notices changes of what it walks over"
    capturing.note(value, FindingKind.REBUILT, reason)
    return iter, (list(value.__reduce__()[1][0]),)


def _calling(value: Any, capturing: Capturing) -> Reduced:
    made, args = value.__reduce__()[:2]
    if args and type(getattr(args[0], "__self__", None)).__name__ == "SRE_Scanner":
        reason = "matches are looked for one by one, and where it is cannot be read back"
        return capturing.lose(value, reason, "Keep a list of the matches.")
    return make_usual, (made, args)


def _of(*values: Any) -> set[type]:
    return {type(value) for value in values}


_USUAL = _of(
    *(iter([]), reversed([]), iter(()), iter(""), iter("é"), iter(b""), iter(bytearray())),
    *(iter(range(0)), iter(range(2**70)), iter(_Sequence()), enumerate(()), reversed(()), zip()),
    *(map(str, ()), filter(None, ())),
)
_DICT = _of(
    *(iter({}), iter({}.values()), iter({}.items())),
    *(reversed({}), reversed({}.values()), reversed({}.items())),
)

RECIPES: tuple[Recipe, ...] = (
    *(recipe_for(kind, _usual) for kind in _USUAL),
    *(recipe_for(kind, _dict) for kind in _DICT),
    recipe_for(type(iter(set())), _left),
    recipe_for(type(iter(OrderedDict())), _left),
    recipe_for(type(iter(int, 1)), _calling),
)
