"""Plain values: one graph, with identity kept."""

from __future__ import annotations

import pytest

from tests.support.namespaces import Kernel, Trip


def test_values_come_back_equal_and_of_the_same_type() -> None:
    trip = Trip(
        "x = 2 ** 200; s = 'é\\0'; b = b'\\0'; c = 3 + 4j; r = range(3); sl = slice(1, 2)\n"
        "d = {(1, 2): [{3}, frozenset({4}), None, ...]}; n = NotImplemented; t = type(None)"
    )
    assert trip.holds("x == 2 ** 200 and s == 'é\\0' and b == b'\\0' and c == 3 + 4j and r == range(3)")
    assert trip.holds("d == {(1, 2): [{3}, frozenset({4}), None, ...]} and sl == slice(1, 2)")
    assert trip.holds("n is NotImplemented and t is type(None)")
    assert not trip.report.findings


def test_names_for_one_object_stay_names_for_one_object() -> None:
    trip = Trip(
        "a = [1]; b = a; d = {'k': a}; t = (a, a); loop = []; loop.append(loop); me = {}; me['me'] = me"
    )
    assert trip.holds("a is b and d['k'] is a and t[0] is t[1] is a and loop[0] is loop and me['me'] is me")


def test_the_namespace_itself_and_modules_are_met_not_saved() -> None:
    trip = Trip(
        "import os.path as osp, sys; g = globals(); mods = sys.modules; p = sys.path; out = sys.stdout"
    )
    assert trip.after["g"] is trip.after.namespace
    assert trip.holds("mods is sys.modules and p is sys.path and osp.join('a', 'b') == 'a/b'")


def test_cycles_through_objects_with_hashes_of_their_own() -> None:
    trip = Trip(
        "class N:\n"
        "    def __init__(self, name): self.name = name; self.near = set(); self.by = {}\n"
        "    def __hash__(self): return hash(self.name)\n"
        "    def __eq__(self, other): return self.name == other.name\n"
        "a, b = N('a'), N('b'); a.near.add(b); b.near.add(a); a.by[b] = 1; b.by[a] = 2; a.by[a] = 3"
    )
    assert trip.holds("b in a.near and a in b.near and a.by[b] == 1 and b.by[a] == 2 and a.by[N('a')] == 3")
    assert trip.holds("next(iter(a.near)) is b and list(a.by) == [b, a]")


def test_classes_with_hooks_come_back_without_running_into_them() -> None:
    trip = Trip(
        "class Proxy:\n"
        "    def __init__(self, inner): self.inner = inner\n"
        "    def __getattr__(self, name): return getattr(self.inner, name)\n"
        "class Still:\n"
        "    __slots__ = ('x', '__weakref__')\n"
        "    def __init__(self, x): object.__setattr__(self, 'x', x)\n"
        "    def __setattr__(self, name, value): raise AttributeError('it cannot be changed')\n"
        "class Needs:\n"
        "    def __new__(cls, what): made = super().__new__(cls); made.what = what; return made\n"
        "    def __getnewargs__(self): return (self.what,)\n"
        "p = Proxy([1]); s = Still(5); n = Needs([2])"
    )
    assert trip.holds("p.count(1) == 1 and s.x == 5 and n.what == [2]")


def test_the_dict_of_an_object_stays_its_dict() -> None:
    trip = Trip("class C: pass\nc = C(); c.x = 1; d = vars(c); held = [c.__dict__]")
    trip.after.run("d['y'] = 2")
    assert trip.holds("c.y == 2 and held[0] is d and vars(c) is d")


@pytest.mark.parametrize("depth", [100_000])
def test_a_chain_of_a_hundred_thousand_links_comes_back(depth: int) -> None:
    trip = Trip(
        "class Link: pass\n"
        f"head = None\nfor i in range({depth}):\n"
        "    new = Link(); new.next = head; head = new\n"
        "del new"
    )
    link, length = trip.after["head"], 0
    while link is not None:
        link, length = link.next, length + 1
    assert length == depth
    for kernel in (trip.before, trip.after):
        _unlink(kernel)


def _unlink(kernel: Kernel) -> None:
    """Take a chain apart link by link, so that nothing deep is freed at once."""
    link = kernel.namespace.pop("head")
    while link is not None:
        link.next, link = None, link.next
