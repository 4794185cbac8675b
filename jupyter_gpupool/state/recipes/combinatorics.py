"""Iterators of itertools that go through products, permutations and combinations.

Rule of this module: how far one came is read out of the indices in it, as the number of steps; where those
cannot be found in this Python, or the steps are too many to be taken again, it is lost.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes import peek
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for
from jupyter_gpupool.state.recipes.stepping import advanced

#: So many steps are taken again on a restore at most (a second or two).
MAX_STEPS = 30_000_000
_HINT = "Keep what it walks over, and how far it came."


def product_rank(indices: list[int], sizes: list[int]) -> int:
    """Return which product this is, from 0."""
    rank = 0
    for index, size in zip(indices, sizes, strict=True):
        rank = rank * size + index
    return rank


def permutation_rank(indices: list[int], size: int) -> int:
    """Return which permutation this is, from 0."""
    left, rank = list(range(size)), 0
    for at, index in enumerate(indices):
        place = left.index(index)
        rank += place * math.perm(size - at - 1, len(indices) - at - 1)
        left.pop(place)
    return rank


def combination_rank(indices: list[int], size: int) -> int:
    """Return which combination this is, from 0."""
    rank, begin = 0, 0
    for at, index in enumerate(indices):
        rank += sum(math.comb(size - each - 1, len(indices) - at - 1) for each in range(begin, index))
        begin = index + 1
    return rank


def repeating_rank(indices: list[int], size: int) -> int:
    """Return which combination with repetitions this is, from 0."""
    rising = [index + at for at, index in enumerate(indices)]
    return combination_rank(rising, size + len(indices) - 1)


_KINDS: dict[type, Callable[..., Any]] = {
    itertools.permutations: permutation_rank,
    itertools.combinations: combination_rank,
    itertools.combinations_with_replacement: repeating_rank,
}


def _low_ints(value: Any) -> list[int]:
    return [peek.low_int(word) for word in peek.words(value)]


@cache
def _ended_at(kind: Any) -> int | None:
    """Find the word of a kind that says that one is at its end."""
    fresh, ended = (kind(*_probe_args(kind)) for _ in range(2))
    for _ in ended:
        pass
    return peek.place([(fresh, 0), (ended, 1)], _low_ints)


@cache
def _length_at(kind: Any) -> int | None:
    """Find the word of a kind that says how long what it yields is."""
    return peek.place([(kind("abcde", 3), 3), (kind("abcdefg", 2), 2)], _low_ints)


def _probe_args(kind: type) -> tuple[Any, ...]:
    return ("ab", "abc") if kind is itertools.product else ("abc", 2)


def _combinatoric(value: Any, capturing: Capturing) -> Reduced:
    kind: Any = type(value)
    ended_at = _ended_at(kind)
    pools, *result = gc.get_referents(value)
    length_at = None if kind is itertools.product else _length_at(kind)
    if ended_at is None or (length_at is None and kind is not itertools.product):
        return capturing.lose(value, "this Python does not show how far it came", _HINT)
    args = pools if kind is itertools.product else (pools, _low_ints(value)[length_at or 0])
    if _low_ints(value)[ended_at]:
        return make_at, (kind, ((), *args[1:]) if kind is itertools.product else ((), 1), 0)
    if not result:
        return make_at, (kind, args, 0)
    steps = _steps(kind, pools, result[0])
    if steps is None or steps > MAX_STEPS:
        reason = "how far it came cannot be worked out" if steps is None else f"it took {steps:,} steps"
        return capturing.lose(value, reason, _HINT)
    return make_at, (kind, args, steps)


def _steps(kind: type, pools: tuple[Any, ...], result: tuple[Any, ...]) -> int | None:
    """Return how many steps it took to come to a result; None where elements of a pool are the same."""
    of = pools if kind is itertools.product else (pools,) * len(result)
    numbers = [{id(element): at for at, element in enumerate(pool)} for pool in of]
    if any(len(number) != len(pool) for number, pool in zip(numbers, of, strict=True)):
        return None
    indices = [number[id(element)] for number, element in zip(numbers, result, strict=True)]
    if kind is itertools.product:
        return product_rank(indices, [len(pool) for pool in pools]) + 1
    return int(_KINDS[kind](indices, len(pools))) + 1


def make_at(kind: Any, args: tuple[Any, ...], steps: int) -> Any:
    """Make one, and take the steps again that it took."""
    made = kind(*args)
    return advanced(made, steps) if steps else made


def _zip_longest(value: Any, capturing: Capturing) -> Reduced:
    # The tuple has holes where iterators came to their end: it is never touched itself.
    walked, fill = gc.get_referents(value)[0], gc.get_referents(value)[-1]
    start, count = id(walked) + tuple.__basicsize__, len(walked)
    known = {id(each): each for each in gc.get_referents(walked)}
    slots = (ctypes.c_size_t * count).from_address(start)
    iterators = [known.get(slot, ()) for slot in slots]
    if sum(bool(slot) for slot in slots) != len(gc.get_referents(walked)) or any(
        slot and slot not in known for slot in slots
    ):
        return capturing.lose(value, "this Python does not show what it walks over", _HINT)
    return make_zip_longest, (iterators, fill)


def make_zip_longest(iterators: list[Iterator[Any]], fill: Any) -> Any:
    """Zip what is left."""
    return itertools.zip_longest(*iterators, fillvalue=fill)


@cache
def _tee_at() -> int | None:
    """Find the word that says how far a tee is inside its block."""
    probes = [(advanced(itertools.tee(iter(range(9)), 1)[0], steps), steps) for steps in (3, 5)]
    return peek.place(probes, _low_ints)


def _tee(value: Any, capturing: Capturing) -> Reduced:
    at = _tee_at()
    if at is None:
        return capturing.lose(value, "this Python does not show how far it came", _HINT)
    block = next(each for each in gc.get_referents(value) if type(each) is _BLOCK)
    ahead: list[Any] = []
    while True:
        _, *held = gc.get_referents(block)
        if not held or type(held[-1]) is not _BLOCK:
            break
        ahead += held[:-1]
        block = held[-1]
    return make_tee, ([*ahead, *held][_low_ints(value)[at] :], block)


_BLOCK: type = type(
    next(each for each in gc.get_referents(itertools.tee((), 1)[0]) if not isinstance(each, type))
)


def _front(value: Any, capturing: Capturing) -> Reduced:
    return make_front, (gc.get_referents(value)[0],)


def make_front(source: Iterator[Any]) -> Any:
    """Read a source for all tees of it; gone itself when all of them have been made."""
    return itertools.tee(source, 1)[0]


def make_tee(ahead: list[Any], front: Any) -> Any:
    """Make a tee that has some elements to yield that others have seen."""
    return itertools.tee(itertools.chain(ahead, copy.copy(front)), 1)[0]


RECIPES: tuple[Recipe, ...] = (
    *(recipe_for(kind, _combinatoric) for kind in (itertools.product, *_KINDS)),
    recipe_for(itertools.zip_longest, _zip_longest),
    recipe_for(type(itertools.tee((), 1)[0]), _tee),
    recipe_for(_BLOCK, _front),
)
