"""Functions and classes that were written in the notebook."""

STATES = [
    (
        "closures_share_a_cell",
        r"""
# %%
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def get():
        return n
    return up, get
up, get = counter()
up()
# %% check
up()
OK = get() == 2
""",
    ),
    (
        "a_recursive_closure_and_mutual_recursion",
        r"""
# %%
def make():
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)
    return fact
fact = make()
def even(n):
    return n == 0 or odd(n - 1)
def odd(n):
    return n != 0 and even(n - 1)
# %% check
OK = fact(5) == 120 and even(10) and odd(7)
""",
    ),
    (
        "a_function_with_everything",
        r"""
# %%
def f(a, /, b: int = 2, *args, c=[1], **kw) -> "str":
    "doc"
    return a + b + len(args) + c[0]
f.calls = 3
shared = f.__kwdefaults__["c"]
async def co():
    return 1
def gen():
    yield 1
# %% check
shared[0] = 10
import inspect
OK = f(1, 2, 3) == 14 and f.calls == 3 and f.__doc__ == "doc" and f.__annotations__["b"] is int
OK = OK and inspect.iscoroutinefunction(co) and list(gen()) == [1] and f.__module__ == "__main__"
""",
    ),
    (
        "a_decorator_and_its_wrapped_function",
        r"""
# %%
import functools
log = []
def logged(fn):
    @functools.wraps(fn)
    def inner(*a):
        log.append(fn.__name__)
        return fn(*a)
    return inner
@logged
def twice(x):
    return 2 * x
twice(1)
# %% check
OK = twice(4) == 8 and log == ["twice", "twice"] and twice.__wrapped__(1) == 2
""",
    ),
    (
        "a_cached_function",
        r"""
# %%
import functools
calls = []
@functools.lru_cache(maxsize=10)
def slow(x):
    calls.append(x)
    return x * 2
slow(2)
class Lazy:
    @functools.cached_property
    def v(self):
        calls.append("v")
        return 5
    @functools.cache
    def m(self):
        return 1
lazy = Lazy()
lazy.v
# %% check
n = len(calls)
OK = lazy.v == 5 and len(calls) == n and slow(2) == 4 and slow.cache_parameters()["maxsize"] == 10 and lazy.m() == 1
""",
    ),
    (
        "a_redefined_class_keeps_its_instances",
        r"""
# %%
class A:
    def v(self):
        return 1
old = A()
# %%
class A:
    def v(self):
        return 2
new = A()
# %% check
OK = old.v() == 1 and new.v() == 2 and type(new) is A and type(old) is not A and type(old).__name__ == "A"
""",
    ),
    (
        "inheritance_super_and_class_attributes",
        r"""
# %%
class Base:
    registry = []
    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        Base.registry.append(cls)
    def hello(self):
        return "base"
class Child(Base):
    def hello(self):
        return super().hello() + "+child"
    @classmethod
    def make(cls):
        return cls()
    @staticmethod
    def s():
        return 1
    @property
    def p(self):
        return self._p
    @p.setter
    def p(self, v):
        self._p = v
c = Child.make()
c.p = 5
# %% check
OK = c.hello() == "base+child" and Base.registry == [Child] and c.p == 5 and Child.s() == 1 and Child.make().hello() == c.hello()
class Grand(Child): pass
OK = OK and Base.registry == [Child, Grand]
""",
    ),
    (
        "enums_of_all_kinds",
        r"""
# %%
import enum
class Kind(enum.Enum):
    A = "a"
    B = "b"
    ALSO = "a"
    def shout(self):
        return self.value.upper()
class Bits(enum.Flag):
    X = enum.auto()
    Y = enum.auto()
class Num(enum.IntEnum):
    ONE = 1
class Text(enum.StrEnum):
    T = enum.auto()
held = {Kind.A: [Bits.X | Bits.Y], Num.ONE: Text.T}
# %% check
OK = (
    Kind("a") is Kind.A and Kind.ALSO is Kind.A and Kind.B.shout() == "B" and list(held)[0] is Kind.A
    and held[Kind.A][0] == Bits.X | Bits.Y and Num(1) is Num.ONE and Text.T == "t" and len(Kind) == 2
    and isinstance(held[Num.ONE], Text) and Bits.X in held[Kind.A][0]
)
""",
    ),
    (
        "dataclasses_of_all_kinds",
        r"""
# %%
import dataclasses, typing
@dataclasses.dataclass(frozen=True, order=True, slots=True)
class P:
    x: int
    tags: tuple = ()
@dataclasses.dataclass(kw_only=True)
class Q:
    p: P
    items: list = dataclasses.field(default_factory=list)
    later: typing.ClassVar[int] = 3
    _hidden: int = dataclasses.field(default=1, repr=False, compare=False)
q = Q(p=P(1), items=[P(2)])
# %% check
OK = q == Q(p=P(1), items=[P(2)]) and P(1) < P(2) and len(dataclasses.fields(Q)) == 3 and dataclasses.replace(q, p=P(9)).p.x == 9
try:
    q.p.x = 5
    OK = False
except dataclasses.FrozenInstanceError:
    pass
""",
    ),
    (
        "abstract_classes_and_virtual_subclasses",
        r"""
# %%
import abc
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Square(Shape):
    def area(self):
        return 4
class Odd:
    pass
Shape.register(Odd)
s = Square()
# %% check
OK = isinstance(s, Shape) and issubclass(Odd, Shape) and s.area() == 4
try:
    Shape()
    OK = False
except TypeError:
    pass
""",
    ),
    (
        "a_metaclass_and_descriptors",
        r"""
# %%
class Meta(type):
    made = []
    def __new__(m, name, bases, ns, **kw):
        cls = super().__new__(m, name, bases, ns)
        m.made.append(name)
        return cls
    def __call__(cls, *a):
        obj = super().__call__(*a)
        obj.born = True
        return obj
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, obj, kind=None):
        return self if obj is None else getattr(obj, self.name)
    def __set__(self, obj, v):
        if v < 0:
            raise ValueError(v)
        setattr(obj, self.name, v)
class M(metaclass=Meta):
    v = Positive()
m = M()
m.v = 3
# %% check
OK = m.v == 3 and m.born and Meta.made == ["M"] and type(M) is Meta and M().born
try:
    m.v = -1
    OK = False
except ValueError:
    pass
""",
    ),
    (
        "generics_and_typed_things",
        r"""
# %%
import typing
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v: T):
        self.v = v
class Proto(typing.Protocol):
    def go(self) -> int: ...
class TD(typing.TypedDict, total=False):
    a: int
alias = dict[str, list[int]]
opt = typing.Optional[int]
IntBox = Box[int]
b = Box[int](3)
class NT(typing.NamedTuple):
    x: int
    y: str = "d"
    def s(self):
        return f"{self.x}{self.y}"
nt = NT(1)
# %% check
OK = b.v == 3 and type(b) is Box and IntBox is Box[int] or IntBox == Box[int]
OK = OK and nt.s() == "1d" and isinstance(nt, NT) and TD(a=1) == {"a": 1} and alias == dict[str, list[int]] and NT._fields == ("x", "y")
OK = OK and Box.__parameters__ == (T,) and opt == typing.Optional[int]
""",
    ),
    (
        "a_class_with_slots_and_dict",
        r"""
# %%
class S:
    __slots__ = ("a", "__dict__", "__weakref__")
class Sub(S):
    __slots__ = ("b",)
s = Sub()
s.a, s.b, s.c = 1, [2], 3
empty = Sub()
# %% check
OK = (s.a, s.b, s.c) == (1, [2], 3) and not hasattr(empty, "a")
import weakref
weakref.ref(s)
""",
    ),
    (
        "a_local_class_and_a_class_in_a_class",
        r"""
# %%
def factory(k):
    class Local:
        factor = k
        class Inner:
            pass
        def go(self, x):
            return x * k * type(self).factor
    return Local
L2, L3 = factory(2), factory(3)
l2, l3 = L2(), L3()
inner = L2.Inner()
# %% check
OK = l2.go(1) == 4 and l3.go(1) == 9 and type(l2) is L2 and type(l3) is L3 and type(inner) is L2.Inner and L2 is not L3
""",
    ),
    (
        "single_dispatch_method_and_overloads",
        r"""
# %%
import functools
class Fmt:
    @functools.singledispatchmethod
    def show(self, x):
        return "obj"
    @show.register
    def _(self, x: int):
        return "int"
@functools.singledispatch
def kind(x):
    return "any"
@kind.register(list)
def kind_list(x):
    return "list"
class Mine(list):
    pass
# %% check
OK = Fmt().show(1) == "int" and Fmt().show("s") == "obj" and kind(Mine()) == "list" and kind_list([]) == "list"
kind.register(Mine, lambda x: "mine")
OK = OK and kind(Mine()) == "mine"
""",
    ),
    (
        "a_module_made_by_hand",
        r"""
# %%
import types, sys
mod = types.ModuleType("handmade")
exec("v = 1\ndef f():\n    return v", mod.__dict__)
f = mod.f
# %% check
mod.v = 7
OK = f() == 7 and mod.__name__ == "handmade"
""",
    ),
    (
        "functions_of_a_file_that_was_imported",
        r"""
# %%
open("helpers_here.py", "w").write("STATE = []\nclass H:\n    pass\ndef add(x):\n    STATE.append(x)\n    return len(STATE)\n")
import sys, os
sys.path.insert(0, os.getcwd())
import helpers_here
from helpers_here import H, add
h = H()
# %% check
OK = type(h) is H and H is helpers_here.H and add(1) >= 1
""",
    ),
    (
        "a_class_attribute_that_was_changed_and_a_patched_method",
        r"""
# %%
class C:
    n = 0
    def f(self):
        return "f"
c = C()
C.n = 5
C.g = lambda self: self.f() + "g"
c.f = lambda: "patched"
# %% check
OK = C.n == 5 and c.g() == "patchedg" and C().g() == "fg"
""",
    ),
    (
        "operators_and_call_protocols",
        r"""
# %%
class V:
    def __init__(self, *x):
        self.x = x
    def __add__(self, o):
        return V(*(a + b for a, b in zip(self.x, o.x)))
    def __eq__(self, o):
        return isinstance(o, V) and self.x == o.x
    def __hash__(self):
        return hash(self.x)
    def __call__(self, y):
        return y * len(self.x)
    def __enter__(self):
        return self
    def __exit__(self, *a):
        return False
    def __getattr__(self, name):
        if name.startswith("dyn"):
            return name
        raise AttributeError(name)
v = V(1, 2)
seen = {v: "v"}
# %% check
OK = v + v == V(2, 4) and seen[V(1, 2)] == "v" and v(3) == 6 and v.dynx == "dynx"
""",
    ),
]
