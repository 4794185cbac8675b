"""Definitions that are unusual, and what was done to them after they were made."""

STATES = [
    (
        "structures_that_reach_themselves_through_closures",
        r"""
# %%
def make():
    box = []
    def push(value): box.append(value); return len(box)
    def peek(): return box[-1]
    box.append((push, peek))
    push.partner, peek.partner = peek, push
    return push, peek, box
push, peek, box = make()
push(5)
class Owner:
    def __init__(self):
        self.callback = lambda: self
        self.table = {self: self.callback}
owner = Owner()
ring = {}
ring["tuple"] = (ring, [ring])
def fix(f):
    return (lambda x: x(x))(lambda y: f(lambda *a: y(y)(*a)))
fact = fix(lambda again: lambda n: 1 if n == 0 else n * again(n - 1))
cells = []
for n in range(3):
    def hold(n=n, cells=cells): return cells[n] is hold_of[n]
    cells.append(hold)
hold_of = list(cells)
# %% check
OK = (
    box[0][0] is push and push.partner is peek and peek() == 5 and push(6) == 3 and peek() == 6 and box[-1] == 6
    and owner.callback() is owner and owner.table[owner] is owner.callback and ring["tuple"][0] is ring
    and ring["tuple"][1][0] is ring and fact(5) == 120 and all(it() for it in cells)
)
""",
    ),
    (
        "cached_properties_and_single_values",
        r"""
# %%
import functools
calls = []
class Data:
    def __init__(self): self.raw = [1, 2, 3]
    @functools.cached_property
    def total(self):
        calls.append("total")
        return sum(self.raw)
    @functools.cached_property
    def view(self): return self.raw
    @functools.lru_cache(maxsize=2)
    def times(self, n):
        calls.append(n)
        return n * self.total
data, fresh = Data(), Data()
data.total, data.view, data.times(2), data.times(3)
# %% check
ok = [data.total == 6, calls == ["total", 2, 3], data.view is data.raw]
ok += [fresh.total == 6, calls == ["total", 2, 3, "total"], "view" not in vars(fresh)]
ok += [data.times(3) == 18, data.times(3) == 18, calls[4:] in ([], [3]), Data.times.cache_info().maxsize == 2]
OK = all(ok)
""",
    ),
    (
        "what_typing_knows",
        r"""
# %%
import typing, typing_extensions, collections.abc as cabc
from typing import Annotated, Callable, Concatenate, Generic, Literal, NamedTuple, NewType, ParamSpec, Protocol, TypedDict, TypeVar, get_type_hints, runtime_checkable
T = TypeVar("T", bound="Shape")
P = ParamSpec("P")
Ts = typing.TypeVarTuple("Ts")
class Shape(Generic[T]):
    items: "list[T]"
class Point(NamedTuple):
    x: int
    y: int = 2
    def norm(self): return abs(self.x) + abs(self.y)
class Options(TypedDict, total=False):
    size: int
    name: typing.Required[str]
@runtime_checkable
class Closes(Protocol):
    def close(self) -> None: ...
class Door:
    def close(self): pass
UserId = NewType("UserId", int)
Fn = Callable[Concatenate[int, P], T]
Meta = Annotated[int, Point(1), "unit"]
Alias = dict[str, list[T]]
Mode = Literal["r", "w"]
Stack = Shape[Point]
class Array(Generic[*Ts]):
    pass
Shaped = Array[int, str]
point = Point(3)
def deco(f: Callable[P, T]) -> Callable[P, T]:
    return f
# %% check
OK = (
    Shape.__parameters__ == (T,) and point.norm() == 5 and point == (3, 2) and type(point) is Point and Point._field_defaults == {"y": 2}
    and Options.__required_keys__ == {"name"} and isinstance(Door(), Closes) and not isinstance(3, Closes) and UserId(4) == 4
    and UserId.__supertype__ is int and typing.get_args(Meta)[1] == Point(1) and type(typing.get_args(Meta)[1]) is Point
    and typing.get_origin(Alias) is dict and Alias[Shape] == dict[str, list[Shape]] and typing.get_args(Mode) == ("r", "w")
    and typing.get_args(Stack) == (Point,) and typing.get_origin(Stack) is Shape and Fn.__parameters__ == (P, T)
    and deco.__annotations__["f"] == Callable[P, T] and typing.get_args(Shaped) == (int, str) and T.__bound__.__forward_arg__ == "Shape"
    and get_type_hints(Point)["x"] is int
)
""",
    ),
    (
        "metaclasses_that_count_and_register",
        r"""
# %%
made = []
class Meta(type):
    registry = {}
    @classmethod
    def __prepare__(meta, name, bases, **more): return {"__order__": []}
    def __new__(meta, name, bases, space, **more):
        made.append(name)
        cls = super().__new__(meta, name, bases, dict(space))
        cls.options = more
        meta.registry[name] = cls
        return cls
    def __init__(cls, name, bases, space, **more): super().__init__(name, bases, space)
    def __call__(cls, *args):
        one = super().__call__(*args)
        cls.count = getattr(cls, "count", 0) + 1
        return one
    def __len__(cls): return len(cls.registry)
    @property
    def shout(cls): return cls.__name__.upper()
class Base(metaclass=Meta, kind="base"):
    pass
class Child(Base, kind="child"):
    def __init_subclass__(cls, **kw): made.append("init " + cls.__name__); super().__init_subclass__()
class Leaf(Child): pass
one, two = Child(), Child()
single = {}
class Single(type):
    def __call__(cls, *a, **k):
        if cls not in single: single[cls] = super().__call__(*a, **k)
        return single[cls]
class Config(metaclass=Single):
    def __init__(self): self.v = 1
cfg = Config()
cfg.v = 7
# %% check
before = list(made)
ok = [before == ["Base", "Child", "Leaf", "init Leaf"] or before == ["Base", "Child", "init Leaf", "Leaf"] or sorted(before) == ["Base", "Child", "Leaf", "init Leaf"]]
ok += [Meta.registry["Child"] is Child, Child.options == {"kind": "child"}, Child.count == 2, len(Base) == 3, Leaf.shout == "LEAF"]
ok += [isinstance(one, Child), type(Leaf) is Meta, Config() is cfg, cfg.v == 7, single[Config] is cfg, Leaf.__mro__[1] is Child]
three = Child()
ok += [Child.count == 3, Child.__subclasses__() == [Leaf], Base.__subclasses__() == [Child]]
OK = all(ok)
""",
    ),
    (
        "descriptors_with_values_of_each_instance",
        r"""
# %%
import weakref
class Positive:
    def __set_name__(self, owner, name): self.name, self.owner = name, owner; self.values = weakref.WeakKeyDictionary()
    def __get__(self, one, kind=None): return self if one is None else self.values.get(one, 0)
    def __set__(self, one, value):
        if value < 0: raise ValueError(self.name)
        self.values[one] = value
class Lazy:
    def __init__(self, make): self.make = make
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, one, kind=None):
        if one is None: return self
        value = one.__dict__[self.name] = self.make(one)
        return value
class Account:
    balance, limit = Positive(), Positive()
    @Lazy
    def history(self): return [self.balance]
a, b = Account(), Account()
a.balance, b.balance, a.limit = 5, 7, 1
a.history.append("x")
# %% check
try:
    a.limit = -1
    ok = [False]
except ValueError as error:
    ok = [str(error) == "limit"]
ok += [a.balance == 5, b.balance == 7, a.limit == 1, b.limit == 0, a.history == [5, "x"], "history" not in vars(b)]
ok += [b.history == [7], Account.balance.owner is Account, len(Account.balance.values) == 2]
OK = all(ok)
""",
    ),
    (
        "objects_that_say_themselves_how_they_are_made",
        r"""
# %%
seen = []
class Six:
    def __init__(self, x): self.x = x; self.more = []
    def __reduce_ex__(self, protocol): return (Six, (self.x,), {"x": self.x, "y": 1}, None, None, put)
def put(one, state): one.__dict__.update(state); one.setter = True
class Bag(list):
    def __reduce__(self): return (Bag, (), {"label": self.label}, iter(self))
class Table(dict):
    def __reduce__(self): return (Table, (), None, None, iter(self.items()))
    def __setitem__(self, key, value): super().__setitem__(key, value); seen.append(key)
class Cycle:
    def __reduce__(self): return (Cycle, (), {"me": self, "all": [self]})
class Kw:
    def __new__(cls, *, size): one = super().__new__(cls); one.size = size; return one
    def __getnewargs_ex__(self): return ((), {"size": self.size})
class State:
    __slots__ = ("a", "_b", "__weakref__")
    def __getstate__(self): return (self.a, self._b)
    def __setstate__(self, state): self.a, self._b = state; self._b.append("restored")
six, bag, table, cycle, kw, st = Six(3), Bag([1, 2]), Table(), Cycle(), Kw(size=4), State()
six.more.append(six)
bag.label = "b"
bag.append(bag)
table["k"] = table
cycle.me = None
st.a, st._b = 1, []
both = [six, bag, six]
# %% check
OK = (
    six.setter and six.y == 1 and six.more == [] and bag[:2] == [1, 2] and bag[2] is bag and bag.label == "b" and type(bag) is Bag
    and table["k"] is table and cycle.me is cycle and cycle.all[0] is cycle and kw.size == 4 and st.a == 1 and st._b == ["restored"]
    and both[0] is both[2] is six and both[1] is bag
)
""",
    ),
    (
        "flags_and_enums_with_behaviour",
        r"""
# %%
import enum
class Perm(enum.Flag, boundary=enum.KEEP):
    R, W, X = 1, 2, 4
    RW = R | W
class Num(enum.IntFlag):
    A = 1
    B = 2
class Planet(enum.Enum):
    EARTH = (5.97, 6.37)
    MARS = (0.64, 3.39)
    def __init__(self, mass, radius): self.mass, self.radius = mass, radius; self.visits = []
    @property
    def g(self): return self.mass / self.radius ** 2
    @classmethod
    def _missing_(cls, value): return cls.EARTH
class Color(enum.StrEnum):
    @staticmethod
    def _generate_next_value_(name, *rest): return name.lower()
    RED = enum.auto()
class Auto(enum.Enum):
    _ignore_ = ["helper"]
    helper = 3
    FIRST = enum.auto()
    ALIAS = FIRST
    fn = enum.member(lambda self: 1)
    plain = enum.nonmember(5)
Dyn = enum.Enum("Dyn", "P Q", module="__main__")
Planet.MARS.visits.append("rover")
both, odd, unnamed = Perm.R | Perm.X, Perm(9), Num(8)
by = {Planet.MARS: 1, Color.RED: 2, both: 3}
member = Dyn.P
# %% check
OK = (
    both is Perm.R | Perm.X and Perm.RW == Perm.R | Perm.W and (odd & Perm.R) is Perm.R and odd.value == 9 and unnamed == 8 and isinstance(unnamed, Num)
    and Planet.MARS.visits == ["rover"] and Planet("nowhere") is Planet.EARTH and round(Planet.EARTH.g, 3) == 0.147 and by[Planet.MARS] == 1
    and Color.RED == "red" and Color("red") is Color.RED and Auto.ALIAS is Auto.FIRST and Auto.plain == 5 and by[Perm.R | Perm.X] == 3
    and member is Dyn.P and list(Dyn) == [Dyn.P, Dyn.Q] and Dyn["Q"] is Dyn.Q
) and by[Color.RED] == 2 and list(Planet) == [Planet.EARTH, Planet.MARS]
""",
    ),
    (
        "exceptions_with_their_causes",
        r"""
# %%
class Own(Exception):
    def __init__(self, code, *, detail): super().__init__(f"code {code}"); self.code, self.detail = code, detail
def fail():
    try:
        {}["k"]
    except KeyError as error:
        raise Own(3, detail=["d"]) from error
try:
    fail()
except Own as error:
    caught = error
try:
    try:
        1 / 0
    finally:
        int("x")
except ValueError as error:
    during = error
group = ExceptionGroup("several", [ValueError(1), ExceptionGroup("inner", [Own(4, detail=None)])])
group.add_note("remember")
suppressed = RuntimeError("s")
suppressed.__suppress_context__ = True
os_error = FileNotFoundError(2, "No such file", "a.txt")
uni = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
stop = StopIteration(5)
syn = SyntaxError("msg", ("f.py", 1, 2, "text"))
loop = ValueError("loop")
loop.__cause__ = Own(9, detail=loop)
# %% check
OK = (
    caught.code == 3 and str(caught) == "code 3" and caught.detail == ["d"] and type(caught.__cause__) is KeyError and caught.__cause__.args == ("k",)
    and type(during.__context__) is ZeroDivisionError and group.exceptions[1].exceptions[0].code == 4 and group.__notes__ == ["remember"]
    and suppressed.__suppress_context__ and os_error.filename == "a.txt" and os_error.errno == 2 and uni.object == b"\xff" and stop.value == 5
    and syn.lineno == 1 and loop.__cause__.detail is loop and group.split(ValueError)[0].exceptions[0].args == (1,)
)
# %% if reported: caught, during
OK = group.exceptions[1].exceptions[0].code == 4 and uni.object == b"\xff" and loop.__cause__.detail is loop
""",
    ),
    (
        "a_class_that_refers_to_itself_everywhere",
        r"""
# %%
class Node:
    registry = {}
    default: "Node"
    __match_args__ = ("name",)
    def __init__(self, name, parent=None):
        self.name, self.parent, self.kids = name, parent, []
        if parent: parent.kids.append(self)
        Node.registry.setdefault(type(self), []).append(self)
    def __eq__(self, other): return isinstance(other, Node) and self.name == other.name
    def __hash__(self): return hash(self.name)
    def __getitem__(self, i): return self.kids[i]
    def __contains__(self, x): return x in self.kids
    def __init_subclass__(cls): cls.sub = True
    class Inner:
        outer = None
    @classmethod
    def make(cls, *a): return cls(*a)
    @staticmethod
    def cls(): return __class__
Node.Inner.outer = Node
Node.default = Node("root")
class Special(Node): pass
leaf = Special.make("leaf", Node.default)
lookup = {leaf: "l", Node.default: {leaf: leaf}}
method, cmethod = leaf.make, Special.make
Alias = Node
del Node
# %% check
N = Alias
try:
    Special("leaf2")
    OK = False
except NameError:
    OK = N.Inner.outer is N and N.default.kids[0] is leaf and N.cls() is N and N.registry[Special][0] is leaf and "Node" not in globals()
OK = OK and lookup[leaf] == "l" and lookup[N.default][leaf] is leaf and leaf in N.default and Special.sub and leaf.parent is N.default
""",
    ),
    (
        "functions_that_were_changed_after_they_were_made",
        r"""
# %%
import functools, inspect, operator, types
def f(a, b=2, *c, d=4, **e): return a, b, c, d, e
f.__defaults__ = (7, [])
f.__kwdefaults__ = {"d": f.__defaults__[1]}
f.__annotations__["a"] = "int"
f.tags = {f}
f.__doc__, f.__qualname__ = "changed", "Other.f"
g = types.FunctionType(f.__code__.replace(co_name="g"), {"__name__": "elsewhere", "x": 1}, "g", (1, 2))
def uses(): return GLOBAL
h = types.FunctionType(uses.__code__, {"GLOBAL": "own", "__builtins__": __builtins__}, "h")
GLOBAL = "notebook"
part = functools.partial(f, 1, d=2)
part.attr = part
meth = functools.partialmethod(f, 1)
total = functools.cmp_to_key(lambda a, b: b - a)
getter, caller, item = operator.attrgetter("a.b"), operator.methodcaller("upper"), operator.itemgetter(1, 0)
@functools.wraps(f)
def wrapped(*a, **k): return ("w", *f(*a, **k))
code = compile("GLOBAL + '!'", "<made>", "eval")
bound = "abc".upper
sig = inspect.signature(f)
built = [].append
src = bound.__self__
def outer():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    def unset():
        return later
    if False: later = 1
    return inc, unset
inc, unset = outer()
inc()
# %% check
ok = [f(1) == (1, [], (), [], {}), f.__defaults__[1] is f.__kwdefaults__["d"], f in f.tags, f.__doc__ == "changed", f.__qualname__ == "Other.f"]
ok += [g.__globals__["x"] == 1 and g.__name__ == "g", h() == "own", uses() == "notebook", part.attr is part, part.keywords == {"d": 2}, part.func is f]
ok += [sorted([1, 3, 2], key=total) == [3, 2, 1], caller("a") == "A", item("xy") == ("y", "x"), wrapped.__wrapped__ is f, wrapped(1)[0] == "w"]
ok += [eval(code) == "notebook!", bound() == "ABC", list(sig.parameters) == ["a", "b", "c", "d", "e"], inc() == 2]
try:
    unset()
    ok += [False]
except NameError:
    ok += [True]
OK = all(ok)
""",
    ),
    (
        "names_that_hide_builtins_and_the_machinery",
        r"""
# %%
print_ = print
def print(*a, **k): log.append(a)
log = []
list = [1, 2]
id = lambda x: 7
type_ = type
isinstance_ = isinstance
object_ = object
class dict(dict):
    extra = 1
made = dict(a=1)
made.extra = 2
len = None
__all__ = ["made"]
__secretless__ = 5
_private = {"k": made}
données, 变量 = [1], {"é": 2}
# %% check
print("x")
OK = (
    log == [("x",)] and list == [1, 2] and id(0) == 7 and made["a"] == 1 and made.extra == 2 and type_(made) is dict and len is None
    and __all__ == ["made"] and __secretless__ == 5 and _private["k"] is made and données == [1] and 变量["é"] == 2
)
""",
    ),
]
