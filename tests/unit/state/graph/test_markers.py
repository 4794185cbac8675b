"""What cannot be saved, or not be made again: it costs itself, is named, and says so when it is touched."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpupool.state.errors import LostValue
from jupyter_gpupool.state.graph import lost
from tests.support.namespaces import Kernel, Trip

BAD = (
    "class Bad:\n"
    "    def __reduce__(self): raise RuntimeError('it has a handle')\n"
    "class Breaks:\n"
    "    def __init__(self): self.x = 1\n"
    "    def __setstate__(self, state): raise ValueError('not again')\n"
    "class Fragile:\n"
    "    def __reduce__(self): return make, (1,)\n"
    "def make(x): raise OSError('gone')\n"
)


def test_one_bad_member_costs_only_itself() -> None:
    trip = Trip(BAD + "cfg = {'db': [Bad(), 1], 'ok': 2}; other = [3]; whole = Bad()")
    assert trip.holds("cfg['ok'] == 2 and cfg['db'][1] == 1 and other == [3]")
    assert trip.paths() == ["cfg['db'][0]", "whole"]
    (first, _) = trip.report.findings
    assert first.type_name == "Bad"
    assert "it has a handle" in first.reason
    assert first.variable == "cfg"


def test_a_marker_can_be_looked_at_and_refuses_every_other_touch() -> None:
    trip = Trip(BAD + "bad = Bad()")
    bad = trip.after["bad"]
    assert "Bad" in repr(bad)
    assert {bad: 1}[bad] == 1
    assert bad == bad
    assert bad != 1
    touches: list[Any] = [
        *(lambda b: b.x, lambda b: b(), lambda b: b[0], len, iter, bool, lambda b: b + 1, lambda b: 1 + b),
        *(lambda b: b < 1, lambda b: 1 in b, int, lambda b: setattr(b, "x", 1), lambda b: f"{b:>3}"),
    ]
    for touch in touches:
        with pytest.raises(LostValue, match="it has a handle"):
            touch(bad)
    assert not hasattr(bad, "_repr_html_")


def test_what_fails_while_it_is_made_again_is_named_and_costs_only_itself() -> None:
    trip = Trip(BAD + "a = [Fragile(), 1]; b = {'k': Breaks()}; c = Breaks(); d = (Breaks(), 2)")
    assert trip.holds("a[1] == 1 and d[1] == 2")
    assert sorted(trip.paths()) == ["a[0]", "b['k']", "c", "d[0]"]
    for expression in ("a[0].x", "b['k'].x", "c.x", "d[0].x"):
        with pytest.raises(LostValue):
            trip.after.eval(expression)


def test_classes_of_a_module_that_is_gone_are_told_with_their_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = ModuleType("gone_module")
    gone.__spec__ = sys.__spec__
    exec(  # noqa: S102 (a module)
        "class Thing:\n    def __init__(self): self.x = 1\nclass Two(dict): pass\ndef helper(): pass",
        gone.__dict__,
    )
    kernel, fresh = Kernel(), Kernel()
    trip = Trip()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gone_module", gone)
        kernel.run(
            "from gone_module import Thing, Two, helper\n"
            "things = [Thing(), Two(a=1), 5]\nclass Mine(Thing): pass\nmine = Mine(); z = 3"
        )
        snapshot = kernel.save(trip.store)
    report = fresh.restore(snapshot)
    assert fresh["z"] == 3
    assert fresh["things"][2] == 5
    assert all(lost.is_lost(value) for value in (*fresh["things"][:2], fresh["helper"], fresh["mine"]))
    assert any("gone_module is not installed here" in finding.reason for finding in report.findings)
    with pytest.raises(LostValue, match="not installed here"):
        fresh["Thing"]()


def test_a_marker_is_saved_as_one_again() -> None:
    trip = Trip(BAD + "box = [Bad()]")
    again = Kernel()
    report = again.restore(trip.after.save(trip.store, "again"))
    assert lost.is_lost(again["box"][0])
    assert report.findings[0].path == "box[0]"


def test_in_the_same_kernel_what_is_lost_leaves_what_is_there() -> None:
    trip = Trip(BAD + "g = (i for i in range(3)); bad = Bad(); x = 1")
    trip.before.run("x = 2; before = (g, bad)")
    report = trip.before.restore(trip.snapshot)
    assert trip.before["x"] == 1
    assert not lost.is_lost(trip.before["g"])
    assert report.kept == ["g", "bad"]
    assert report.removed == ["before"]
    assert "g, bad" in report.text()
    assert "before" in report.text()


def test_many_alike_are_told_in_a_few_lines() -> None:
    trip = Trip("gens = [(i for i in range(3)) for _ in range(500)]")
    assert len(trip.report.findings) == 10
    assert "490 more" in trip.report.text()


def test_code_that_never_ends_costs_only_its_value() -> None:
    trip = Trip(
        "class Endless:\n    def __reduce__(self): return self.__reduce__()\ne = [Endless(), 1]; z = 2"
    )
    assert trip.paths() == ["e[0]"]
    assert trip.holds("e[1] == 1 and z == 2")


#: Classes that stop whoever asks their values, or themselves, anything.
ODD = {
    "a class that raises": "class Odd:\n    @property\n    def __class__(self): raise RuntimeError('no')",
    "another class": "class Odd:\n    @property\n    def __class__(self): return int",
    "no dict": "class Odd:\n    @property\n    def __dict__(self): raise RuntimeError('no')",
    "no attribute": "class Odd:\n    def __getattribute__(self, name): raise RuntimeError('no')",
    "a list that raises": (
        "class Odd(list):\n    @property\n    def __class__(self): raise RuntimeError('no')\n"
        "    def __iter__(self): raise RuntimeError('no')"
    ),
    "text that raises": "class Odd(str):\n    @property\n    def __class__(self): raise RuntimeError('no')",
    "a metaclass without attributes": (
        "class Meta(type):\n    def __getattribute__(cls, name): raise RuntimeError('no')\n"
        "class Odd(metaclass=Meta): pass"
    ),
    "a metaclass without a module": (
        "class Meta(type):\n    @property\n    def __module__(cls): raise RuntimeError('no')\n"
        "class Odd(metaclass=Meta): pass"
    ),
    "a metaclass without a hash": (
        "class Meta(type):\n    def __hash__(cls): raise RuntimeError('no')\nclass Odd(metaclass=Meta): pass"
    ),
    "a metaclass that cannot compare": (
        "class Meta(type):\n    def __eq__(cls, other): raise RuntimeError('no')\n"
        "    def __hash__(cls): return 1\nclass Odd(metaclass=Meta): pass"
    ),
    "an exit": "class Odd:\n    def __reduce__(self): raise SystemExit",
}


@pytest.mark.parametrize("code", ODD.values(), ids=ODD)
def test_a_value_that_raises_whatever_it_is_asked_costs_only_itself(code: str) -> None:
    trip = Trip(f"{code}\nx = [1]; other = [Odd(), 2]; whole = Odd()")
    assert trip.holds("x == [1] and other[1] == 2")
    assert set(trip.paths()) <= {"Odd", "other[0]", "whole"}
    assert all(finding.reason.startswith("saving it failed") for finding in trip.report.findings)


def test_a_class_that_says_of_its_instances_what_python_says_of_classes_comes_back() -> None:
    trip = Trip(
        "class Proxy:\n    @property\n    def __class__(self): return list\n    __name__ = 'an instance'\n"
        "    __bases__ = (1,)\nproxy = Proxy()"
    )
    assert trip.paths() == []
    assert trip.holds("isinstance(proxy, list) and type(proxy) is Proxy and proxy.__name__ == 'an instance'")
    assert trip.holds("Proxy.__name__ == 'Proxy' and vars(Proxy)['__bases__'] == (1,)")


def test_what_stops_a_pass_in_the_pickler_itself_costs_only_its_variable() -> None:
    odd = "class Odd: __slotnames__ = 5\n"
    trip = Trip(odd + "before = [1]; bad = [Odd(), 5]; worse = Odd(); shared = before")
    assert trip.paths() == ["bad", "worse"]
    assert "__slotnames__ should be a list" in trip.report.findings[0].reason
    assert trip.holds("before == [1] and shared is before")
