"""Identity, containers and the usual types."""

STATES = [
    (
        "a_set_knows_its_own_objects",
        r"""
# %%
class Node:
    def __init__(self, name):
        self.name = name
        self.links = set()
a, b = Node("a"), Node("b")
a.links.add(b)
b.links.add(a)
by_node = {a: 1, b: 2}
# %% check
OK = b in a.links and a in b.links and by_node[a] == 1 and by_node[b] == 2 and len(by_node) == 2
""",
    ),
    (
        "a_tuple_in_a_cycle",
        r"""
# %%
inner = []
t = (inner, 1)
inner.append(t)
# %% check
OK = t[0] is inner and inner[0] is t
""",
    ),
    (
        "a_default_dict_with_a_lambda",
        r"""
# %%
import collections
d = collections.defaultdict(lambda: collections.Counter())
d["x"]["y"] += 2
od = collections.OrderedDict([("b", 1), ("a", 2)])
od.move_to_end("b")
chain = collections.ChainMap({"k": 1}, {"k": 2, "l": 3})
# %% check
d["new"]["z"] += 1
OK = d["x"]["y"] == 2 and list(od) == ["a", "b"] and chain["l"] == 3 and chain.maps[0] == {"k": 1}
""",
    ),
    (
        "a_user_list_subclass_with_attributes",
        r"""
# %%
class Rows(list):
    pass
class Table(dict):
    def __missing__(self, key):
        return key * 2
rows = Rows([1, 2])
rows.title = "t"
rows.append(rows)
table = Table(a=1)
table.rows = rows
# %% check
OK = rows.title == "t" and rows[2] is rows and table["zz"] == "zzzz" and table.rows is rows and type(rows) is Rows
""",
    ),
    (
        "a_very_deep_chain",
        r"""
# %%
class Link:
    __slots__ = ("next", "value")
    def __init__(self, next, value):
        self.next, self.value = next, value
head = None
for n in range(20000):
    head = Link(head, n)
nested = []
for _ in range(5000):
    nested = [nested]
# %% check
n, it = 0, head
while it is not None:
    n, it = n + 1, it.next
depth, it = 0, nested
while it:
    depth, it = depth + 1, it[0]
OK = n == 20000 and depth == 5000
""",
    ),
    (
        "a_mapping_proxy_over_a_live_dict",
        r"""
# %%
import types
data = {"a": 1}
view = types.MappingProxyType(data)
# %% check
data["b"] = 2
OK = view["b"] == 2
""",
    ),
    (
        "values_of_the_standard_library",
        r"""
# %%
import datetime, decimal, fractions, ipaddress, pathlib, re, uuid, zoneinfo, array, types
when = datetime.datetime(2026, 1, 2, 3, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
money = decimal.Decimal("1.10")
part = fractions.Fraction(1, 3)
net = ipaddress.ip_network("10.0.0.0/8")
where = pathlib.Path("/tmp") / "x"
pattern = re.compile(r"(\w+)-(\d+)", re.I)
number = uuid.UUID(int=5)
ints = array.array("i", [1, 2])
name = types.SimpleNamespace(a=[1])
name.me = name
# %% check
OK = (
    when.utcoffset() == datetime.timedelta(hours=1)
    and str(money) == "1.10"
    and part * 3 == 1
    and ipaddress.ip_address("10.1.1.1") in net
    and where.name == "x"
    and pattern.match("ab-12").group(2) == "12"
    and number.int == 5
    and ints.tolist() == [1, 2]
    and name.me is name
)
""",
    ),
    (
        "an_exception_with_a_cause_and_notes",
        r"""
# %%
class Broken(ValueError):
    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail
try:
    try:
        {}["k"]
    except KeyError as e:
        raise Broken(3, "d") from e
except Broken as e:
    e.add_note("note")
    err = e
# %% check
OK = err.code == 3 and isinstance(err.__cause__, KeyError) and err.__notes__ == ["note"] and str(err) == "3: d"
""",
    ),
    (
        "one_bad_member_costs_only_itself",
        r"""
# %%
good = [1, 2]
job = (n for n in good)
bag = {"good": good, "job": job, "n": 3}
# %% check
OK = False
# %% if reported: job, bag
OK = bag["good"] is good and bag["n"] == 3 and set(bag) == {"good", "job", "n"}
""",
    ),
    (
        "a_reduce_that_raises",
        r"""
# %%
class Stubborn:
    def __reduce__(self):
        raise RuntimeError("never")
x = Stubborn()
y = [1]
# %% check
OK = False
# %% if reported: x
OK = y == [1]
""",
    ),
    (
        "a_state_setter_that_raises",
        r"""
# %%
class Picky:
    def __init__(self):
        self.a = 1
    def __setstate__(self, state):
        raise RuntimeError("not here")
x = Picky()
y = {"k": 1}
# %% check
OK = False
# %% if reported: x
OK = y == {"k": 1}
""",
    ),
    (
        "a_state_setter_that_uses_a_global_of_the_notebook",
        r"""
# %%
import math
SCALE = 3
def helper(v):
    return math.sqrt(v) * SCALE
class Worker:
    def __init__(self, v):
        self.v, self.h = v, helper(v)
    def __getstate__(self):
        return {"v": self.v}
    def __setstate__(self, state):
        self.v = state["v"]
        self.h = helper(state["v"])
w = Worker(4)
# %% check
OK = w.v == 4 and w.h == 6
""",
    ),
    (
        "weak_collections",
        r"""
# %%
import weakref
class Thing:
    pass
one, two = Thing(), Thing()
keys = weakref.WeakKeyDictionary({one: "1"})
several = weakref.WeakSet([one, two])
method = weakref.WeakMethod(type("M", (), {"f": lambda self: 7})().f)
proxy = weakref.proxy(two)
two.v = 5
ref_dead = weakref.ref(Thing())
# %% check
OK = keys[one] == "1" and one in several and len(several) == 2 and proxy.v == 5 and ref_dead() is None
OK = OK and method() is None
""",
    ),
    (
        "names_with_unicode_and_dunders",
        r"""
# %%
größe = 3
__mine__ = [größe]
_ = 5
变量 = __mine__
# %% check
OK = größe == 3 and __mine__ == [3] and 变量 is __mine__
""",
    ),
    (
        "builtin_functions_and_methods_of_objects",
        r"""
# %%
values = [3, 1, 2]
push = values.append
key = {"a": 1}.get
joined = ", ".join
largest = max
upper = str.upper
import operator, functools
pick = operator.itemgetter(1)
add2 = functools.partial(operator.add, 2)
# %% check
push(9)
OK = values == [3, 1, 2, 9] and key("a") == 1 and joined("ab") == "a, b" and largest(values) == 9
OK = OK and upper("x") == "X" and pick([1, 5]) == 5 and add2(3) == 5
""",
    ),
    (
        "large_strings_and_bytes",
        r"""
# %%
text = "äb" * 400_000
data = bytes(range(256)) * 4000
same = data
buf = bytearray(data)
view = memoryview(buf)[10:20]
# %% check
buf[10] = 77
OK = len(text) == 800_000 and text[:4] == "äbäb" and same is data and view[0] == 77 and data[10] == 10
""",
    ),
    (
        "the_namespace_as_a_value",
        r"""
# %%
here = globals()
x = 1
import sys, os, builtins
modules = sys.modules
env = os.environ
out = sys.stdout
b = builtins
# %% check
here["y"] = 5
OK = y == 5 and modules is sys.modules and env is os.environ and b.len is len and hasattr(out, "write")
""",
    ),
]
