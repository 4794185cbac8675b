"""States beyond the usual ones: places inside things, and things that hold each other in unusual ways."""

STATES = [
    (
        "groups_tees_and_chains_half_way",
        r"""
# %%
import itertools
words = ["ax", "ab", "bc", "bd", "ca"]
groups = itertools.groupby(words, key=lambda word: word[0])
key, first = next(groups)
next(first)
pairs = itertools.pairwise([1, 2, 3, 4])
next(pairs)
left, right = itertools.tee(iter([1, 2, 3, 4]))
next(left), next(left)
nested = itertools.chain.from_iterable([[1, 2], [3, 4], [5]])
next(nested), next(nested), next(nested)
zipped = itertools.zip_longest([1, 2, 3], "a", fillvalue="-")
next(zipped)
stars = itertools.starmap(pow, [(2, 3), (3, 2)])
next(stars)
kept = itertools.compress("abcdef", [1, 0, 1, 0, 1, 1])
next(kept)
dropped = itertools.dropwhile(lambda n: n < 3, [1, 2, 3, 1])
next(dropped)
taken = itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])
next(taken)
odd = filter(lambda n: n % 2, range(9))
next(odd), next(odd)
numbered = enumerate("abc", 5)
next(numbered)
# %% check
OK = (
    next(pairs) == (2, 3) and list(left) == [3, 4] and list(right) == [1, 2, 3, 4] and list(nested) == [4, 5]
    and list(zipped) == [(2, "-"), (3, "-")] and list(stars) == [9] and list(kept) == ["c", "e", "f"]
    and list(dropped) == [1] and list(taken) == [2] and list(odd) == [5, 7] and list(numbered) == [(6, "b"), (7, "c")]
    and list(first) == ["ab"] and [(k, list(g)) for k, g in groups] == [("b", ["bc", "bd"]), ("c", ["ca"])]
)
# %% if reported: groups, first, left, right, pairs
OK = (
    list(nested) == [4, 5] and list(stars) == [9] and list(kept) == ["c", "e", "f"]
    and list(dropped) == [1] and list(taken) == [2] and list(odd) == [5, 7]
)
""",
    ),
    (
        "iterators_that_are_at_their_end_stay_there",
        r"""
# %%
data = [1, 2]
over = iter(data)
list(over)
gen = (n for n in range(2))
list(gen)
mapping = {"a": 1}
keys = iter(mapping)
list(keys)
letters = iter("ab")
list(letters)
reader = iter(input, "")
zips = zip([1], [2])
list(zips)
# %% check
data.append(3)
OK = list(over) == [] and list(gen) == [] and list(keys) == [] and list(letters) == [] and list(zips) == []
# %% if reported: gen, keys
data.append(3)
OK = list(over) == [] and list(letters) == [] and list(zips) == []
""",
    ),
    (
        "weak_keys_and_values_follow_their_objects",
        r"""
# %%
import gc, weakref
class Node:
    def __init__(self, name): self.name = name
    def ping(self): return self.name
    def __repr__(self): return self.name
alive = [Node("a"), Node("b")]
gone = Node("c")
notes = weakref.WeakKeyDictionary({alive[0]: "first", gone: "lost"})
byname = weakref.WeakValueDictionary({"a": alive[0], "b": alive[1], "c": gone})
members = weakref.WeakSet([alive[1], gone])
ref_alive, ref_gone = weakref.ref(alive[0]), weakref.ref(gone)
same_ref = weakref.ref(alive[0])
proxy = weakref.proxy(alive[1])
method = weakref.WeakMethod(alive[0].ping)
log = []
called = weakref.ref(alive[0], lambda ref: log.append("died"))
parent = {"child": None}
class Tree:
    def __init__(self, parent=None):
        self.parent = weakref.ref(parent) if parent is not None else None
        self.children = []
root = Tree()
root.children.append(Tree(root))
del gone
gc.collect()
# %% check
import gc
ok = [
    notes[alive[0]] == "first", len(notes) == 1, byname["b"] is alive[1], "c" not in byname, alive[1] in members,
    len(members) == 1, ref_alive() is alive[0], ref_gone() is None, same_ref is ref_alive, proxy.name == "b",
    method()() == "a", root.children[0].parent() is root,
]
del alive[0]
gc.collect()
ok += [ref_alive() is None, len(notes) == 0, log == ["died"], method() is None]
OK = all(ok)
""",
    ),
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
        "context_variables_keep_their_values",
        r"""
# %%
import contextvars
level = contextvars.ContextVar("level", default=1)
user = contextvars.ContextVar("user")
user.set({"name": "ann"})
level.set(5)
context = contextvars.copy_context()
context.run(level.set, 9)
# %% check
OK = level.get() == 5 and user.get() == {"name": "ann"} and context[level] == 9 and context[user] is user.get()
# %% if reported: context, level, user
OK = level.name == "level"
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
        "frames_of_extension_types",
        r"""
# %%
import numpy as np, pandas as pd
cat = pd.Series(pd.Categorical(["lo", "hi", "lo", None], categories=["lo", "mid", "hi"], ordered=True))
same_cat = cat.cat.categories
multi = pd.DataFrame({"v": range(4)}, index=pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", "n"]))
cols = pd.DataFrame(np.arange(4).reshape(2, 2), columns=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)]))
sparse = pd.Series(pd.arrays.SparseArray([0, 0, 3, 0], fill_value=0))
ints = pd.array([1, None, 3], dtype="Int64")
flags = pd.array([True, None], dtype="boolean")
strings = pd.array(["é", None, "z"], dtype="string")
spans = pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2], closed="left"))
times = pd.Series(pd.date_range("2024-03-30", periods=3, freq="D", tz="Europe/Berlin"))
months = pd.period_range("2024-01", periods=2, freq="M")
deltas = pd.timedelta_range("1h", periods=2)
ranged = pd.RangeIndex(3, 9, 2, name="r")
frame = pd.DataFrame({"i": ints[:2], "f": flags, "o": [object, {"deep": [1]}]})
frame.attrs["unit"] = {"i": "kg"}
frame.flags.allows_duplicate_labels = False
grouped = frame.groupby("f", dropna=False)
rolling = pd.Series(range(5)).rolling(2)
strided = pd.Series(range(9))[::3]
arrow = pd.Series([1, 2, None], dtype="int64[pyarrow]")
lists = pd.Series([[1], [2, 3]], dtype="object")
# %% check
OK = (
    cat.dtype.ordered and list(cat.cat.categories) == ["lo", "mid", "hi"] and cat.max() == "hi" and cat.isna().sum() == 1
    and multi.loc[("b", 1), "v"] == 2 and multi.index.names == ["k", "n"] and cols[("y", 2)].tolist() == [1, 3]
    and sparse.dtype == "Sparse[int64, 0]" and sparse.sparse.density == 0.25 and ints[1] is pd.NA and ints.dtype == "Int64"
    and flags[1] is pd.NA and strings[0] == "é" and strings.dtype == "string" and spans[0].closed == "left"
    and str(times.dt.tz) == "Europe/Berlin" and times[1].utcoffset() != times[2].utcoffset()
) and (
    months.freqstr == "M" and deltas.freq is not None and ranged.step == 2 and ranged.name == "r" and type(ranged) is pd.RangeIndex
    and frame.attrs == {"unit": {"i": "kg"}} and frame.flags.allows_duplicate_labels is False and grouped.ngroups == 2
    and rolling.sum().tolist()[1:] == [1.0, 3.0, 5.0, 7.0] and strided.tolist() == [0, 3, 6] and strided.index.step == 3
    and arrow.dtype == "int64[pyarrow]" and arrow.isna()[2] and frame["o"][0] is object and lists[1] == [2, 3] and grouped.obj is frame
)
""",
    ),
    (
        "arrays_of_unusual_kinds",
        r"""
# %%
import numpy as np
rec = np.rec.array([(1, "a", 2.5), (2, "b", 3.5)], dtype=[("n", "i4"), ("s", "U3"), ("x", ">f8")])
field = rec["x"]
titled = np.zeros(2, dtype=[(("long name", "short"), "i2"), ("sub", "f4", (2, 2))])
titled["sub"][1] = 7
aligned = np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True))
masked = np.ma.masked_array([1, 2, 3, 4], mask=[0, 1, 0, 0], fill_value=-9)
hard = np.ma.masked_array([1, 2], mask=[1, 0], hard_mask=True)
shared_mask = masked[1:]
objects = np.array([[1], {"k": 2}, None], dtype=object)
objects[2] = objects
inner = objects[0]
big = np.arange(6, dtype=">i4").reshape(2, 3)
fort = np.asfortranarray(np.arange(6.0).reshape(2, 3))
bits = np.packbits([1, 0, 1, 1])
dates = np.array(["2024-01-01", "NaT"], dtype="datetime64[D]")
step = np.timedelta64(3, "h")
text = np.array(["aé", "b"], dtype=np.dtypes.StringDType(na_object=None))
matrix = np.matrix([[1, 2], [3, 4]])
diag = np.arange(9).reshape(3, 3).diagonal()
window = np.lib.stride_tricks.sliding_window_view(np.arange(6), 3)
chars = np.char.array(["x ", "y"])
ufunc = np.frompyfunc(lambda a, b: a * b + 1, 2, 1)
vec = np.vectorize(lambda a: a + offset)
offset = 10
poly = np.poly1d([1, 2, 3])
it = np.nditer(np.arange(3))
flat = np.arange(4).reshape(2, 2).flat
next(flat)
mgrid = np.mgrid
# %% check
rec["x"][0] = 9
ok = [field[0] == 9, rec.s[1] == "b", rec.dtype["x"].byteorder == ">", titled["long name"].shape == (2,), titled["sub"][1, 1, 1] == 7]
ok += [aligned.dtype.isalignedstruct, aligned.dtype.itemsize == 16, masked.sum() == 8, masked.fill_value == -9, hard.hardmask]
ok += [objects[2] is objects, objects[0] is inner, big.dtype.byteorder == ">", fort.flags.f_contiguous, not fort.flags.c_contiguous]
ok += [bits.tolist() == [176], np.isnat(dates[1]), step == np.timedelta64(180, "m"), text.tolist() == ["aé", "b"], type(text.dtype) is np.dtypes.StringDType]
ok += [type(matrix) is np.matrix, (matrix * matrix)[0, 0] == 7, diag.tolist() == [0, 4, 8], diag.flags.writeable is False, window[2].tolist() == [2, 3, 4]]
ok += [type(chars) is type(np.char.array(["x"])), ufunc(2, 3) == 7, vec(np.arange(2)).tolist() == [10, 11], poly(2) == 11, mgrid is np.mgrid]
ok += [window.base is not None, np.shares_memory(window[0], window[1]), next(flat) == 1]
OK = all(ok)
# %% if reported: it, flat, ufunc, text
OK = rec.s[1] == "b" and masked.sum() == 8 and vec(np.arange(2)).tolist() == [10, 11] and objects[2] is objects
""",
    ),
    (
        "masks_that_are_shared",
        r"""
# %%
import numpy as np
data = np.arange(5.0)
m = np.ma.array(data, mask=[0, 0, 1, 0, 0], copy=False)
part = m[1:4]
mask = m.mask
m2 = np.ma.array(data, mask=mask, copy=False)
# %% check
data[3] = 33
ok = [m.data[3] == 33, part.data[2] == 33, m2.data[3] == 33]
part[0] = 11
ok += [data[1] == 11, m[1] == 11]
mask[0] = True
ok += [bool(m.mask[0])]
OK = all(ok)
""",
    ),
    (
        "tensors_of_unusual_kinds",
        r"""
# %%
import torch
torch.manual_seed(3)
coo = torch.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)).coalesce()
csr = coo.to_sparse_csr()
dupes = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
quant = torch.quantize_per_tensor(torch.tensor([0.1, 0.5, 0.9]), 0.01, 10, torch.quint8)
chan = torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8)
half = torch.tensor([1.5, 2.5], dtype=torch.bfloat16)
eight = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
cplx = torch.tensor([1 + 2j])
conj = cplx.conj()
neg = torch.tensor([1 + 2j]).conj().imag
last = torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)
expanded = torch.zeros(1, 3).expand(4, 3)
nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
named_leaf = torch.ones(2, requires_grad=True)
(named_leaf * 3).sum().backward()
packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)])
size, dtype, device, layout = torch.Size([2, 3]), torch.int16, torch.device("cpu"), torch.strided
boolean = torch.tensor([True, False])
base = torch.arange(6.0)
unbound = base.view(2, 3).unbind(0)
gen = torch.Generator().manual_seed(9)
torch.rand(2, generator=gen)
expected = torch.rand(2, generator=gen.clone_state() if hasattr(gen, "clone_state") else gen)
buffer = torch.nn.Buffer(torch.ones(2)) if hasattr(torch.nn, "Buffer") else torch.ones(2)
dist = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
# %% check
ok = [coo.is_coalesced(), coo.to_dense()[0, 1] == 3, csr.layout is torch.sparse_csr, csr.to_dense()[1, 0] == 4, not dupes.is_coalesced(), dupes._nnz() == 2]
ok += [quant.q_scale() == 0.01, quant.q_zero_point() == 10, quant.int_repr()[1] == 60, chan.q_per_channel_axis() == 0, half.dtype is torch.bfloat16, half[1] == 2.5]
ok += [eight.dtype is torch.float8_e4m3fn, conj.is_conj(), conj[0] == 1 - 2j, neg[0] == -2, last.is_contiguous(memory_format=torch.channels_last)]
ok += [expanded.stride() == (0, 1), [t.shape[0] for t in nested.unbind()] == [2, 3], named_leaf.grad.tolist() == [3, 3], packed.data.shape == (3,), size == (2, 3), dtype is torch.int16]
base[4] = 99
ok += [unbound[1][1] == 99, torch.equal(torch.rand(2, generator=gen), expected), dist.mean.tolist() == [0, 0], layout is torch.strided, boolean[0].item() is True]
cplx[0] = 5 + 6j
ok += [conj[0] == 5 - 6j]
OK = all(ok)
# %% if reported: nested
OK = coo.is_coalesced() and quant.q_scale() == 0.01
""",
    ),
    (
        "training_with_schedules_hooks_and_a_scaler",
        r"""
# %%
import copy, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
seen = []
forward = net[0].register_forward_hook(lambda module, args, out: seen.append(float(out.sum())))
pre = net.register_forward_pre_hook(lambda module, args: (args[0] * 1.0,))
backward = net[3].weight.register_hook(lambda grad: grad * 2)
opt = torch.optim.SGD([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[3].parameters(), "lr": 0.01}], momentum=0.9)
warm = torch.optim.lr_scheduler.LinearLR(opt, total_iters=3)
rate = 0.9
decay = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: rate ** epoch)
sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, decay], milestones=[2])
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
swa = torch.optim.swa_utils.AveragedModel(net)
weight_norm = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
spectral = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 2))
def step():
    x = torch.randn(8, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        loss = net(x).pow(2).mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    sched.step()
    plateau.step(float(loss))
    swa.update_parameters(net)
    return float(loss)
for _ in range(3):
    step()
# %% check
def future(space):
    losses = [space["step"]() for _ in range(4)]
    return losses, space["scaler"].get_scale(), [g["lr"] for g in space["opt"].param_groups], len(space["seen"])
here = future(globals())
anew = {}
exec(In[1], anew)
ok = [here == future(anew)]
ok += [sched.optimizer is opt, warm.optimizer is opt, opt.param_groups[0]["params"][0] is net[0].weight]
ok += [weight_norm(torch.ones(2)).shape == (2,), type(spectral).__name__ == "ParametrizedLinear"]
before = len(seen)
forward.remove()
net(torch.randn(2, 3))
ok += [len(seen) == before]
OK = all(ok)
# %% if reported: scaler
OK = net[0].weight is opt.param_groups[0]["params"][0]
""",
    ),
    (
        "decimals_zones_and_patterns",
        r"""
# %%
import datetime, decimal, fractions, ipaddress, pathlib, re, string, uuid, zoneinfo, calendar, locale, struct, types
decimal.getcontext().prec = 7
decimal.getcontext().traps[decimal.Inexact] = False
own = decimal.Context(prec=3, rounding=decimal.ROUND_UP)
third = decimal.Decimal(1) / 3
nan = decimal.Decimal("sNaN123")
zone = zoneinfo.ZoneInfo("Europe/Paris")
when = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=1)
offset = datetime.timezone(datetime.timedelta(hours=5, minutes=30), "IST")
pattern = re.compile(r"(?P<y>\d+)-(?P<m>\d+)", re.I | re.X)
match = pattern.search("on 2024-05 x")
found = pattern.finditer("1-2 3-4 5-6")
next(found)
scanner = pattern.scanner("1-2")
path, pure = pathlib.Path("a/b.txt"), pathlib.PureWindowsPath("c:/x")
net = ipaddress.ip_network("10.0.0.0/30")
hosts = net.hosts()
template = string.Template("$a")
fmt = struct.Struct("<iH")
space = types.SimpleNamespace(a=1)
space.me = space
frozen = types.MappingProxyType({"a": space})
day = calendar.TextCalendar(firstweekday=6)
table = str.maketrans("ab", "xy")
# %% check
ok = [decimal.getcontext().prec == 7, own.prec == 3, own.rounding == decimal.ROUND_UP, str(third) == "0.3333333", str(nan) == "sNaN123"]
ok += [when.tzinfo is zone, when.fold == 1, when.utcoffset().seconds == 3600, offset.tzname(None) == "IST", zone is zoneinfo.ZoneInfo("Europe/Paris")]
ok += [pattern.flags & re.I, match["y"] == "2024", match.span() == (3, 10), match.re is pattern, next(found).group() == "3-4"]
ok += [path == pathlib.Path("a/b.txt"), pure.drive == "c:", net.num_addresses == 4, template.substitute(a=1) == "1", fmt.size == 6, fmt.format == "<iH"]
ok += [space.me is space, frozen["a"] is space, day.firstweekday == 6, "ab".translate(table) == "xy"]
OK = all(ok)
# %% if reported: found, scanner, match, hosts
OK = decimal.getcontext().prec == 7 and own.prec == 3 and when.tzinfo is zone and when.fold == 1 and space.me is space
""",
    ),
    (
        "streams_in_memory_keep_their_place",
        r"""
# %%
import csv, gzip, io, mmap, tempfile, zipfile, json, pickle
raw = io.BytesIO(b"0123456789")
raw.seek(4)
view = raw.getbuffer()[2:4]
text = io.StringIO("a\nb\nc\n", newline=None)
text.readline()
wrapped = io.TextIOWrapper(io.BytesIO("é\nü\n".encode("latin-1")), encoding="latin-1", newline="\n")
wrapped.readline()
buffered = io.BufferedReader(io.BytesIO(b"abcdef"), buffer_size=2)
buffered.read(3)
rows = csv.reader(io.StringIO("a,b\n1,2\n3,4\n"))
next(rows)
dicts = csv.DictReader(io.StringIO("a,b\n1,2\n3,4\n"))
next(dicts)
memory = mmap.mmap(-1, 16)
memory.write(b"hello")
closed = io.BytesIO(b"x")
closed.close()
spool = tempfile.SpooledTemporaryFile(max_size=100)
spool.write(b"spooled")
spool.seek(2)
archive_bytes = io.BytesIO()
archive = zipfile.ZipFile(archive_bytes, "w")
archive.writestr("a.txt", "A")
writer_target = io.StringIO()
writer = csv.writer(writer_target, delimiter=";")
writer.writerow([1, 2])
# %% check
ok = [raw.read() == b"456789", bytes(view) == b"23", text.readline() == "b\n", wrapped.readline() == "ü\n", wrapped.encoding == "latin-1"]
ok += [buffered.read() == b"def", closed.closed, memory.tell() == 5, memory[:5] == b"hello"]
view[:] = b"zz"
ok += [raw.getvalue()[2:4] == b"zz", spool.read() == b"ooled"]
OK = all(ok)
# %% if reported: rows, dicts, writer, archive, view
OK = raw.read() == b"456789" and text.readline() == "b\n" and buffered.read() == b"def" and spool.read() == b"ooled"
""",
    ),
    (
        "generators_of_chance_of_the_users_own",
        r"""
# %%
import random, secrets, numpy as np
class Dice(random.Random):
    def __init__(self, sides): super().__init__(7); self.sides = sides
    def roll(self): return self.randint(1, self.sides)
class Counter(random.Random):
    n = 0
    def random(self): self.n += 1; return (self.n % 10) / 10
    def getstate(self): return ("counter", self.n)
    def setstate(self, state): self.n = state[1]
dice = Dice(20)
[dice.roll() for _ in range(3)]
dice.gauss(0, 1)
counter = Counter()
counter.random()
system = random.SystemRandom()
module_way = random.random
gauss = random.gauss(0, 1)
children = np.random.SeedSequence(5).spawn(2)
streams = [np.random.Generator(np.random.PCG64(child)) for child in children]
[s.random() for s in streams]
sfc = np.random.Generator(np.random.SFC64(1))
sfc.integers(10, dtype=np.uint8)
legacy = np.random.RandomState(3)
legacy.randn(3)
bound = streams[0].normal
seq = streams[0].bit_generator.seed_seq
# %%
import json, os
state = random.getstate()
pid = os.fork()
if pid == 0:
    random.setstate(state)  # Python seeds it anew in a child
    out = [dice.roll(), dice.gauss(0, 1), counter.random(), random.random(), streams[0].random(), streams[1].random(), float(bound()),
           int(sfc.integers(10, dtype=np.uint8)), float(legacy.randn()), random.gauss(0, 1), streams[0].spawn(1)[0].random(), float(np.random.rand())]
    with open("future.json", "w") as file:
        json.dump(out, file)
    os._exit(0)
os.waitpid(pid, 0)
# %% check
import json
out = [dice.roll(), dice.gauss(0, 1), counter.random(), random.random(), streams[0].random(), streams[1].random(), float(bound()),
       int(sfc.integers(10, dtype=np.uint8)), float(legacy.randn()), random.gauss(0, 1), streams[0].spawn(1)[0].random(), float(np.random.rand())]
OK = out == json.load(open("future.json")) and dice.sides == 20 and type(dice) is Dice and 0 <= system.random() < 1 and bound.__self__ is streams[0]
""",
    ),
    (
        "collections_with_bounds_and_orders",
        r"""
# %%
import collections, heapq, types, array, graphlib, copy
ring = collections.deque([1, 2, 3], maxlen=3)
ring.append(ring)
layers = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
child = layers.new_child({"c": 4})
order = collections.OrderedDict(b=1, a=2, c=3)
order.move_to_end("b")
order.note = "x"
walk = iter(order)
next(walk)
count = collections.Counter("abca")
count.subtract("aaa")
tree = lambda: collections.defaultdict(tree)
deep = tree()
deep["x"]["y"]["z"] = 1
class Log(collections.UserDict):
    def __setitem__(self, key, value): self.changes = getattr(self, "changes", 0) + 1; super().__setitem__(key, value)
log = Log(a=1)
log["b"] = log
Row = collections.namedtuple("Row", "x y", defaults=[0], module="__main__")
class Rich(Row):
    __slots__ = ()
    def total(self): return self.x + self.y
rich = Rich(1)
renamed = Row._make([1, 2])._replace(y=5)
numbers = array.array("d", [1.5, 2.5])
frozen = frozenset([frozenset(), (1, 2)])
keys, items = order.keys(), order.items()
empty_key = {float("nan"): 1, None: 2, (): 3, True: 4}
ordered_view = reversed(order)
sorter = graphlib.TopologicalSorter({"b": {"a"}, "c": {"b"}})
sorter.prepare()
ready = sorter.get_ready()
# %% check
ring.append(9)
ok = [ring.maxlen == 3 and ring[1] is ring and len(ring) == 3, child.parents.maps[0] is layers.maps[0], layers["b"] == 3]
layers["new"] = 5
ok += [child["new"] == 5, list(order) == ["a", "c", "b"], order.note == "x", count["a"] == -1, deep["x"]["q"]["r"] == {}, deep.default_factory is tree]
order["z"] = 1
ok += ["z" in keys, ("z", 1) in items, log.changes == 2, log["b"] is log, rich.total() == 1, type(rich) is Rich, renamed == (1, 5)]
ok += [isinstance(renamed, Row), numbers.typecode == "d", numbers[1] == 2.5, (1, 2) in frozen, len(empty_key) == 4]
ok += [ready == ("a",)]
sorter.done("a")
ok += [sorter.get_ready() == ("b",)]
OK = all(ok)
# %% if reported: walk, ordered_view, keys, items
OK = ring.maxlen == 3 and list(order) == ["a", "c", "b"] and deep["x"]["q"]["r"] == {}
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
        "logging_into_streams_of_the_notebook",
        r"""
# %%
import io, logging, logging.handlers, sys, warnings
stream = io.StringIO()
log = logging.getLogger("app.train")
class Short(logging.Formatter):
    def format(self, record): return f"{record.levelname[0]}:{record.getMessage()}"
class Only(logging.Filter):
    def filter(self, record): return "secret" not in record.getMessage()
handler = logging.StreamHandler(stream)
handler.setFormatter(Short())
handler.addFilter(Only())
log.addHandler(handler)
log.setLevel(logging.DEBUG)
log.propagate = False
log.info("one")
kept = logging.handlers.MemoryHandler(10, target=handler, flushLevel=logging.ERROR)
queue_log = logging.getLogger("app.mem")
queue_log.addHandler(kept)
queue_log.propagate = False
queue_log.warning("held")
logging.addLevelName(25, "NOTICE")
adapter = logging.LoggerAdapter(log, {"run": 3})
disabled = logging.getLogger("app.off")
disabled.disabled = True
old_factory = logging.getLogRecordFactory()
# %% check
log.info("two")
log.info("secret three")
queue_log.error("now")
ok = [stream.getvalue() == "I:one\nI:two\nW:held\nE:now\n", log.handlers == [handler], not log.propagate, handler.stream is stream]
ok += [logging.getLevelName(25) == "NOTICE", adapter.extra == {"run": 3}, adapter.logger is log, logging.getLogger("app.off").disabled, log is logging.getLogger("app.train")]
OK = all(ok)
""",
    ),
    (
        "asynchronous_things_that_wait_for_nothing",
        r"""
# %%
import asyncio
queue = asyncio.Queue(maxsize=3)
queue.put_nowait([1])
queue.put_nowait("b")
event = asyncio.Event()
event.set()
lock, sem = asyncio.Lock(), asyncio.Semaphore(2)
priority = asyncio.PriorityQueue()
priority.put_nowait((2, "z"))
priority.put_nowait((1, "a"))
class Source:
    def __init__(self, n): self.n = n
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.n: raise StopAsyncIteration
        self.n -= 1
        return self.n
    async def __aenter__(self): return self
    async def __aexit__(self, *a): self.n = -1
source = Source(3)
async def work(x, *, y=2): return x * y
async def drain(): return [n async for n in source]
# %% check
ok = [queue.qsize() == 2, queue.maxsize == 3, event.is_set(), not lock.locked()]
async def main():
    await sem.acquire()
    got = [await queue.get(), await queue.get(), await priority.get(), await work(3), await drain()]
    async with lock:
        return got
ok += [asyncio.run(main()) == [[1], "b", (1, "a"), 6, [2, 1, 0]]]
OK = all(ok)
# %% if reported: queue, event, lock, sem, priority
import asyncio
OK = asyncio.run(drain()) == [2, 1, 0] and asyncio.run(work(3)) == 6
""",
    ),
    (
        "displays_and_widgets_of_the_page",
        r"""
# %%
from IPython.display import HTML, DisplayHandle, Image, Markdown, display
handle = DisplayHandle()
shown = HTML("<b>x</b>", metadata={"a": 1})
markdown = Markdown("# t")
class Rich:
    def _repr_html_(self): return "<i>r</i>"
    def _ipython_display_(self): pass
rich = Rich()
class Plot:
    def __init__(self): self.handle, self.data = handle, [1, 2]
plot = Plot()
import ipywidgets
slider = ipywidgets.IntSlider(value=3)
box = ipywidgets.VBox([slider])
panel = {"slider": slider, "value": 3}
# %% check
OK = shown.data == "<b>x</b>" and plot.data == [1, 2] and plot.handle is handle and slider.value == 3
# %% if reported: slider, box, panel
OK = shown.data == "<b>x</b>" and shown.metadata == {"a": 1} and plot.handle is handle and panel["value"] == 3 and rich._repr_html_() == "<i>r</i>"
""",
    ),
    (
        "figures_that_call_back",
        r"""
# %%
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt, numpy as np
clicks = []
fig, axes = plt.subplots(1, 2, sharex=True)
line, = axes[0].plot([1, 2, 3], label="l")
image = axes[1].imshow(np.arange(4).reshape(2, 2), vmin=0, vmax=9)
bar = fig.colorbar(image)
def on_click(event): clicks.append(event)
cid = fig.canvas.mpl_connect("button_press_event", on_click)
axes[0].callbacks.connect("xlim_changed", lambda ax: clicks.append("lim"))
text = axes[0].annotate("peak", (1, 2), arrowprops={"arrowstyle": "->"})
legend = axes[0].legend()
axes[0].set_xlim(0, 5)
norm = image.norm
cmap = plt.get_cmap("viridis").copy()
cmap.set_bad("red")
axes[0].xaxis.set_major_formatter(lambda x, pos: f"{x:.0f}!")
clicks.clear()
# %% check
import io
ok = [axes[0].lines[0] is line, axes[0].figure is fig, image.norm is norm, norm.vmax == 9, bar.mappable is image, legend.get_texts()[0].get_text() == "l"]
axes[0].set_xlim(1, 4)
ok += [axes[1].get_xlim() == (1, 4), clicks.count("lim") >= 1]
line.set_ydata([3, 2, 1])
fig.savefig(io.BytesIO())
ok += [axes[0].xaxis.get_major_formatter()(2, 0) == "2!", cmap.get_bad()[0] == 1.0, plt.fignum_exists(fig.number), plt.gcf() is fig]
from matplotlib.backend_bases import MouseEvent
MouseEvent("button_press_event", fig.canvas, 1, 1, 1)._process()
ok += [any(type(it) is MouseEvent for it in clicks)]
OK = all(ok)
# %% if reported: fig, axes, line, bar, image, legend, text
OK = True
""",
    ),
    (
        "a_database_in_memory_with_functions",
        r"""
# %%
import sqlite3
db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
factor = 3
db.create_function("triple", 1, lambda x: x * factor)
class Product:
    def __init__(self): self.value = 1
    def step(self, x): self.value *= x
    def finalize(self): return self.value
db.create_aggregate("product", 1, Product)
db.create_collation("backwards", lambda a, b: (a < b) - (a > b))
db.execute("create table t (n integer, s text collate backwards, b blob)")
db.executemany("insert into t values (?, ?, ?)", [(1, "a", b"\x00"), (2, "b", None), (3, "c", b"x")])
db.commit()
db.execute("create index i on t (s)")
db.execute("create view v as select n from t where n > 1")
cursor = db.execute("select n from t order by n")
cursor.fetchone()
db.commit()
# %% check
ok = [db.execute("select count(*) from t").fetchone()[0] == 3, db.execute("select n from v").fetchall()[0]["n"] == 2]
ok += [db.execute("select triple(2)").fetchone()[0] == 6, db.execute("select product(n) from t").fetchone()[0] == 6]
ok += [[r[0] for r in db.execute("select s from t order by s")] == ["c", "b", "a"], [r[0] for r in cursor] == [2, 3]]
OK = all(ok)
# %% if reported: db, cursor
db.create_collation("backwards", lambda a, b: (a < b) - (a > b))
OK = db.execute("select count(*) from t").fetchone()[0] == 3 and db.row_factory is sqlite3.Row
""",
    ),
    (
        "pipelines_with_functions_of_the_notebook",
        r"""
# %%
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
rng = np.random.RandomState(0)
X, y = rng.rand(40, 3), rng.randint(2, size=40)
scale = 2.0
def times(x): return x * scale
class Clip(BaseEstimator, TransformerMixin):
    def __init__(self, top=1.0): self.top = top
    def fit(self, X, y=None): self.seen_ = X.shape; return self
    def transform(self, X): return np.clip(X, 0, self.top)
def closeness(a, b): return -float(np.abs(a - b).sum())
pipe = Pipeline([("f", FunctionTransformer(times)), ("c", Clip(0.9)), ("s", StandardScaler()), ("m", SGDClassifier(random_state=rng))])
search = GridSearchCV(pipe, {"c__top": [0.5, 0.9]}, scoring=make_scorer(closeness), cv=KFold(3, shuffle=True, random_state=1)).fit(X, y)
forest = RandomForestRegressor(5, random_state=rng, warm_start=True).fit(X, y)
mixed = ColumnTransformer([("a", StandardScaler(), [0]), ("b", FunctionTransformer(lambda x: x + scale), [1, 2])]).fit(X)
expected = search.predict(X), forest.predict(X), mixed.transform(X)
online = SGDClassifier(random_state=0).partial_fit(X[:20], y[:20], classes=[0, 1])
# %%
import json, os
pid = os.fork()
if pid == 0:
    online.partial_fit(X[20:], y[20:])
    forest.set_params(n_estimators=8).fit(X, y)
    json.dump([online.coef_.tolist(), forest.predict(X).tolist(), clone(pipe).fit(X, y).predict(X).tolist()], open("future.json", "w"))
    os._exit(0)
os.waitpid(pid, 0)
# %% check
import json
ok = [np.array_equal(a, b) for a, b in zip(expected, (search.predict(X), forest.predict(X), mixed.transform(X)))]
online.partial_fit(X[20:], y[20:])
forest.set_params(n_estimators=8).fit(X, y)
ok += [json.load(open("future.json")) == [online.coef_.tolist(), forest.predict(X).tolist(), clone(pipe).fit(X, y).predict(X).tolist()]]
scale = 100.0
ok += [pipe.named_steps["f"].transform(np.ones((1, 1)))[0, 0] == 100.0, type(search.best_estimator_["c"]) is Clip, pipe["m"].random_state is rng]
OK = all(ok)
""",
    ),
    (
        "arrow_tables_and_what_they_share",
        r"""
# %%
import numpy as np, pyarrow as pa, pyarrow.compute as pc
base = np.arange(6, dtype="i8")
arr = pa.array(base)
table = pa.table({"n": arr, "s": ["a", None, "é", "d", "e", "f"], "l": [[1], [], None, [2, 3], [4], [5]]})
part = table.slice(2, 3)
schema = table.schema.with_metadata({b"k": b"v"})
chunked = pa.chunked_array([[1, 2], [3]])
dictionary = pa.array(["x", "y", "x"]).dictionary_encode()
struct = pa.array([{"a": 1, "b": "x"}, None])
scalar = arr[2]
expr = pc.field("n") > 2
batch = pa.record_batch({"z": [1.5]})
nested = pa.scalar({"a": [1]})
buf = pa.py_buffer(b"hello")
typ = pa.map_(pa.string(), pa.list_(pa.int8()))
memory = pa.BufferOutputStream()
# %% check
ok = [table["s"].to_pylist()[2] == "é", part["n"].to_pylist() == [2, 3, 4], schema.metadata == {b"k": b"v"}, chunked.num_chunks == 2, dictionary.dictionary.to_pylist() == ["x", "y"]]
ok += [struct[1].as_py() is None, struct[0].as_py() == {"a": 1, "b": "x"}, scalar.as_py() == 2, table.filter(expr).num_rows == 3, batch.to_pydict() == {"z": [1.5]}]
ok += [nested.as_py() == {"a": [1]}, buf.to_pybytes() == b"hello", typ.key_type == pa.string(), part["l"].to_pylist() == [None, [2, 3], [4]]]
OK = all(ok)
# %% if reported: memory
OK = table["s"].to_pylist()[2] == "é" and part["n"].to_pylist() == [2, 3, 4]
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
        "buffers_that_look_at_each_other",
        r"""
# %%
import array, ctypes, numpy as np
data = bytearray(b"0123456789abcdef")
view = memoryview(data)[4:12]
back = view[::-1]
ints = view.cast("i")
ro = memoryview(data).toreadonly()
arr = np.frombuffer(data, dtype="u1", offset=2)
typed = array.array("h", [1, 2, 3])
typed_view = memoryview(typed)
np_typed = np.asarray(typed)
class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
points = (Point * 2)()
points[1].x = 7
one = points[1]
number = ctypes.c_int(5)
pointer_free = ctypes.create_string_buffer(b"abc", 8)
np_points = np.ctypeslib.as_array((ctypes.c_int * 3)(1, 2, 3))
released = memoryview(b"x")
released.release()
# %% check
data[4] = 90
typed[0] = 9
ok = [view[0] == 90, back[-1] == 90, ro[4] == 90, ro.readonly, arr[2] == 90, typed_view[0] == 9, np_typed[0] == 9, ints.format == "i", len(ints) == 2]
points[1].x = 8
ok += [one.x == 8, number.value == 5, pointer_free.value == b"abc", np_points.tolist() == [1, 2, 3]]
OK = all(ok)
# %% if reported: released
ok = [np_points.tolist() == [1, 2, 3]]
data[4] = 90
OK = view[0] == 90 and back[-1] == 90 and ro[4] == 90 and arr[2] == 90
""",
    ),
    (
        "context_managers_that_are_entered",
        r"""
# %%
import contextlib, io, tempfile, os, threading, decimal, warnings
out = io.StringIO()
stack = contextlib.ExitStack()
done = []
stack.callback(done.append, "cleaned")
closing = contextlib.closing(io.StringIO("c"))
null = contextlib.nullcontext(5)
local = threading.local()
local.value = [1]
class Timer:
    def __enter__(self): self.inside = True; return self
    def __exit__(self, *a): self.inside = False
timer = stack.enter_context(Timer())
folder = tempfile.TemporaryDirectory()
open(os.path.join(folder.name, "f.txt"), "w").write("kept")
suppress = contextlib.suppress(KeyError)
@contextlib.contextmanager
def tag(name):
    done.append("<" + name)
    yield name
    done.append(name + ">")
maker = tag("x")
entered = tag("y")
entered.__enter__()
# %% check
ok = [timer.inside, null.__enter__() == 5, local.value == [1], os.path.exists(os.path.join(folder.name, "f.txt"))]
stack.close()
ok += [not timer.inside, "cleaned" in done]
with suppress:
    {}["k"]
with tag("z") as name:
    ok += [name == "z"]
OK = all(ok)
# %% if reported: maker, entered, folder, stack, local
OK = null.__enter__() == 5 and timer.inside and done == ["<y"]
""",
    ),
    (
        "things_that_registered_themselves_in_libraries",
        r"""
# %%
import abc, codecs, copyreg, atexit, json, numbers, pandas as pd, sys, collections.abc, numpy as np
class Vec:
    def __init__(self, x): self.x = x
    def __len__(self): return 1
collections.abc.Sized.register(Vec)
numbers.Number.register(Vec)
copyreg.pickle(Vec, lambda v: (Vec, (v.x + 0,)))
class Enc(json.JSONEncoder):
    def default(self, o): return {"x": o.x}
class Celsius(float): pass
def celsius(c): return c + 0.5
copyreg.pickle(Celsius, lambda c: (celsius, (float(c),)))
def describe_all(frame): return f"{len(frame)} rows"
pd.DataFrame.describe_all = describe_all
setattr(np.linalg, "twice", lambda x: 2 * x)
json.JSONEncoder.item_separator = "; "
pd.options.display.max_rows = 7
@numbers.Real.register
class Fixed: pass
@pd.api.extensions.register_series_accessor("vec")
class Accessor:
    def __init__(self, series): self.series = series
    def total(self): return self.series.sum()
vec = Vec(4)
series = pd.Series([1, 2])
first = series.vec.total()
old_hook = sys.excepthook
# %% check
ok = [vec.x == 4, json.dumps(vec, cls=Enc) == '{"x": 4}', isinstance(vec, collections.abc.Sized)]
import copy
ok += [isinstance(vec, numbers.Number), series.vec.total() == 3, issubclass(Fixed, numbers.Real), copy.copy(Celsius(2.0)) == 2.5]
ok += [series.to_frame().describe_all() == "2 rows", np.linalg.twice(4) == 8, pd.options.display.max_rows == 7]
ok += [json.JSONEncoder.item_separator == "; "]
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
    (
        "many_names_of_one_thing_and_of_its_parts",
        r"""
# %%
import numpy as np, pandas as pd, torch
base = np.arange(12.0).reshape(3, 4)
col, rows, flat = base[:, 1], base[::2], base.reshape(-1)
frame = pd.DataFrame(base, copy=False)
tensor = torch.from_numpy(base)
param = torch.nn.Parameter(tensor[0])
holder = {"a": base, "b": [base, col], "t": (tensor, param)}
class Box:
    def __init__(self, array): self.array, self.self = array, self
boxes = [Box(base), Box(col)]
boxes.append(boxes[0])
lazy = lambda: base.sum() + col.sum()
raw = memoryview(base)
by = {id_: box for id_, box in enumerate(boxes)}
# %% check
base[0, 1] = 100
ok = [col[0] == 100, rows[0, 1] == 100, flat[1] == 100, tensor[0, 1] == 100, param[1].item() == 100, holder["a"] is base, holder["b"][1] is col]
ok += [boxes[2] is boxes[0], boxes[0].array is base, boxes[0].self is boxes[0], by[2] is by[0], raw[0, 1] == 100, holder["t"][1] is param, holder["t"][0] is tensor]
param.data[2] = 55
ok += [base[0, 2] == 55, lazy() == base.sum() + col.sum()]
OK = all(ok)
""",
    ),
    (
        "what_the_shell_was_told",
        r"""
# %%
from IPython.core.magic import register_line_magic, register_cell_magic, register_line_cell_magic
@register_line_magic
def shout(line): return line.upper() + mark
@register_cell_magic
def twice(line, cell): return cell.strip() * 2
mark = "!"
class Money:
    def __init__(self, v): self.v = v
shell = get_ipython()
shell.display_formatter.formatters["text/plain"].for_type(Money, lambda one, p, cycle: p.text(f"${one.v}{mark}"))
shell.display_formatter.formatters["text/html"].for_type(complex, lambda c: "<i>c</i>")
cells = []
def note(result): cells.append(result.success)
shell.events.register("post_run_cell", note)
money = Money(3)
# %%
%load_ext autoreload
# %%
%autoreload 2
# %%
%config InteractiveShell.ast_node_interactivity = "last_expr_or_assign"
# %% check
mark = "?"
shell = get_ipython()
ok = [shell.run_line_magic("shout", "a") == "A?", shell.run_cell_magic("twice", "", "ab") == "abab"]
ok += [shell.display_formatter.format(money)[0]["text/plain"] == "$3?"]
ok += [shell.display_formatter.formatters["text/html"].type_printers[complex](1j) == "<i>c</i>"]
before = len(cells)
shell.run_cell("1 + 1")
ok += [len(cells) == before + 1, shell.ast_node_interactivity == "last_expr_or_assign", any("autoreload" in it for it in shell.extension_manager.loaded)]
OK = all(ok)
""",
    ),
    (
        "settings_of_the_interpreter",
        r"""
# %%
import gc, logging, sys, tempfile, threading, warnings, decimal, numpy as np, matplotlib, os, socket
gc.disable()
gc.set_threshold(900, 12, 13)
sys.setswitchinterval(0.01)
sys.setrecursionlimit(4321)
sys.tracebacklimit = 5
warnings.formatwarning = lambda *a, **k: "short"
logging.disable(logging.INFO)
np.seterrcall(lambda kind, flag: seen.append(kind))
np.seterr(divide="call")
seen = []
from matplotlib.colors import ListedColormap
matplotlib.colormaps.register(ListedColormap(["red", "blue"], name="mine"))
socket.setdefaulttimeout(12)
threading.excepthook = lambda args: seen.append("thread")
# %% check
ok = [not gc.isenabled(), gc.get_threshold() == (900, 12, 13), abs(sys.getswitchinterval() - 0.01) < 1e-6, sys.getrecursionlimit() == 4321]
ok += [sys.tracebacklimit == 5, warnings.formatwarning("m", UserWarning, "f", 1) == "short", logging.root.manager.disable == logging.INFO]
np.array([1.0]) / 0
ok += [bool(seen), "mine" in matplotlib.colormaps, socket.getdefaulttimeout() == 12]
t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()
ok += ["thread" in seen]
OK = all(ok)
""",
    ),
]
