"""Weak references point to what was restored; exceptions come back without their frames."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from tests.support.state_trip import save, trip


class Thing:
    """Something to point to."""

    def method(self) -> int:
        return 5


class Failure(Exception):
    """Whose init does not take its args."""

    def __init__(self, _a: int, *, b: int) -> None:
        super().__init__("message")
        self.b = b


def test_every_kind_of_weak_reference_points_to_the_restored_object() -> None:
    thing = Thing()
    values = weakref.WeakValueDictionary(o=thing)
    keys = weakref.WeakKeyDictionary({thing: 1})
    both = (thing, weakref.ref(thing), values, keys, weakref.WeakSet([thing]), weakref.proxy(thing))
    made, reference, values, keys, members, proxy = trip((*both,))
    assert reference() is made
    assert values["o"] is made
    assert keys[made] == 1
    assert made in members
    proxy.z = 3
    assert made.z == 3


def test_an_object_may_hold_a_weak_reference_to_itself() -> None:
    thing: Any = Thing()
    thing.me = weakref.ref(thing)
    reference, made = trip((thing.me, thing))
    assert reference is made.me
    assert reference() is made


def test_a_weak_method_finds_its_method() -> None:
    thing = Thing()
    _made, method = trip((thing, weakref.WeakMethod(thing.method)))
    assert method()() == 5


def test_what_only_a_library_held_is_dead_and_that_is_said() -> None:
    thing = Thing()
    saved = save(weakref.ref(thing))
    assert saved.back()() is None
    assert "Thing" in saved.said.notes[0][1]


def test_dead_references_come_back_dead() -> None:
    thing = Thing()
    dead = (weakref.ref(thing), weakref.WeakMethod(thing.method), weakref.proxy(thing))
    del thing
    gc.collect()
    reference, method, proxy = trip(dead)
    assert reference() is None
    assert method() is None
    with pytest.raises(ReferenceError):
        proxy.method()


def test_a_finalizer_waits_for_the_restored_object() -> None:
    thing, done = Thing(), []
    end = weakref.finalize(thing, list)
    end.atexit = False
    thing, made = trip((thing, end))
    assert made.alive
    assert not made.atexit
    made.detach()
    assert not done


def test_a_chain_of_exceptions_is_kept_and_the_missing_frames_are_said() -> None:
    try:
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as cause:
            raise Failure(1, b=2) from cause
    except Failure as error:
        error.add_note("note")
        saved = save(error)
    made = saved.back()
    assert (made.args, made.b, made.__notes__) == (("message",), 2, ["note"])
    assert type(made.__cause__) is ZeroDivisionError
    assert made.__suppress_context__
    assert "traceback" in saved.said.notes[0][1]


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No", "f"),
        OSError("only"),
        KeyError("x"),
        StopIteration(5),
        SystemExit(3),
        UnicodeDecodeError("utf8", b"a", 0, 1, "r"),
        SyntaxError("m", ("f", 1, 2, "t")),
        ImportError("x", name="n"),
        AttributeError("a", name="n", obj=3),
        json.JSONDecodeError("m", "doc", 1),
    ],
)
def test_an_exception_keeps_its_fields(error: BaseException) -> None:
    made = trip(error)
    assert type(made) is type(error)
    assert (str(made), made.args) == (str(error), error.args)
    for name in ("errno", "filename", "value", "code", "name", "obj", "lineno", "start", "pos"):
        assert getattr(made, name, None) == getattr(error, name, None)


def test_a_group_of_exceptions_keeps_its_members() -> None:
    made = trip(ExceptionGroup("g", [ValueError(1), KeyError(2)]))
    assert [type(member) for member in made.exceptions] == [ValueError, KeyError]
