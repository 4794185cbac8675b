"""Places inside things: iterators, streams, random numbers, collections, handles half way."""

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
]
