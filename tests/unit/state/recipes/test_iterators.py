"""Iterators go on where they were."""

from __future__ import annotations

import itertools
import operator
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.state_trip import save, trip

D = {"a": 1, "b": 2, "c": 3}
ITERATORS: list[Callable[[], Iterator[Any]]] = [
    lambda: iter([1, 2, 3]),
    lambda: reversed([1, 2, 3]),
    lambda: iter((1, 2, 3)),
    lambda: iter("abc"),
    lambda: iter("éàç"),
    lambda: iter(b"abc"),
    lambda: iter(range(5)),
    lambda: iter(range(2**70, 2**70 + 3)),
    lambda: enumerate("abc"),
    lambda: zip([1, 2], [3, 4, 5], strict=False),
    lambda: map(str, [1, 2, 3]),
    lambda: filter(None, [0, 1, 2, 0, 3]),
    lambda: iter(D),
    lambda: iter(D.values()),
    lambda: iter(D.items()),
    lambda: reversed(D),
    lambda: reversed(D.items()),
    lambda: iter({1, 2, 3}),
    lambda: iter(OrderedDict(D)),
    lambda: iter(deque([1, 2, 3])),
    lambda: itertools.count(5),
    lambda: itertools.count(5, 2),
    lambda: itertools.count(0.5, 0.25),
    lambda: itertools.count(2**70),
    lambda: itertools.repeat(7),
    lambda: itertools.repeat(7, 2),
    lambda: itertools.cycle([1, 2]),
    lambda: itertools.cycle([1, 2, 3, 4, 5]),
    lambda: itertools.cycle([]),
    lambda: itertools.chain([1], [2, 3], [4]),
    lambda: itertools.chain.from_iterable(iter([[1, 2], [3]])),
    lambda: itertools.chain(),
    lambda: itertools.islice(range(100), 2, 50, 7),
    lambda: itertools.islice(range(100), 5),
    lambda: itertools.islice(range(20), 1, None, 3),
    lambda: itertools.islice(range(3), 1),
    lambda: itertools.accumulate([1, 2, 3, 4]),
    lambda: itertools.accumulate([1, 2, 3], operator.mul, initial=7),
    lambda: itertools.accumulate([0, 0, 3]),
    lambda: itertools.starmap(pow, [(2, 3), (3, 2)]),
    lambda: itertools.filterfalse(None, [0, 1, 0, 2, 0]),
    lambda: itertools.compress("abcdef", [1, 0, 1, 0, 1, 1]),
    lambda: itertools.takewhile(bool, [1, 1, 0, 1]),
    lambda: itertools.dropwhile(bool, [1, 0, 1, 1, 0]),
    lambda: itertools.pairwise([1, 2, 3, 4, 5]),
    lambda: itertools.groupby([]),
    lambda: itertools.product("ab", [1, 2, 3]),
    lambda: itertools.product("ab", repeat=2),
    lambda: itertools.permutations("abc"),
    lambda: itertools.permutations("abcd", 2),
    lambda: itertools.combinations("abcde", 3),
    lambda: itertools.combinations_with_replacement("abc", 2),
    lambda: itertools.zip_longest([1, 2, 3], "a", (), fillvalue=0),
]


@pytest.mark.parametrize("make", ITERATORS)
def test_an_iterator_goes_on_where_it_was(make: Callable[[], Iterator[Any]]) -> None:
    for steps in (0, 1, 2, 3, 40):
        original = make()
        next(itertools.islice(original, steps, steps), None)
        made = trip(original)
        rest = list(itertools.islice(original, 40))
        assert list(itertools.islice(made, 40)) == rest


def test_no_iterator_of_itertools_is_asked_how_it_is_pickled() -> None:
    """Python 3.14 does not pickle them any more."""
    asked = {name for make in ITERATORS if (name := type(make()).__name__) in dir(itertools)}
    assert len(asked) >= 17
    for make in ITERATORS:
        if type(make()).__name__ in asked:
            assert b"__setstate__" not in save(make()).content


def test_an_iterator_walks_over_the_restored_object() -> None:
    items = [1, 2]
    walk = iter(items)
    next(walk)
    walk, items = trip((walk, items))
    items.append(3)
    assert list(walk) == [2, 3]


def test_an_iterator_of_a_dict_still_notices_that_the_dict_changed() -> None:
    walked = dict(D)
    walk = iter(walked)
    next(walk)
    walk, walked = trip((walk, walked))
    walked["z"] = 1
    with pytest.raises(RuntimeError, match="changed size"):
        next(walk)


def test_an_iterator_in_the_list_that_it_walks_over_keeps_its_place() -> None:
    items: list[Any] = [1, 2]
    walk = iter(items)
    items.append(walk)
    next(walk)
    made = trip(items)
    assert next(made[2]) == 2


def test_tees_share_what_one_of_them_has_read() -> None:
    first, second = itertools.tee(iter(range(200)))
    for _ in range(70):
        next(first)
    next(second)
    first, second = trip((first, second))
    assert next(second) == 1
    assert next(first) == 70
    assert [next(second) for _ in range(70)][-1] == 71


def test_matches_that_are_looked_for_one_by_one_are_lost_with_the_reason() -> None:
    saved = save(re.finditer("a", "aaa"))
    assert "cannot be read back" in saved.said.lost[0].reason


def test_a_group_of_groupby_is_lost_while_it_is_walked() -> None:
    groups = itertools.groupby("aab")
    next(groups)
    assert save(groups).said.lost
