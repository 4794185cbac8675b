"""The registry finds the recipe for a type, and everything hopeless has its reason."""

from __future__ import annotations

import importlib
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gpupool.state.recipes import hopeless, users
from jupyter_gpupool.state.recipes.registry import Recipe, Registry, recipe_for
from tests.support.state_trip import Gone, save, trip


class Base:
    """Has a recipe."""


class Derived(Base):
    """Has none of its own."""


class Own(Base):
    """Says itself how it is pickled."""

    def __reduce__(self) -> Any:
        return Own, ()


class Worker(threading.Thread):
    """A thread that says what of it is to be saved."""

    def __init__(self, name: str = "mine") -> None:
        super().__init__(name=name)

    def __reduce__(self) -> Any:
        return Worker, (self.name,)


def _first(value: Any, capturing: Any) -> tuple[Any, ...]:
    return Base, ()


def _second(value: Any, capturing: Any) -> tuple[Any, ...]:
    return Derived, ()


def test_a_recipe_is_for_its_type_and_those_derived_only_where_it_says_so() -> None:
    exact, all_of_them = (
        recipe_for(Base, _first),
        Recipe(module=__name__, qualname="Base", reduce=_first, subclasses=True, kind=Base),
    )
    assert [Registry([exact]).reducer(kind) for kind in (Base, Derived)] == [_first, None]
    assert [Registry([all_of_them]).reducer(kind) for kind in (Derived, Own)] == [_first, None]


def test_a_later_recipe_and_one_of_a_nearer_class_come_first() -> None:
    every = Recipe(module=__name__, qualname="Base", reduce=_first, subclasses=True, kind=Base)
    registry = Registry([every, recipe_for(Base, _second)])
    assert registry.reducer(Base) is _second
    registry = Registry([every, recipe_for(Derived, _second)])
    assert [registry.reducer(kind) for kind in (Base, Derived)] == [_first, _second]


def test_types_of_libraries_count_from_when_they_are_imported_and_are_not_imported_for_it() -> None:
    registry = Registry([Recipe(module="this_is_not_there", qualname="Thing", reduce=_first)])
    assert registry.reducer(Base) is None
    assert "this_is_not_there" not in sys.modules
    module: Any = type(sys)("this_is_not_there")
    module.Thing = Base
    sys.modules["this_is_not_there"] = module
    try:
        registry.refresh()
        assert registry.reducer(Base) is _first
    finally:
        del sys.modules["this_is_not_there"]


def test_a_class_that_says_itself_how_it_is_pickled_is_asked() -> None:
    assert trip(Worker("other")).name == "other"


@pytest.mark.parametrize("entry", hopeless.HOPELESS, ids=lambda entry: f"{entry[0]}.{entry[1]}")
def test_everything_hopeless_is_a_type_that_is_there_and_has_a_reason(
    entry: tuple[str, str, str, str],
) -> None:
    module, name, reason, hint = entry
    assert reason
    assert not reason.endswith(".")
    assert not hint or hint.endswith((".", "instead."))
    if module.partition(".")[0] in sys.stdlib_module_names:
        found: Any = importlib.import_module(module)
        missing = sys.version_info < (3, 13) and name == "_ThreadHandle"
        assert missing or isinstance(getattr(found, name), type)


def test_one_hopeless_thing_costs_only_itself() -> None:
    make: list[Callable[[], Any]] = [socket.socket, lambda: (i for i in ()), lambda: sys._getframe()]
    for each in make:
        value = each()
        saved = save([1, value, 3])
        one, gone, three = saved.back()
        assert (one, three) == (1, 3)
        assert isinstance(gone, Gone)
        getattr(value, "close", lambda: None)()
    assert users.GROUP == "jupyter_gpupool.state"
