"""Functions and classes of the notebook, by value."""

from __future__ import annotations

import pytest

from tests.support.namespaces import Trip


def test_functions_look_names_up_in_the_restored_namespace() -> None:
    trip = Trip("k = 5\nf = lambda x: x + k\ndef g(a, *, b=[1]): return f(a), b\ng.note = g")
    trip.after.run("k = 10")
    assert trip.holds("f(1) == 11 and g(1) == (11, [1]) and g.note is g and f.__globals__ is globals()")


def test_closures_share_their_cells_and_reach_themselves() -> None:
    trip = Trip(
        "def pair():\n"
        "    n = 0\n"
        "    def up():\n"
        "        nonlocal n\n"
        "        n += 1\n"
        "        return n\n"
        "    def now(): return n\n"
        "    def fact(i): return 1 if i < 2 else i * fact(i - 1)\n"
        "    return up, now, fact\n"
        "up, now, fact = pair(); up(); cell = up.__closure__[0]"
    )
    assert trip.holds("up() == 2 and now() == 2 and fact(5) == 120 and cell is now.__closure__[0]")


def test_classes_keep_their_instances_and_what_was_changed_in_them() -> None:
    trip = Trip(
        "class P:\n"
        "    n = 0\n"
        "    def __init__(self, v): self.v = v; P.n += 1\n"
        "    def twice(self): return self.v * 2\n"
        "p = P(4); q = [P(1)]; bound = p.twice; old = p",
        "class P:\n    new = True\nfresh = P()",
    )
    assert trip.holds("type(old) is type(q[0]) and type(old) is not P and type(fresh) is P and fresh.new")
    assert trip.holds("bound.__self__ is old and bound() == 8 and type(old).n == 2")


def test_made_classes_of_the_standard_library() -> None:
    trip = Trip(
        "import enum, dataclasses, collections, typing, abc, functools\n"
        "class Color(enum.Enum):\n    RED = 1\n    ALSO = 1\n"
        "class Bits(enum.Flag):\n    A = 1\n    B = 2\n"
        "class Level(enum.IntEnum):\n    LOW = 1\n"
        "@dataclasses.dataclass(slots=True)\nclass D:\n    x: int = 1\n"
        "    y: list = dataclasses.field(default_factory=list)\n"
        "@dataclasses.dataclass(frozen=True)\nclass F:\n    x: int\n"
        "N = collections.namedtuple('N', 'a b', defaults=[3])\n"
        "class NT(typing.NamedTuple):\n    z: int = 4\n"
        "class TD(typing.TypedDict, total=False):\n    k: int\n"
        "T = typing.TypeVar('T', bound=int)\n"
        "class G(typing.Generic[T]):\n    pass\n"
        "@typing.runtime_checkable\nclass Can(typing.Protocol):\n    def go(self) -> int: ...\n"
        "class Base(abc.ABC):\n    @abc.abstractmethod\n    def go(self): ...\n"
        "class Real(Base):\n    def go(self): return 7\n"
        "Base.register(int)\n"
        "c, bits, low, d, f = Color.RED, Bits.A | Bits.B, Level.LOW, D(5), F(1)\n"
        "n, t, g, r = N(1), NT(), G[int], Real()"
    )
    assert trip.holds(
        "c is Color.RED is Color(1) is Color['ALSO'] and bits == Bits.A | Bits.B and Bits.A in bits"
    )
    assert trip.holds("low is Level.LOW and low == 1 and list(Color) == [c]")
    assert trip.holds("d == D(5) and d.y == [] and not hasattr(d, '__dict__') and {f: 1}[F(1)] == 1")
    assert trip.holds("n == N(1, 3) and n._asdict() == {'a': 1, 'b': 3} and t == NT(4) and N(2) == (2, 3)")
    assert trip.holds("TD(k=1) == {'k': 1} and g == G[int] and G.__parameters__ == (T,)")
    assert trip.holds("isinstance(r, Can) and not isinstance(3, Can) and isinstance(3, Base) and r.go() == 7")
    with pytest.raises(TypeError, match="abstract"):
        trip.after.run("Base()")
    with pytest.raises(AttributeError):
        trip.after.run("f.x = 2")


def test_no_hook_of_a_class_runs_while_classes_are_made_again() -> None:
    trip = Trip(
        "made = []\n"
        "class Meta(type):\n"
        "    def __new__(m, name, bases, ns, **k):\n"
        "        made.append(name)\n"
        "        return super().__new__(m, name, bases, ns)\n"
        "    def __init__(c, name, bases, ns, **k): super().__init__(name, bases, ns)\n"
        "    def twice(c): return c.n * 2\n"
        "class Told:\n"
        "    def __init_subclass__(cls, *, needed, **k): made.append(needed)\n"
        "class Field:\n"
        "    def __set_name__(self, owner, name): self.name = name; made.append(name)\n"
        "    def __get__(self, obj, kind=None): return self if obj is None else obj.__dict__.get(self.name)\n"
        "class A(metaclass=Meta, opt=1):\n    n = 4\n    f = Field()\n"
        "class B(Told, needed='b'): pass\n"
        "a = A(); a.__dict__['f'] = 9"
    )
    assert trip.holds("made == ['f', 'A', 'b'] or made == ['A', 'f', 'b']")
    assert trip.holds("type(A) is Meta and A.twice() == 8 and a.f == 9 and B.__mro__[1] is Told")


def test_what_functools_makes() -> None:
    trip = Trip(
        "import functools\n"
        "@functools.singledispatch\ndef h(x): return 'o'\n"
        "@h.register\ndef _(x: int): return 'i'\n"
        "@functools.lru_cache(maxsize=7)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "fib(10)\n"
        "class C:\n"
        "    @functools.cached_property\n    def once(self): return object()\n"
        "    @property\n    def p(self): 'said'; return 1\n"
        "    @staticmethod\n    def s(): return 2\n"
        "    @classmethod\n    def k(cls): return cls\n"
        "c = C(); was = c.once; half = functools.partial(fib, 9); up = 'a'.upper; app = [].append"
    )
    assert trip.holds("h(1) == 'i' and h('s') == 'o' and fib(20) == 6765 and half() == 34")
    assert trip.holds("fib.cache_parameters()['maxsize'] == 7 and c.once is was and C().once is not was")
    assert trip.holds("c.p == 1 and C.s() == 2 and C.k() is C and up() == 'A' and app(1) is None")
    assert trip.paths("rebuilt") == ["fib"]


def test_modules_made_by_hand_come_back_with_what_they_hold() -> None:
    trip = Trip(
        "import types, sys\n"
        "m = types.ModuleType('made_here')\n"
        "exec('n = 1\\ndef up():\\n    global n\\n    n += 1\\n    return n', m.__dict__)\n"
        "up = m.up; ns = {}; exec('def f(): return g()\\ndef g(): return 4', ns)"
    )
    assert trip.holds(
        "up() == 2 and m.n == 2 and m.up is up and ns['f']() == 4 and ns['f'].__globals__ is ns"
    )


def test_async_functions_generators_of_the_class_and_annotations() -> None:
    trip = Trip(
        "import asyncio, inspect\n"
        "async def co(x: int = 3) -> 'str': return x\n"
        "def gen():\n    yield 1\n"
        "class Deep:\n    class Inner:\n        def f(self): return __class__\n"
        "i = Deep.Inner()"
    )
    assert trip.holds("asyncio.run(co()) == 3 and list(gen()) == [1] and i.f() is Deep.Inner")
    assert trip.holds(
        "co.__annotations__ == {'x': int, 'return': 'str'} and Deep.Inner.__qualname__ == 'Deep.Inner'"
    )
    assert trip.holds("inspect.getsource(gen) == 'def gen():\\n    yield 1\\n'")
