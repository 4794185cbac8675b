"""Further states, each of several kinds at once."""

STATES = [
    (
        "getattr_proxy",
        r"""
# %%
class Proxy:
    def __init__(self, t): self.__dict__['_t'] = t
    def __getattr__(self, n): return getattr(self.__dict__['_t'], n)
    def __setattr__(self, n, v): setattr(self._t, n, v)
class T: pass
t = T(); p = Proxy(t); p.x = 3
# %% check
OK = p.x == 3 and t.x == 3 and p.__dict__['_t'] is t
""",
    ),
    (
        "class_in_closure_default",
        r"""
# %%
def make():
    cache = {}
    class K:
        store = cache
        def put(self, k, v): cache[k] = v; return self
    return K, cache
K, cache = make()
k = K().put('a', 1)
# %% check
k.put('b', 2)
OK = cache == {'a': 1, 'b': 2} and K.store is cache
""",
    ),
    (
        "super_class_cell",
        r"""
# %%
class A:
    def f(self): return [__class__]
class B(A):
    def f(self): return super().f() + [__class__]
b = B()
g = b.f
# %% check
OK = g() == [A, B] and b.f() == [A, B]
""",
    ),
    (
        "property_and_setattr_slots",
        r"""
# %%
class V:
    __slots__ = ('_x', 'y')
    def __init__(self): self._x = 1; self.y = [self]
    @property
    def x(self): return self._x
    def __setattr__(self, k, v):
        if k == 'z': raise AttributeError('no')
        object.__setattr__(self, k, v)
v = V()
# %% check
OK = v.x == 1 and v.y[0] is v
""",
    ),
    (
        "reduce_custom",
        r"""
# %%
import copyreg
class R:
    def __init__(self, a): self.a = a
    def __reduce__(self): return (R, (self.a,), {'b': 5})
class S:
    def __init__(self, q): self.q = q
copyreg.pickle(S, lambda s: (S, (s.q * 2,)))
r = R([1]); s = S(2); rr = [r, r]
# %% check after a restore
OK = r.a == [1] and r.b == 5 and rr[0] is r and rr[1] is r
""",
    ),
    (
        "getnewargs_ex_int_subclass",
        r"""
# %%
class I(int):
    def __new__(cls, v, *, tag): o = super().__new__(cls, v); o.tag = tag; return o
    def __getnewargs_ex__(self): return (int(self),), {'tag': self.tag}
class F(float): pass
class St(str): pass
class Tu(tuple): pass
i = I(5, tag='t'); f = F(1.5); f.u = 1; s = St('x'); s.k = [s]; t = Tu([1, 2]); t.n = 3
# %% check
OK = i == 5 and i.tag == 't' and f.u == 1 and s.k[0] is s and t.n == 3 and type(t) is Tu
""",
    ),
    (
        "np_memory_many",
        r"""
# %%
import numpy as np
base = np.zeros((4, 4))
rows = [base[i] for i in range(4)]
diag = base.diagonal()
ein = np.einsum('ii->i', base)
sw = base.swapaxes(0, 1)[1:3, ::-1]
comp = np.zeros(3, complex); re = comp.real; im = comp.imag
nd = base[np.newaxis, ..., 2]
it = np.nditer(base)
# %% check
base[2, 2] = 5; im[1] = 2; ein[0] = 9
OK = rows[2][2] == 5 and diag[2] == 5 and comp[1] == 2j and base[0, 0] == 9 and sw[1, 1] == 5 and nd[0, 2] == 5
# %% if reported: it
base[2, 2] = 5; im[1] = 2; ein[0] = 9
OK = rows[2][2] == 5 and diag[2] == 5 and comp[1] == 2j and base[0, 0] == 9
""",
    ),
    (
        "np_structured_views_pad",
        r"""
# %%
import numpy as np
dt = np.dtype([('a', 'u1'), ('b', '<f8')], align=True)
x = np.zeros(5, dt); y = x[['a']]; z = x[1]
dtypes = [dt, np.dtype('datetime64[ns]'), np.dtype(('f4', (2,)))]
sc = np.datetime64('2026-01-01'); void = z
ufunc = np.add; outer = np.add.outer; rng = np.random.default_rng
# %% check
z['b'] = 4.0
OK = x['b'][1] == 4.0 and x.dtype == dt and x.dtype.isalignedstruct and ufunc is np.add and sc.astype('O').year == 2026
y['a'][0] = 7
OK = OK and x['a'][0] == 7
""",
    ),
    (
        "pd_index_alias_and_series_of_df",
        r"""
# %%
import pandas as pd, numpy as np
idx = pd.Index([1, 2, 3], name='i')
df = pd.DataFrame({'a': [1., 2., 3.]}, index=idx)
s = df['a']; s2 = s
df2 = pd.DataFrame({'x': s, 'y': s * 2})
g = df.groupby(df['a'] > 1)
roll = df.rolling(2)
v = df.values
# %% check
OK = df.index is idx or df.index.equals(idx); OK = OK and s2 is s and g.ngroups == 2 and roll.sum().iloc[2, 0] == 5
df.iloc[0, 0] = 100
OK = OK and s.iloc[0] == 1.0 and df2.iloc[0, 0] == 1.0
""",
    ),
    (
        "torch_misc",
        r"""
# %%
import torch, functools
lin = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
seq = torch.nn.Sequential(lin, torch.nn.ReLU())
ml = torch.nn.ModuleDict({'a': seq})
pl = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1))])
t = torch.arange(6.).view(2, 3); col = t[:, 1]; un = t.unfold(1, 2, 1)
i8 = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
nt = torch.tensor([1., 2.], requires_grad=True)
nt.register_hook(lambda g: g * 2)
sd = {k: v for k, v in seq.state_dict().items()}
e = seq(torch.ones(1, 2)).detach()
amp = torch.amp.GradScaler('cpu', enabled=True)
# %% check
t[0, 1] = 77
nt.sum().backward()
OK = col[0] == 77 and un[0, 0, 1] == 77 and torch.equal(seq(torch.ones(1, 2)).detach(), e) and ml['a'][0] is lin and len(pl) == 1
OK = OK and i8.dequantize()[0].item() == 1 and nt.grad.tolist() == [2, 2]
# %% if reported: nt
t[0, 1] = 77
OK = col[0] == 77 and torch.equal(seq(torch.ones(1, 2)).detach(), e) and nt.tolist() == [1, 2]
""",
    ),
    (
        "torch_ema_and_closure_opt",
        r"""
# %%
import torch
torch.manual_seed(0)
m = torch.nn.Linear(2, 1)
opt = torch.optim.LBFGS(m.parameters(), lr=0.1)
x, y = torch.randn(8, 2), torch.randn(8, 1)
def closure():
    opt.zero_grad(); l = (m(x) - y).square().mean(); l.backward(); return l
opt.step(closure)
from torch.optim.swa_utils import AveragedModel
ema = AveragedModel(m); ema.update_parameters(m)
import copy
st = copy.deepcopy(m.state_dict()), copy.deepcopy(opt.state_dict())
e = [opt.step(closure).item() for _ in range(2)]
m.load_state_dict(st[0]); opt.load_state_dict(st[1])
# %% check
OK = [opt.step(closure).item() for _ in range(2)] == e and ema.module.weight.shape == (1, 2)
""",
    ),
    (
        "iter_over_custom_and_file_like",
        r"""
# %%
class It:
    def __init__(self): self.i = 0
    def __iter__(self): return self
    def __next__(self):
        self.i += 1
        if self.i > 3: raise StopIteration
        return self.i
src = It(); en = enumerate(src); next(en)
flt = filter(lambda x: x % 2, [1, 2, 3, 5]); next(flt)
sentinel = iter(lambda: src.i, 99)
ds = iter({1, 2, 3}); first = next(ds)
r = iter(range(5)); next(r); next(r)
z = zip(src, 'ab', strict=True)
g = iter('héllo'); next(g); next(g)
by = iter(b'abc'); next(by)
# %% check
OK = next(en) == (1, 2) and next(flt) == 3 and len({first, *ds}) == 3 and next(r) == 2 and next(g) == 'l' and next(by) == 98 and next(sentinel) == src.i
""",
    ),
    (
        "locks_in_objects_and_cond",
        r"""
# %%
import threading, collections, functools, contextlib
class Svc:
    def __init__(self):
        self._lock = threading.RLock(); self._cond = threading.Condition(self._lock); self.items = collections.deque([1], maxlen=5)
    def add(self, x):
        with self._cond: self.items.append(x); self._cond.notify()
svc = Svc(); svc.add(2)
stack = contextlib.ExitStack()
ns = contextlib.nullcontext(5)
sup = contextlib.suppress(ValueError)
ev = threading.Event()
tm = threading.Timer(1000, print)
# %% check
svc.add(3)
OK = list(svc.items) == [1, 2, 3] and svc._cond._lock is svc._lock and not ev.is_set()
with sup: raise ValueError
# %% if reported: tm, stack
svc.add(3)
OK = list(svc.items) == [1, 2, 3] and svc._cond._lock is svc._lock and not ev.is_set()
""",
    ),
    (
        "files_policies",
        r"""
# %%
import os, tempfile
r = open('a.txt', 'w+', encoding='utf-16'); r.write('äöü\nxyz\n'); r.seek(0); r.readline()
x = open('new.txt', 'x'); x.write('half')
nl = open('crlf.txt', 'w', newline='\r\n'); nl.write('a\n')
raw = open('raw.bin', 'wb', buffering=0); raw.write(b'abc')
gone = open('gone.txt', 'w'); gone.write('bye'); gone.flush(); os.remove('gone.txt')
# %% check
OK = r.readline() == 'xyz\n'
x.write('+rest'); x.flush(); nl.write('b\n'); nl.flush(); raw.write(b'd')
OK = OK and open('new.txt').read() == 'half+rest' and open('crlf.txt','rb').read() == b'a\r\nb\r\n' and open('raw.bin','rb').read() == b'abcd'
# %% if reported: gone
OK = r.readline() == 'xyz\n'
x.write('+rest'); x.flush(); nl.write('b\n'); nl.flush(); raw.write(b'd')
OK = OK and open('new.txt').read() == 'half+rest' and open('crlf.txt','rb').read() == b'a\r\nb\r\n' and open('raw.bin','rb').read() == b'abcd'
""",
    ),
    (
        "sqlite_more",
        r"""
# %%
import sqlite3
db = sqlite3.connect(':memory:')
db.create_function('dbl', 1, lambda x: x * 2)
db.execute('create table t(a)'); db.executemany('insert into t values(?)', [(1,), (2,)]); db.commit()
db.execute('insert into t values(3)')
z = [1]
# %% check
OK = z == [1] and db.execute('select count(*) from t').fetchone()[0] == 3 and db.execute('select dbl(2)').fetchone()[0] == 4
# %% if reported: db
OK = z == [1]
""",
    ),
    (
        "logging_config",
        r"""
# %%
import logging, logging.handlers, io
buf = io.StringIO()
class Redact(logging.Filter):
    def filter(self, rec): rec.msg = rec.msg.replace('pw', '**'); return True
h = logging.StreamHandler(buf); h.addFilter(Redact())
root = logging.getLogger(); root.addHandler(h); root.setLevel(logging.INFO)
child = logging.getLogger('svc.http'); child.disabled = False
ad = logging.LoggerAdapter(child, {'u': 1})
mh = logging.handlers.MemoryHandler(100, target=h)
logging.addLevelName(25, 'NOTICE')
child.info('pw one')
# %% check
child.info('pw two'); ad.info('three')
OK = buf.getvalue().split('\n')[:3] == ['** one', '** two', 'three'] and logging.getLevelName(25) == 'NOTICE' and root.level == logging.INFO
""",
    ),
    (
        "contextvars_decimal_locale",
        r"""
# %%
import contextvars, decimal, fractions, random, secrets
var = contextvars.ContextVar('var', default=1)
tok = var.set(5)
ctx = decimal.Context(prec=3)
sysr = random.SystemRandom()
z = 1
# %% check
OK = z == 1 and var.get() == 5 and ctx.divide(decimal.Decimal(1), 3) == decimal.Decimal('0.333') and 0 <= sysr.random() < 1
# %% if reported: var, tok
OK = z == 1 and ctx.prec == 3
""",
    ),
    (
        "in_out_and_underscores",
        r"""
# %%
{'a': [1]}
# %%
d = _
# %%
d['a'].append(2); d
# %%
5 + 5; 6 * 7
# %% check
OK = Out[1] is d and _1 is d and d['a'] == [1, 2] and _ == 42 and __ is d and Out[4] == 42 and 'd = _' in In[2] and _ih[2].strip() == 'd = _'
""",
    ),
    (
        "mpl_state",
        r"""
# %%
import matplotlib; matplotlib.use('Agg')
import matplotlib.pyplot as plt
f1 = plt.figure(); a1 = f1.add_subplot(); ln, = a1.plot([1, 2]);
f2, axs = plt.subplots(2, sharex=True)
plt.figure(f1.number)
tw = a1.twinx(); ann = a1.annotate('x', (0, 1)); cyc = a1._get_lines
plt.rcParams['figure.dpi'] = 55
nums = plt.get_fignums()
# %% check
OK = plt.get_fignums() == nums and plt.gcf() is f1 and ann in a1.texts and tw.figure is f1 and plt.rcParams['figure.dpi'] == 55
plt.plot([3, 4])
OK = OK and len(tw.lines) + len(a1.lines) == 2 and axs[0].get_shared_x_axes().joined(axs[0], axs[1])
f1.savefig('o.png')
""",
    ),
    (
        "async_things",
        r"""
# %%
import asyncio
async def work(n): return n * 2
lock = asyncio.Lock(); q = asyncio.Queue(); q.put_nowait(3); ev = asyncio.Event(); ev.set()
sem = asyncio.Semaphore(2)
res = await work(4)
loop = asyncio.get_event_loop()
# %% check
OK = res == 8 and q.get_nowait() == 3 and ev.is_set() and not lock.locked()
# %% if reported: loop, lock, q, ev, sem
OK = res == 8
""",
    ),
    (
        "wide_types",
        r"""
# %%
import collections, types, typing, enum, string, textwrap, heapq, bisect, numbers, array, struct, zlib, json, csv, io
ud = collections.UserDict(a=1); ul = collections.UserList([1]); us = collections.UserString('x')
st = struct.Struct('<I'); comp = zlib.compressobj; tmpl = string.Template('$a')
enc = json.JSONEncoder(indent=2); rd = csv.reader(io.StringIO('a,b\nc,d\n')); next(rd)
wr = csv.DictWriter(io.StringIO(), ['a'])
ga = list[int]; un = int | None; ell = ...; ni = NotImplemented; fn = print; tp = type; meth = [].append; cm = classmethod; sl = slice(1, None)
code = compile('1+1', 'x', 'eval'); mv = memoryview(b'abc'); rg = range(3)
T = typing.TypeVar('T'); NTy = typing.NewType('NTy', int); lit = typing.Literal['a']
z = 1
# %% check
OK = z == 1 and ud['a'] == 1 and st.pack(1) == b'\1\0\0\0' and tmpl.substitute(a=1) == '1' and eval(code) == 2 and mv[1] == 98 and NTy(3) == 3 and un == (int | None) and next(rd) == ['c', 'd'] and ni is NotImplemented and fn is print
# %% if reported: rd, wr
OK = z == 1 and ud['a'] == 1 and st.pack(1) == b'\1\0\0\0' and tmpl.substitute(a=1) == '1' and eval(code) == 2 and mv[1] == 98 and NTy(3) == 3 and un == (int | None) and ni is NotImplemented and fn is print
""",
    ),
    (
        "os_state",
        r"""
# %%
import os, sys, warnings, gc, signal, threading, locale, time, builtins
os.environ.pop('HOME', None)
os.environ['A_KEY'] = 'k1'; os.environ['PLAIN'] = 'v'
os.umask(0o027)
sys.ps9 = 1
warnings.simplefilter('error', ResourceWarning)
builtins.my_helper = lambda: 3
# %% check
OK = os.environ.get('PLAIN') == 'v' and 'HOME' not in os.environ
""",
    ),
    (
        "numpy_rng_kinds",
        r"""
# %%
import numpy as np, copy, pickle
gens = [np.random.Generator(b(5)) for b in (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)]
ss = np.random.SeedSequence(3); kids = ss.spawn(2)
[g.standard_normal() for g in gens]
bg = gens[0].bit_generator
e = [copy.deepcopy(g).random() for g in gens]
# %% check
OK = [g.random() for g in gens[1:]] == e[1:] and gens[0].bit_generator is bg and ss.n_children_spawned == 2 and ss.spawn(1)[0].spawn_key == (2,)
""",
    ),
    (
        "lru_and_method_cache",
        r"""
# %%
import functools
hits = []
@functools.lru_cache(None)
def fib(n):
    hits.append(n); return n if n < 2 else fib(n-1) + fib(n-2)
fib(10)
wrapped = fib.__wrapped__
cmp = functools.cmp_to_key(lambda a, b: a - b)
red = functools.partialmethod(print, 1)
@functools.total_ordering
class O:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
    def __eq__(s, o): return s.v == o.v
o = O(1)
# %% check
OK = fib(10) == 55 and wrapped(1) == 1 and sorted([3, 1], key=cmp) == [1, 3] and o <= O(2) and fib.cache_info().currsize >= 1
""",
    ),
]
