"""Arrays, frames and tensors of unusual kinds, and what is built of them."""

STATES = [
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
]
