"""More states, each of several kinds at once."""

STATES = [
    (
        "generic_dataclass_protocol_abc",
        r"""
# %%
from dataclasses import dataclass, field
from typing import Generic, TypeVar, Protocol, runtime_checkable, Annotated
from abc import ABC, abstractmethod
import enum
T = TypeVar('T', bound='Base')
class Base(ABC):
    @property
    @abstractmethod
    def n(self): ...
@dataclass
class Node(Base, Generic[T]):
    n: int = 0
    kids: list['Node'] = field(default_factory=list)
    def __post_init__(self): self.kids = list(self.kids)
@runtime_checkable
class HasN(Protocol):
    n: int
root = Node(1, [Node(2)]); root.kids.append(root)
class E(enum.Enum):
    def _generate_next_value_(name, start, count, last): return name.lower()
    A = enum.auto(); B = enum.auto()
    @classmethod
    def first(cls): return cls.A
    @property
    def up(self): return self.value.upper()
m = {E.A: Node[int]}
# %% check
OK = isinstance(root, HasN) and root.kids[1] is root and Node(3).kids == [] and E('a') is E.A and E.first() is E.A and E.B.up == 'B' and list(m)[0] is E.A and Node.__parameters__ == (T,)
try: Base(); OK = False
except TypeError: pass
""",
    ),
    (
        "pickle_by_ref_of_local_module_changed",
        r"""
# %%
import sys, types, importlib
open('lib_a.py', 'w').write('class C:\n    def v(self): return 1\ncount = 0\ndef inc():\n    global count\n    count += 1\n    return count\n')
sys.path.insert(0, '.'); importlib.invalidate_caches()
import lib_a
c_old = lib_a.C()
lib_a.inc(); lib_a.inc()
# %%
importlib.reload(lib_a)
c_new = lib_a.C()
# %% check
OK = c_new.v() == 1 and c_old.v() == 1 and type(c_new) is lib_a.C
""",
    ),
    (
        "exceptions_groups_tb",
        r"""
# %%
import sys, traceback
try:
    try: 1/0
    except ZeroDivisionError as e1:
        raise ExceptionGroup('g', [e1, ValueError('v')])
except ExceptionGroup as eg_: eg = eg_
try: open('/nope')
except OSError as o: ose = o
st = traceback.extract_stack()
class WithArgs(Exception):
    def __init__(self, a, *, b): super().__init__(a); self.b = b
wa = WithArgs(1, b=2)
# %% check
OK = len(eg.exceptions) == 2 and ose.errno == 2 and ose.filename == '/nope' and wa.b == 2 and wa.args == (1,)
""",
    ),
    (
        "weak_finalize_parent",
        r"""
# %%
import weakref
class Tree:
    def __init__(self, parent=None):
        self.kids = []; self.parent = weakref.ref(parent) if parent else None
        if parent: parent.kids.append(self)
    def root(self): return self if self.parent is None else self.parent().root()
t = Tree(); a = Tree(t); b = Tree(a)
log = []
obs = weakref.WeakValueDictionary(a=a)
fin = weakref.finalize(b, log.append, 'gone')
# %% check
OK = b.root() is t and a.parent() is t and obs['a'] is a and fin.alive
""",
    ),
    (
        "cyclic_dict_key_hash",
        r"""
# %%
class K:
    def __init__(self, n): self.n = n; self.d = {self: 1}
    def __hash__(self): return hash(self.n)
    def __eq__(self, o): return isinstance(o, K) and self.n == o.n
k = K('a'); s = {k}; fs = frozenset([k, 2])
# %% check
OK = k.d[k] == 1 and k in s and k in fs and k.d[K('a')] == 1
""",
    ),
    (
        "deep_class_tree",
        r"""
# %%
class A: x = 1
class B(A): pass
class C(A): pass
class D(B, C): pass
objs = {c.__name__: c() for c in (A, B, C, D)}
A.extra = property(lambda s: s.x + 1)
D.kids = [objs['D']]
types_ = [type(o) for o in objs.values()]
# %% check
OK = objs['D'].extra == 2 and D.__mro__ == (D, B, C, A, object) and D.kids[0] is objs['D'] and types_ == [A, B, C, D] and A.__subclasses__() == [B, C]
""",
    ),
    (
        "setattr_class_and_module_global_counter",
        r"""
# %%
count = 0
def bump():
    global count, made
    count += 1
    made = [count]
    return made
bump()
ref = made
# %% check
OK = bump() == [2] and count == 2 and ref == [1]
""",
    ),
    (
        "nested_functions_defaults_alias",
        r"""
# %%
acc = []
def f(x, acc=acc): acc.append(x); return acc
g = lambda *, k=acc: k
h = f
# %% check
f(1)
OK = acc == [1] and g() is acc and h is f and f.__defaults__[0] is acc
""",
    ),
    (
        "decorated_class_and_registry",
        r"""
# %%
REG = {}
def register(cls): REG[cls.__name__] = cls; return cls
@register
class Plug:
    def __repr__(self): return 'plug'
inst = REG['Plug']()
# %% check
OK = type(inst) is Plug and REG['Plug'] is Plug and repr(inst) == 'plug'
""",
    ),
    (
        "contextmanager_objects",
        r"""
# %%
import contextlib
@contextlib.contextmanager
def cm():
    yield 5
ctx = cm()
class Ctx(contextlib.ContextDecorator):
    def __enter__(self): return self
    def __exit__(self, *a): return False
dec = Ctx()
# %% check
with cm() as v: OK = v == 5
with dec: pass
# %% if reported: ctx
with cm() as v: OK = v == 5
""",
    ),
    (
        "multi_names_for_scalars_arrays",
        r"""
# %%
import numpy as np
x = np.float64(3); y = x
arr = np.array([x, y], dtype=object)
big = np.arange(300000.); parts = np.split(big, 3); stack = {'p': parts, 'w': big[::7]}
lst = [big, big]
# %% check
big[100000] = -1
OK = parts[1][0] == -1 and lst[0] is lst[1] and lst[0] is big and arr[0] is arr[1] and stack['p'] is parts
big[7] = -7
OK = OK and stack['w'][1] == -7
""",
    ),
    (
        "torch_shared_big",
        r"""
# %%
import torch, numpy as np
buf = torch.zeros(1_000_000)
a, b = buf[:500_000], buf[500_000:].view(500, 1000)
n = buf.numpy()[::2]
chunks = buf.chunk(4)
st = buf.untyped_storage()
byts = torch.frombuffer(bytearray(b'\0' * 16), dtype=torch.int32)
# %% check
buf[500_000] = 4; buf[2] = 3
OK = b[0, 0] == 4 and n[1] == 3 and chunks[2][0] == 4 and a[2] == 3 and st.data_ptr() == buf.untyped_storage().data_ptr() and byts.shape == (4,)
""",
    ),
    (
        "pandas_multi",
        r"""
# %%
import pandas as pd, numpy as np
df = pd.DataFrame({'k': list('aab'), 'v': [1, 2, 3]}, index=pd.MultiIndex.from_tuples([(1, 'x'), (1, 'y'), (2, 'x')], names=['i', 'j']))
g = df.groupby('k'); r = df['v'].rolling(2); ex = df['v'].expanding(); acc = df['k'].str; loc = df.loc
frames = {'a': df, 'b': df, 'c': df[['v']]}
per = pd.period_range('2026', periods=2, freq='M'); off = pd.offsets.BDay(2); ts = pd.Timestamp('2026-01-01', tz='UTC'); nat = pd.NaT; na = pd.NA
st = df.style
e = df.to_json()
# %% check
OK = frames['a'] is df and frames['b'] is df and df.to_json() == e and g['v'].sum().to_dict() == {'a': 3, 'b': 3} and r.sum().iloc[1] == 3 and acc.upper().iloc[0] == 'A' and nat is pd.NaT and na is pd.NA and ts + off > ts and len(per) == 2
loc[(1, 'x'), 'v'] = 50
OK = OK and df.iloc[0, 1] == 50 and frames['c'].iloc[0, 0] == 1
""",
    ),
    (
        "threads_pool_queue",
        r"""
# %%
import threading, queue, concurrent.futures as cf, multiprocessing as mp, time
q = queue.Queue(3); q.put('a'); q.put('b'); q.get();
done = threading.Thread(target=lambda: None); done.start(); done.join()
not_started = threading.Thread(target=print, args=(1,), name='later')
ex = cf.ThreadPoolExecutor(2); f = ex.submit(pow, 2, 3); f.result()
fx = cf.Future(); fx.set_result(9)
mq = mp.Queue(); lock = mp.Lock(); val = mp.Value('i', 3)
keep = [1]
# %% check
OK = keep == [1] and q.get() == 'b' and q.unfinished_tasks == 2 and fx.result() == 9
# %% if reported: ex, f, fx, mq, lock, val, done, not_started
OK = keep == [1] and q.get() == 'b' and q.unfinished_tasks == 2
""",
    ),
    (
        "http_ssl_objects",
        r"""
# %%
import ssl, http.cookiejar, urllib.request, http.client, socket, select, re, argparse, configparser, email.message, xml.dom.minidom as md
ctx = ssl.create_default_context()
jar = http.cookiejar.CookieJar()
op = urllib.request.build_opener()
conn = http.client.HTTPConnection('localhost', 1)
ap = argparse.ArgumentParser(prog='p'); ap.add_argument('--x', type=int, default=3)
cp = configparser.ConfigParser(); cp.read_string('[a]\nb=1\n')
doc = md.parseString('<a><b/></a>')
m = re.match(r'(?P<n>\d+)', '12ab'); sc = re.compile('a').scanner('banana')
z = {'ap': ap}
# %% check
OK = z['ap'] is ap and ap.parse_args(['--x', '4']).x == 4 and cp['a']['b'] == '1' and m['n'] == '12' and doc.documentElement.tagName == 'a' and conn.host == 'localhost' and len(jar) == 0
# %% if reported: ctx, sc, op, m, jar, conn
OK = z['ap'] is ap and ap.parse_args(['--x', '4']).x == 4 and cp['a']['b'] == '1' and doc.documentElement.tagName == 'a'
""",
    ),
    (
        "sklearn_more",
        r"""
# %%
import numpy as np
from sklearn.ensemble import RandomForestRegressor, HistGradientBoostingClassifier
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.pipeline import make_pipeline
rs = np.random.RandomState(0); X = rs.rand(60, 3); y = rs.randint(0, 2, 60)
def double(a): return a * 2
rf = RandomForestRegressor(5, random_state=rs).fit(X, y); hg = HistGradientBoostingClassifier(max_iter=3).fit(X, y)
km = KMeans(2, n_init=1, random_state=0).fit(X); tf = TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit(['a b', 'b c'])
pipe = make_pipeline(FunctionTransformer(double), km)
e = rf.predict(X), hg.predict_proba(X), km.labels_
trees = rf.estimators_
# %% check
OK = np.array_equal(rf.predict(X), e[0]) and np.array_equal(hg.predict_proba(X), e[1]) and tf.vocabulary_['c'] == 2 and rf.random_state is rs and trees is rf.estimators_ and pipe[1] is km and km.labels_ is e[2]
""",
    ),
    (
        "ipython_display_objects",
        r"""
# %%
from IPython.display import HTML, display, Markdown
from IPython import get_ipython
h = HTML('<b>x</b>'); ip = get_ipython(); hist = ip.history_manager
dh = display('x', display_id=True)
%alias_magic tt time
# %% check
OK = h.data == '<b>x</b>' and ip is get_ipython()
# %% if reported: hist, dh
OK = h.data == '<b>x</b>' and ip is get_ipython()
""",
    ),
    (
        "ipywidgets",
        r"""
# %%
import ipywidgets as w
s = w.IntSlider(value=3); log = []
s.observe(lambda c: log.append(c['new']), 'value')
z = 5
# %% check
OK = z == 5 and s.value == 3
# %% if reported: s
OK = z == 5
""",
    ),
    (
        "env_pathlike_and_dotenv",
        r"""
# %%
import os
os.environ.update({'DATA_DIR': '/d', 'DB_PASSWORD': 'p', 'AWS_SECRET_ACCESS_KEY': 'k', 'HTTP_PROXY': 'h', 'OMP_NUM_THREADS': '7'})
cfg = {'dir': os.environ['DATA_DIR']}
# %% check
OK = os.environ['DATA_DIR'] == '/d' and cfg['dir'] == '/d'
""",
    ),
    (
        "sys_hooks_displayhook",
        r"""
# %%
import sys, builtins, atexit
seen = []
sys.excepthook = lambda *a: seen.append(1)
formatter = get_ipython().display_formatter.formatters['text/plain']
class Money:
    def __init__(self, v): self.v = v
formatter.for_type(Money, lambda o, p, c: p.text(f'${o.v}'))
m = Money(3)
# %% check
OK = m.v == 3 and seen == []
""",
    ),
    (
        "types_generic_alias_newtype",
        r"""
# %%
import typing, types, collections.abc as cabc
UserId = typing.NewType('UserId', int)
P = typing.ParamSpec('P'); R = typing.TypeVar('R', int, str); Ts = typing.TypeVarTuple('Ts')
Fn = typing.Callable[P, R]
class Box(typing.Generic[R]):
    v: R
class Sub(Box[int]): pass
Alias = Box[str] | None
m = {Box[int]: 1, UserId: 2, R: 3}
s = Sub()
# %% check
OK = UserId(3) == 3 and m[UserId] == 2 and m[R] == 3 and m[Box[int]] == 1 and isinstance(s, Box) and Sub.__orig_bases__ == (Box[int],) and R.__constraints__ == (int, str)
""",
    ),
    (
        "mutated_builtin_default_and_slots_inherit",
        r"""
# %%
class P:
    __slots__ = ('a',)
class Q(P):
    __slots__ = ('__weakref__', 'b')
    def __init__(self): self.a = self; self.b = {}
q = Q(); q.b['q'] = q
class Frozen:
    def __init__(self): object.__setattr__(self, 'x', 1)
    def __setattr__(self, *a): raise TypeError
    def __delattr__(self, *a): raise TypeError
fz = Frozen()
class Singleton:
    _i = None
    def __new__(cls):
        if cls._i is None: cls._i = super().__new__(cls); cls._i.data = []
        return cls._i
one = Singleton(); two = Singleton()
# %% check
OK = q.a is q and q.b['q'] is q and fz.x == 1 and one is two and Singleton() is one and one.data == []
""",
    ),
    (
        "getstate_none_and_copyreg_slots",
        r"""
# %%
class G:
    def __init__(self): self.big = [1]; self.cache = object()
    def __getstate__(self): d = dict(self.__dict__); d.pop('cache'); return d
class N:
    def __getstate__(self): return None
class Ten:
    def __getnewargs__(self): return (1,)
    def __new__(cls, a=None): o = object.__new__(cls); o.a = a; return o
g = G(); n = N(); t = Ten(5)
# %% check
OK = g.big == [1] and not hasattr(g, 'cache') or hasattr(g, 'cache')
OK = OK and isinstance(n, N) and t.a in (1, 5)
""",
    ),
    (
        "numpy_in_closures_and_partial",
        r"""
# %%
import numpy as np, functools
w = np.ones(3)
def model(x): return x @ w
def make(k):
    b = w[:k]
    def f(): return b.sum()
    return f
f2 = make(2); p = functools.partial(np.dot, w)
vec = np.vectorize(lambda x: x + 1)
poly = np.polynomial.Polynomial([1, 2]); p1 = np.poly1d([1, 2])
# %% check
w[0] = 10
OK = f2() == 11 and model(np.ones(3)) == 12 and p(np.ones(3)) == 12 and vec(1) == 2 and poly(1) == 3 and p1(1) == 3
""",
    ),
]
