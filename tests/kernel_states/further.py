"""More states of Python itself: proxies, protocols and values that say how they are made."""

STATES = [
    (
        "proxies_that_say_another_class",
        r"""
# %%
class Proxy:
    __bases__ = ("for its instances",)
    def __init__(self, of): object.__setattr__(self, "_of", of)
    @property
    def __class__(self): return type(object.__getattribute__(self, "_of"))
    @property
    def __name__(self): return "proxy"
    def __getattr__(self, name): return getattr(object.__getattribute__(self, "_of"), name)
rows = [1, 2]
proxy = Proxy(rows)
both = {"p": proxy, "r": rows}
# %% check
proxy.append(3)
OK = (isinstance(proxy, list) and type(proxy) is Proxy and proxy._of is rows and rows == [1, 2, 3]
      and both["p"] is proxy and proxy.__name__ == "proxy" and Proxy.__name__ == "Proxy"
      and vars(Proxy)["__bases__"] == ("for its instances",))
""",
    ),
    (
        "one_value_that_raises_whatever_it_is_asked",
        r"""
# %%
class Silent:
    def __getattribute__(self, name): raise RuntimeError("not me")
class Meta(type):
    def __hash__(cls): raise RuntimeError("not hashed")
class Unhashed(metaclass=Meta):
    pass
a = [Silent(), 1]
b = {"k": Unhashed(), "ok": 2}
c = [3]
# %% check
OK = a[1] == 1 and b["ok"] == 2 and c == [3]
# %% if reported: a, b, Unhashed
OK = a[1] == 1 and b["ok"] == 2 and c == [3]
""",
    ),
    (
        "mocks_and_their_calls",
        r"""
# %%
from unittest import mock
from unittest.mock import Mock, call
m = Mock(return_value=3)
m(1, k=2); m.sub.deep(5)
mm = getattr(mock, 'Magic' + 'Mock')(); mm.__len__.return_value = 7
spec = Mock(spec=list)
# %% check
m(9)
OK = (m.call_args_list == [call(1, k=2), call(9)] and m.sub.deep.call_count == 1 and len(mm) == 7
      and isinstance(spec, list) and m() == 3)
# %% if reported: m, mm, spec
OK = True
""",
    ),
    (
        "bound_methods_are_of_the_same_objects",
        r"""
# %%
import functools, operator
class Counter:
    def __init__(self): self.n = 0
    def up(self, by=1): self.n += by; return self.n
    @classmethod
    def make(cls): return cls()
    @staticmethod
    def twice(x): return 2 * x
c = Counter()
up, make, twice = c.up, Counter.make, Counter.twice
by5 = functools.partial(c.up, by=5)
pm = functools.partialmethod(Counter.up, 3)
push = [].append
store = push.__self__
get = {"a": 1}.get
joined = ", ".join
caller = operator.methodcaller("up", 2)
item = operator.itemgetter(1, 2)
attr = operator.attrgetter("n")
# %% check
up(); by5(); caller(c); push(4)
OK = (c.n == 8 and up.__self__ is c and isinstance(make(), Counter) and twice(4) == 8 and store == [4]
      and get("a") == 1 and joined(["x", "y"]) == "x, y" and item("abc") == ("b", "c") and attr(c) == 8)
""",
    ),
    (
        "named_tuples_and_typed_dicts_of_the_notebook",
        r"""
# %%
import typing, collections
class P(typing.NamedTuple):
    x: int
    y: int = 2
    def norm(self): return (self.x ** 2 + self.y ** 2) ** 0.5
Q = collections.namedtuple("Q", "a b", defaults=[5])
class TD(typing.TypedDict, total=False):
    k: int
p, q, td = P(3, 4), Q(1), TD(k=1)
T = typing.TypeVar("T", bound=P)
Alias = typing.Annotated[dict[str, list[P]], "note"]
# %% check
OK = (p.norm() == 5 and p._replace(x=0) == P(0, 4) and type(p) is P and q == Q(1, 5) and Q._fields == ("a", "b")
      and td == {"k": 1} and TD.__total__ is False and P.__annotations__["x"] is int and T.__bound__ is P
      and typing.get_args(Alias)[1] == "note" and typing.get_args(typing.get_args(typing.get_args(Alias)[0])[1])[0] is P)
""",
    ),
    (
        "a_generator_function_and_what_it_needs",
        r"""
# %%
import itertools
step = 2
def evens(start):
    n = start
    while True:
        got = yield n
        n += step if got is None else got
def chained():
    yield from evens(0)
firsts = list(itertools.islice(evens(4), 3))
class It:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0: raise StopIteration
        return self.n
it = It(5); next(it)
mapped = map(lambda v: v + step, it)
next(mapped)
filtered = filter(None, [0, 1, 2, 0, 3]); next(filtered)
enumerated = enumerate("abc", 5); next(enumerated)
called = iter(lambda box=[3]: (box.append(box.pop() - 1), box[-1])[1], 0)
next(called)
# %% check
step = 10
g = chained()
OK = (firsts == [4, 6, 8] and next(g) == 0 and next(g) == 10 and next(mapped) == 12 and it.n == 2
      and list(filtered) == [2, 3] and next(enumerated) == (6, "b") and list(called) == [1])
""",
    ),
    (
        "queues_heaps_and_schedules",
        r"""
# %%
import queue, heapq, sched, time, collections, threading
q = queue.Queue(maxsize=3); q.put(1); q.put(2)
lifo = queue.LifoQueue(); lifo.put("a"); lifo.put("b")
pq = queue.PriorityQueue(); [pq.put(v) for v in (5, 1, 3)]
sq = queue.SimpleQueue(); sq.put("s")
heap = [5, 2, 8]; heapq.heapify(heap)
ring = collections.deque([1, 2, 3], maxlen=3); alias = ring
lock = threading.RLock()
sem = threading.BoundedSemaphore(2); sem.acquire()
ev = threading.Event(); ev.set()
holder = {"lock": lock, "q": q}
# %% check
ring.append(4)
ok = q.get() == 1 and q.maxsize == 3 and lifo.get() == "b" and pq.get() == 1 and sq.get() == "s"
ok = ok and heapq.heappop(heap) == 2 and alias == collections.deque([2, 3, 4]) and alias.maxlen == 3
with lock: ok = ok and holder["lock"] is lock and holder["q"] is q
ok = ok and sem.acquire(blocking=False) and not sem.acquire(blocking=False) and ev.is_set()
OK = ok
# %% if reported: sq
OK = True
""",
    ),
    (
        "files_of_all_modes",
        r"""
# %%
import tempfile, os, io
folder = tempfile.mkdtemp()
path = os.path.join(folder, "data.txt")
with open(path, "w") as f: f.write("one\ntwo\nthree\n")
reader = open(path); reader.readline()
binary = open(path, "rb"); binary.seek(4)
appender = open(os.path.join(folder, "log.txt"), "a", buffering=1); appender.write("first\n")
both = open(os.path.join(folder, "rw.bin"), "w+b"); both.write(b"0123456789"); both.seek(3)
wrapped = io.TextIOWrapper(io.BytesIO(b"a\nb\n"), encoding="ascii"); wrapped.readline()
closed = open(path); closed.close()
# %% check
OK = (reader.readline() == "two\n" and binary.read(3) == b"two" and appender.write("second\n") == 7
      and both.read(2) == b"34" and wrapped.readline() == "b\n" and closed.closed)
appender.flush()
OK = OK and open(os.path.join(folder, "log.txt")).read() == "first\nsecond\n"
""",
    ),
    (
        "closures_over_loops_comprehensions_and_nonlocals",
        r"""
# %%
def bank():
    total = 0
    def put(n):
        nonlocal total
        total += n
        return total
    def look(): return total
    class Teller:
        def pay(self, n): return put(-n)
    return put, look, Teller
put, look, Teller = bank()
put(10)
late = [lambda: i for i in range(3)]
early = [lambda i=i: i for i in range(3)]
def empty():
    def use(): return later
    if False: later = 1
    return use
unset = empty()
t = Teller()
# %% check
t.pay(3)
try:
    unset(); ok = False
except NameError:
    ok = True
OK = ok and look() == 7 and put(1) == 8 and [f() for f in late] == [2, 2, 2] and [f() for f in early] == [0, 1, 2] \
    and late[0].__closure__[0] is late[1].__closure__[0]
""",
    ),
    (
        "plugins_registries_and_init_subclass",
        r"""
# %%
class Base:
    plugins = {}
    def __init_subclass__(cls, /, key=None, **kw):
        super().__init_subclass__(**kw)
        if key: Base.plugins[key] = cls
    def __class_getitem__(cls, item): return (cls, item)
class A(Base, key="a"): pass
class B(A, key="b"):
    def __set_name__(self, owner, name): self.where = (owner, name)
class Host:
    field = B()
old = A()
# %%
class A(Base, key="a2"): pass
# %% check
OK = (list(Base.plugins) == ["a", "b", "a2"] and Base.plugins["a"] is type(old) and Base.plugins["a2"] is A
      and type(old) is not A and issubclass(B, type(old)) and Host.field.where == (Host, "field") and A[3] == (A, 3))
class C(A, key="c"): pass
OK = OK and Base.plugins["c"] is C
""",
    ),
    (
        "caches_and_single_dispatch_that_go_on",
        r"""
# %%
import functools
calls = []
@functools.cache
def slow(n): calls.append(n); return n * 2
@functools.singledispatch
def show(v): return "any"
@show.register
def _(v: int): return "int"
@show.register(list)
def shown(v): return "list of " + ", ".join(map(show, v))
class Shape:
    @functools.cached_property
    def area(self): calls.append("area"); return 12
    @functools.singledispatchmethod
    def scale(self, by): return "other"
    @scale.register
    def _(self, by: str): return "text"
s = Shape(); s.area
@functools.total_ordering
class V:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return self.n == o.n
    def __lt__(self, o): return self.n < o.n
# %% check
@show.register
def _more(v: float): return "float"
OK = (show([1, 2.0, "x"]) == "list of int, float, any" and s.area == 12 and calls.count("area") == 1
      and s.scale("x") == "text" and s.scale(1) == "other" and slow(4) == 8 and V(1) >= V(0) and shown.__name__ == "shown")
""",
    ),
    (
        "databases_cursors_and_row_factories",
        r"""
# %%
import sqlite3, tempfile, os
mem = sqlite3.connect(":memory:")
mem.row_factory = sqlite3.Row
mem.executescript("create table t(a integer primary key, b text); create index i on t(b); create view v as select b from t;")
mem.executemany("insert into t(b) values (?)", [("x",), ("y",)]); mem.commit()
file = os.path.join(tempfile.mkdtemp(), "d.db")
disk = sqlite3.connect(file); disk.execute("create table u(n)"); disk.execute("insert into u values (5)"); disk.commit()
# %% check
OK = ([r["b"] for r in mem.execute("select * from v order by b")] == ["x", "y"] and disk.execute("select n from u").fetchone()[0] == 5)
mem.execute("insert into t(b) values ('z')"); mem.commit()
OK = OK and mem.execute("select count(*) from t").fetchone()[0] == 3
""",
    ),
    (
        "names_of_the_users_that_look_like_the_shells",
        r"""
# %%
_private = {"a": 1}
__dunder = [2]
In_ = "mine"
_i_mine = 3
list = [4]
print_ = print
def len(x): return "mine"
1 + 1
# %%
del print_
exit_code = 5
_99 = "user"
# %% check
import builtins
OK = (_private == {"a": 1} and globals()["__dunder"] == [2] and In_ == "mine" and _i_mine == 3 and list == [4]
      and len([]) == "mine" and builtins.len([1]) == 1 and "print_" not in globals() and _99 == "user" and exit_code == 5)
""",
    ),
    (
        "weak_references_and_finalizers",
        r"""
# %%
import weakref
class Node:
    def __init__(self, n): self.n = n
a, b = Node(1), Node(2)
ref = weakref.ref(a); prox = weakref.proxy(b)
reg = weakref.WeakValueDictionary(a=a, b=b); seen = weakref.WeakSet([a]); meta = weakref.WeakKeyDictionary({b: "bee"})
dead = weakref.ref(Node(3))
method = weakref.WeakMethod(a.__init__)
# %% check
OK = (ref() is a and prox.n == 2 and reg["a"] is a and a in seen and meta[b] == "bee" and dead() is None and method().__self__ is a)
del a
import gc; gc.collect()
OK = OK and ref() is None and "a" not in reg
""",
    ),
    (
        "what_no_one_can_save_inside_of_what_one_can",
        r"""
# %%
import threading, socket, subprocess, sys
stop = threading.Event()
th = threading.Thread(target=stop.wait, args=(60,), daemon=True); th.start()
conf = {"sock": socket.socket(), "port": 80, "gen": (i for i in range(3)), "rows": [1, 2]}
next(conf["gen"])
async def co(): pass
pending = co()
class Service:
    def __init__(self): self.thread, self.name = th, "svc"
svc = Service()
# %% check
OK = conf["port"] == 80 and conf["rows"] == [1, 2] and svc.name == "svc"
# %% if reported: th, conf, pending, svc
OK = conf["port"] == 80 and conf["rows"] == [1, 2] and svc.name == "svc"
""",
    ),
    (
        "datetimes_paths_uuids_and_network_values",
        r"""
# %%
import datetime as dt, pathlib, uuid, ipaddress, zoneinfo, re, fractions, decimal, enum, types, string, textwrap, email.message, http.cookies, urllib.parse
z = zoneinfo.ZoneInfo("Asia/Tokyo"); when = dt.datetime(2024, 5, 1, tzinfo=z); fold = dt.datetime(2024, 10, 27, 2, 30, fold=1)
off = dt.timezone(dt.timedelta(hours=2), "X"); p = pathlib.PurePosixPath("/a/b"); here = pathlib.Path("."); u = uuid.uuid4(); us = str(u)
net = ipaddress.ip_network("10.0.0.0/8"); pat = re.compile(r"(?P<n>\d+)", re.I); m = pat.search("ab12")
ns = types.SimpleNamespace(a=1); ns.me = ns
msg = email.message.EmailMessage(); msg["Subject"] = "hé"; url = urllib.parse.urlparse("http://a/b?c=1")
tpl = string.Template("$x"); mp = types.MappingProxyType({"k": 1})
# %% check
OK = (when.tzinfo is zoneinfo.ZoneInfo("Asia/Tokyo") and fold.fold == 1 and off.tzname(None) == "X" and p.name == "b"
      and str(u) == us and u.is_safe is not None and net.num_addresses == 2**24 and m["n"] == "12" and m.re is pat or m is not None)
OK = OK and ns.me is ns and msg["Subject"] == "hé" and url.query == "c=1" and tpl.substitute(x=2) == "2" and mp["k"] == 1
# %% if reported: m
OK = str(u) == us and ns.me is ns
""",
    ),
    (
        "dataclasses_slots_frozen_and_inherited",
        r"""
# %%
import dataclasses as dc, typing as t
@dc.dataclass(frozen=True, slots=True, order=True)
class Pt:
    x: int
    tags: tuple = ()
    cache: dict = dc.field(default_factory=dict, compare=False, hash=False, repr=False)
@dc.dataclass(kw_only=True)
class Box:
    pts: list[Pt]
    n: dc.InitVar[int] = 0
    total: int = dc.field(init=False)
    kind: t.ClassVar[str] = "box"
    def __post_init__(self, n): self.total = len(self.pts) + n
class Base:
    __slots__ = ("a", "__weakref__")
class Child(Base):
    __slots__ = ("b", "_mangled")
    def __init__(self): self.a, self.b = 1, [2]
c = Child(); d = c
p = Pt(1, ("k",)); box = Box(pts=[p, p], n=3)
index = {p: box}
# %% check
p.cache["z"] = 1
try:
    p.x = 2; ok = False
except dc.FrozenInstanceError:
    ok = True
OK = (ok and index[Pt(1, ("k",))] is box and box.pts[0] is box.pts[1] is p and box.total == 5 and dc.fields(Box)[1].name == "total"
      and dc.replace(p, x=0) < p and c is d and c.b == [2] and not hasattr(c, "_mangled") and not hasattr(c, "__dict__"))
""",
    ),
    (
        "enums_flags_and_their_members_everywhere",
        r"""
# %%
import enum
class Color(enum.Enum):
    RED = 1
    ALIAS = 1
    BLUE = "b"
    @property
    def nice(self): return self.name.title()
class Perm(enum.IntFlag):
    R = 4; W = 2
class Auto(enum.StrEnum):
    A = enum.auto(); B = enum.auto()
class Planet(enum.Enum):
    EARTH = (5.9, 6.3)
    def __init__(self, mass, radius): self.mass = mass
Dyn = enum.Enum("Dyn", ["X", "Y"])
table = {Color.RED: [Perm.R | Perm.W, Auto.B], Dyn.X: Planet.EARTH}
# %% check
OK = (table[Color.ALIAS][0] == 6 and Color(1) is Color.RED and Color.RED.nice == "Red" and Perm.R in table[Color.RED][0]
      and table[Color.RED][1] is Auto.B and Auto.B == "b" and table[Dyn["X"]].mass == 5.9 and len(Color) == 2
      and Color.__members__["ALIAS"] is Color.RED)
""",
    ),
]
