"""Iterators of itertools, on Pythons that pickle them and on those that do not any more.

Rule of this module: what an iterator holds is read out of it without a step of it being taken; where a field
cannot be found in this Python it is lost, never begun anew.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes import peek
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

_HINT = "Keep what it walks over, and how far it came."
_NO_FIELD = "this Python does not show how far it came"


def _never(*_: Any) -> bool:
    return False


def advanced(iterator: Iterator[Any], steps: int) -> Any:
    """Take so many steps."""
    next(itertools.islice(iterator, steps, steps), None)
    return iterator


def _count(value: Any, capturing: Capturing) -> Reduced:
    *begun, step = (found for found in peek.pointers(value) if found is not None)
    shown = repr(value).removeprefix("count(").removesuffix(")").split(",")
    return itertools.count, (begun[0] if begun else int(shown[0]), step)


def _repeat(value: Any, capturing: Capturing) -> Reduced:
    element = next(found for found in peek.pointers(value) if found is not None)
    try:
        return itertools.repeat, (element, value.__length_hint__())
    except TypeError:
        return itertools.repeat, (element,)


def _cycle(value: Any, capturing: Capturing) -> Reduced:
    walked, saved = peek.pointers(value)[:2]
    if walked is not None:
        return make_cycle, (list(saved), walked)
    ahead = [next(value) for _ in saved]  # once round: it is where it was
    return itertools.cycle, (ahead,)


def make_cycle(saved: list[Any], walked: Iterator[Any]) -> Any:
    """Make a cycle that is still in its first round."""
    return advanced(itertools.cycle(itertools.chain(saved, walked)), len(saved))


def _chain(value: Any, capturing: Capturing) -> Reduced:
    found = [each for each in peek.pointers(value) if each is not None]
    if len(found) == 2:
        source, active = (each for each in peek.pointers(value)[:2])
        return make_chain, ([active], source)
    return make_chain, ([], found[0] if found else iter(()))


def make_chain(active: list[Any], source: Iterator[Any]) -> Any:
    """Make a chain that is inside one of its parts."""
    return itertools.chain.from_iterable(itertools.chain(active, source) if active else source)


@cache
def _islice_at() -> tuple[int, int, int] | None:
    probe = itertools.islice(iter(range(90)), 21, 77, 13)
    next(probe)  # its next element is at 34, and 22 have been taken
    found = [peek.signed(word) for word in peek.words(probe)]
    wanted = (34, 77, 22)
    return None if any(found.count(each) != 1 for each in wanted) else tuple(map(found.index, wanted))  # type: ignore[return-value]


def _islice(value: Any, capturing: Capturing) -> Reduced:
    at = _islice_at()
    if at is None:
        return capturing.lose(value, _NO_FIELD, _HINT)
    walked = peek.pointers(value)[0]
    words = [peek.signed(word) for word in peek.words(value)]
    start, stop, done = (words[each] for each in at)
    if walked is None:
        return itertools.islice, (iter(()), 0)
    step = words[at[1] + 1]
    until = None if stop == -1 else max(stop - done, 0)
    begin = max(start - done, 0)
    return itertools.islice, (walked, begin if until is None else min(begin, until), until, step)


def _accumulate(value: Any, capturing: Capturing) -> Reduced:
    at = _accumulate_at()
    if at is None:
        return capturing.lose(value, _NO_FIELD, _HINT)
    found = peek.pointers(value)
    total, walked, function, initial = (found[each] for each in at)
    has_total = peek.words(value)[at[0]] != 0
    return make_accumulate, (walked, function, [total] if has_total else [], initial)


@cache
def _accumulate_at() -> tuple[int, int, int, int] | None:
    total, walked, initial = object(), iter([1]), object()
    fresh = itertools.accumulate(walked, operator.add, initial=initial)
    begun = itertools.accumulate([total], operator.mul)
    next(begun)
    places = (
        peek.place([(begun, total)], peek.pointers),
        peek.place([(fresh, walked)], peek.pointers),
        peek.place([(fresh, operator.add), (begun, operator.mul)], peek.pointers),
        peek.place([(fresh, initial)], peek.pointers),
    )
    return None if None in places else places  # type: ignore[return-value]


def make_accumulate(walked: Iterator[Any], function: Any, total: list[Any], initial: Any) -> Any:
    """Make running totals that have come to a total."""
    if not total:
        return itertools.accumulate(walked, function, initial=initial)
    if total[0] is None:  # None means that there is no initial value
        reason = "running totals that have come to None cannot be begun there"
        raise ValueError(reason)
    return advanced(itertools.accumulate(walked, function, initial=total[0]), 1)


def _two(value: Any, capturing: Capturing) -> Reduced:
    """Those that hold two things and no place."""
    return type(value), tuple(peek.pointers(value)[:2])


def _while(value: Any, capturing: Capturing) -> Reduced:
    function, walked = peek.pointers(value)[:2]
    done = peek.signed(peek.words(value)[2]) & 0xFFFFFFFF
    return make_while, (type(value), function, walked, bool(done))


def make_while(kind: type, function: Callable[[Any], Any], walked: Iterator[Any], done: bool) -> Any:
    """Make a takewhile or dropwhile whose function has had its say, or has not yet."""
    if not done:
        return kind(function, walked)
    if kind is itertools.takewhile:
        made = kind(_never, itertools.chain([None], walked))
        next(made, None)
        return made
    return advanced(kind(_never, itertools.chain([None], walked)), 1)


def _pairwise(value: Any, capturing: Capturing) -> Reduced:
    walked, old = peek.pointers(value)[:2]
    has_old = peek.words(value)[1] != 0
    return make_pairwise, (walked, [old] if has_old else [])


def make_pairwise(walked: Iterator[Any] | None, old: list[Any]) -> Any:
    """Make pairs that have the first half of the next one already."""
    if walked is None:
        return itertools.pairwise(())
    return itertools.pairwise(itertools.chain(old, walked) if old else walked)


def _batched(value: Any, capturing: Capturing) -> Reduced:
    walked = peek.pointers(value)[0]
    size, strict = peek.signed(peek.words(value)[1]), [peek.low_int(word) for word in peek.words(value)[2:3]]
    if walked is None:
        return make_batched, (iter(()), max(size, 1), False)
    return make_batched, (walked, size, bool(strict and strict[0] & 1))


def make_batched(walked: Iterator[Any], size: int, strict: bool) -> Any:
    """Make batches of what is left."""
    batched: Any = itertools.batched  # type: ignore[attr-defined]
    return batched(walked, size, strict=True) if strict else batched(walked, size)


def _groupby(value: Any, capturing: Capturing) -> Reduced:
    walked, function = peek.pointers(value)[:2]
    if any(peek.words(value)[2:5]):
        return capturing.lose(value, "it is inside a group", "Keep the groups as lists.")
    return itertools.groupby, (walked, function)


def _lost(reason: str) -> Callable[[Any, Capturing], Reduced]:
    return lambda value, capturing: capturing.lose(value, reason, _HINT)


RECIPES: tuple[Recipe, ...] = (
    recipe_for(itertools.count, _count),
    recipe_for(itertools.repeat, _repeat),
    recipe_for(itertools.cycle, _cycle),
    recipe_for(itertools.chain, _chain),
    recipe_for(itertools.islice, _islice),
    recipe_for(itertools.accumulate, _accumulate),
    *(recipe_for(kind, _two) for kind in (itertools.starmap, itertools.filterfalse, itertools.compress)),
    *(recipe_for(kind, _while) for kind in (itertools.takewhile, itertools.dropwhile)),
    recipe_for(itertools.pairwise, _pairwise),
    recipe_for(itertools.groupby, _groupby),
    Recipe(module="itertools", qualname="batched", reduce=_batched),
    Recipe(module="itertools", qualname="_grouper", reduce=_lost("a group is a part of an iterator")),
)
