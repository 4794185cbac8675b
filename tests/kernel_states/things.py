"""Iterators, files, locks and other handles."""

STATES = [
    (
        "iterators_of_itertools",
        r"""
# %%
import itertools
base = iter(range(10))
a, b = itertools.tee(base)
next(a)
cyc = itertools.cycle("ab")
next(cyc)
sl = itertools.islice(itertools.count(3, 2), 1, 5)
next(sl)
ch = itertools.chain([1], [2, 3])
next(ch)
acc = itertools.accumulate([1, 2, 3])
next(acc)
rep = itertools.repeat(7, 3)
next(rep)
rv = reversed([1, 2, 3])
next(rv)
mp = map(str, [1, 2])
next(mp)
di = iter({"x": 1, "y": 2})
next(di)
# %% check
OK = (
    next(a) == 1 and next(b) == 0 and next(cyc) == "b" and next(sl) == 7 and list(ch) == [2, 3] and next(acc) == 3
    and list(rep) == [7, 7] and next(rv) == 2 and next(mp) == "2" and next(di) == "y"
)
# %% if reported: a, b, base, cyc, sl, ch, acc, rep
OK = next(rv) == 2 and next(mp) == "2" and next(di) == "y"
""",
    ),
    (
        "two_iterators_over_one_list",
        r"""
# %%
data = [1, 2, 3]
i, j = iter(data), iter(data)
next(i)
z = zip(i, j)
# %% check
data.append(4)
OK = next(z) == (2, 1) and list(i)[-1] == 4
""",
    ),
    (
        "a_file_that_is_being_written",
        r"""
# %%
f = open("out.txt", "w")
f.write("one\n")
b = open("bin.dat", "w+b")
b.write(b"0123456789")
b.seek(4)
ap = open("log.txt", "a")
ap.write("x")
# %% check
f.write("two\n")
f.flush()
ap.write("y")
ap.flush()
OK = open("out.txt").read() == "one\ntwo\n" and b.read(2) == b"45" and open("log.txt").read().startswith("xy")
""",
    ),
    (
        "files_in_memory_and_compressed",
        r"""
# %%
import io, gzip
s = io.StringIO("line1\nline2\n")
s.readline()
bb = io.BytesIO(b"abcdef")
bb.read(3)
wrapped = io.TextIOWrapper(io.BytesIO(b"x\ny\n"), encoding="utf-8")
wrapped.readline()
with gzip.open("z.gz", "wt") as zf:
    zf.write("a\nb\n")
zr = gzip.open("z.gz", "rt")
zr.readline()
closed = open("z.gz", "rb")
closed.close()
# %% check
OK = s.readline() == "line2\n" and bb.read() == b"def" and closed.closed and zr.readline() == "b\n" and wrapped.readline() == "y\n"
# %% if reported: zr, wrapped
OK = s.readline() == "line2\n" and bb.read() == b"def" and closed.closed
""",
    ),
    (
        "locks_and_their_kin",
        r"""
# %%
import threading, queue
r = threading.RLock()
r.acquire(); r.acquire()
c = threading.Condition()
sem = threading.BoundedSemaphore(2)
sem.acquire()
bar = threading.Barrier(1)
pq = queue.PriorityQueue()
pq.put(3); pq.put(1)
lq = queue.LifoQueue(2)
lq.put("a")
sq = queue.SimpleQueue()
sq.put(5)
class Holder:
    def __init__(self):
        self.lock = threading.Lock()
        self.v = 1
h = Holder()
local = threading.local()
local.x = 3
# %% check
r.release(); r.release()
try:
    r.release()
    OK = False
except RuntimeError:
    OK = True
with c:
    c.notify_all()
OK = OK and sem.acquire(False) and not sem.acquire(False) and bar.wait() == 0 and pq.get() == 1 and lq.get() == "a" and sq.get() == 5
OK = OK and h.lock.acquire(False) and h.v == 1 and local.x == 3
""",
    ),
    (
        "databases",
        r"""
# %%
import sqlite3
mem = sqlite3.connect(":memory:")
mem.execute("create table t(a)")
mem.execute("insert into t values(1)")
mem.commit()
mem.row_factory = sqlite3.Row
disk = sqlite3.connect("d.sqlite")
disk.execute("create table if not exists u(b)")
disk.execute("insert into u values(2)")
disk.commit()
z = 1
# %% check
OK = mem.execute("select a from t").fetchone()["a"] == 1 and disk.execute("select b from u").fetchone() == (2,)
""",
    ),
    (
        "loggers_and_handlers",
        r"""
# %%
import logging, io
stream = io.StringIO()
lg = logging.getLogger("app.db")
hd = logging.StreamHandler(stream)
hd.setFormatter(logging.Formatter("%(levelname)s:%(message)s"))
lg.addHandler(hd)
lg.setLevel(logging.DEBUG)
lg.propagate = False
parent = logging.getLogger("app")
parent.setLevel(logging.ERROR)
lg.debug("one")
# %% check
lg.debug("two")
OK = stream.getvalue() == "DEBUG:one\nDEBUG:two\n" and parent.level == logging.ERROR and not lg.propagate and lg.handlers == [hd]
OK = OK and logging.getLogger("app.db") is lg
""",
    ),
    (
        "a_progress_bar_over_a_list",
        r"""
# %%
from tqdm.auto import tqdm
import io
bar = tqdm([1, 2, 3, 4], file=io.StringIO(), desc="d")
bar.update(2)
total = bar.total
# %% check
bar.update(1)
OK = bar.n == 3 and bar.total == 4 and bar.desc.startswith("d")
""",
    ),
    (
        "a_figure_with_many_parts",
        r"""
# %%
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt, numpy as np
x = np.arange(5.0)
fig, axes = plt.subplots(1, 2, num="mine")
line, = axes[0].plot(x, x ** 2, label="sq")
axes[0].legend()
im = axes[1].imshow(np.eye(3))
cb = fig.colorbar(im)
cur = plt.gcf().number
# %% check
OK = axes[0].figure is fig and axes[0].lines[0] is line and plt.gcf() is fig and plt.fignum_exists("mine")
fig.canvas.draw()
OK = OK and line.get_label() == "sq" and len(fig.axes) == 3
""",
    ),
    (
        "models_and_a_search",
        r"""
# %%
from sklearn.model_selection import GridSearchCV
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import Pipeline
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
p = Pipeline([("s", StandardScaler()), ("m", GradientBoostingClassifier(n_estimators=3, random_state=0))])
gs = GridSearchCV(p, {"m__max_depth": [1, 2]}, cv=2).fit(X, y)
best = gs.best_estimator_
e = gs.predict_proba(X)
# %% check
import numpy as np
OK = np.array_equal(gs.predict_proba(X), e) and gs.best_estimator_ is best and best.named_steps["s"].mean_.shape == (4,)
""",
    ),
    (
        "what_nobody_can_save",
        r"""
# %%
import asyncio, concurrent.futures, socket, subprocess, sys, hashlib, multiprocessing
def g():
    n = 0
    while True:
        n += 1
        yield n
gen = g()
next(gen)
async def ag():
    yield 1
agen = ag()
pool = concurrent.futures.ThreadPoolExecutor(1)
fut = pool.submit(lambda: 1)
fut.result()
srv = socket.socket()
proc = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
md = hashlib.md5(b"x")
frame = sys._getframe()
keep = {"x": [1, 2]}
also = keep["x"]
# %% check
OK = False
# %% if reported: gen, agen, pool, fut, srv, proc, md, frame
OK = also is keep["x"] and g.__name__ == "g" and next(g()) == 1
""",
    ),
    (
        "a_subprocess_that_has_ended_and_paths",
        r"""
# %%
import subprocess, sys, tempfile, pathlib
done = subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True, text=True)
tmp = tempfile.mkdtemp()
here = pathlib.Path.cwd()
# %% check
OK = done.stdout == "5\n" and done.returncode == 0 and pathlib.Path(tmp).is_dir() and here.exists()
""",
    ),
]
