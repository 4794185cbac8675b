"""More states of libraries: memory that is looked at from several sides, streams of chance, settings."""

STATES = [
    (
        "numpy_views_of_views_and_flags",
        r"""
# %%
import numpy as np
base = np.arange(60, dtype="f8").reshape(3, 4, 5)
t = base.transpose(2, 0, 1)
part = t[1:4, ::-1, 1::2]
diag = np.einsum("ii->i", base[0, :4, :4])
win = np.lib.stride_tricks.sliding_window_view(base.reshape(-1), 7)
frozen = base[1]; frozen.flags.writeable = False
fort = np.asfortranarray(base[0]); fview = fort.T
rec = np.zeros(4, dtype=[("a", "i4"), ("b", "f8", (2,))]); b = rec["b"][:, 1]
bools = base.view("i8")
# %% check
base[0, 1, 1] = -1.0; rec["b"][2, 1] = 9
fort[1, 2] = 77
OK = (np.shares_memory(base, part) and diag[1] == -1.0 and win[0, 6] == -1.0 and not frozen.flags.writeable
      and np.shares_memory(frozen, base) and fview[2, 1] == 77 and fort.flags.f_contiguous and b[2] == 9
      and bools[0, 1, 1] == np.float64(-1.0).view("i8") and part.strides == t[1:4, ::-1, 1::2].strides)
""",
    ),
    (
        "tensors_that_look_at_each_other",
        r"""
# %%
import torch, numpy as np
w = torch.arange(24.).reshape(4, 6)
col = w[:, 2]; tr = w.t(); flat = w.view(-1); strided = torch.as_strided(w, (3, 2), (6, 3), 1)
arr = w.numpy(); back = torch.from_numpy(arr[1])
ints = w.view(torch.int32)
p = torch.nn.Parameter(torch.ones(3)); d = p.data; det = p.detach()
(p.sum() * 2).backward(); g = p.grad
ex = torch.ones(1, 3).expand(4, 3)
cplx = torch.zeros(3, dtype=torch.complex64); real = cplx.real
conj = torch.tensor([1 + 2j]).conj()
# %% check
w[1, 2] = 100.; d[0] = 5.; g[1] = 8.; real[2] = 3.
OK = (col[1] == 100 and tr[2, 1] == 100 and flat[8] == 100 and arr[1, 2] == 100 and back[2] == 100
      and strided.data_ptr() == w.data_ptr() + 4 and ints.data_ptr() == w.data_ptr() and p[0] == 5 and det[0] == 5
      and p.grad is g and p.grad[1] == 8 and p.requires_grad and not d.requires_grad and ex.stride() == (0, 1)
      and cplx[2] == 3 and conj.is_conj() and conj[0] == 1 - 2j)
""",
    ),
    (
        "optimizers_with_groups_and_schedules",
        r"""
# %%
import torch
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
opt = torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[3].parameters(), "lr": 0.5}], lr=0.1, momentum=0.9, nesterov=True)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[0.2, 0.6], total_steps=20)
ema = torch.optim.swa_utils.AveragedModel(net)
x, y = torch.randn(16, 4), torch.randn(16, 1)
def step():
    opt.zero_grad(); loss = ((net(x) - y) ** 2).mean(); loss.backward(); opt.step(); sch.step(); ema.update_parameters(net)
    return loss.item()
early = [step() for _ in range(3)]
import copy
twin = copy.deepcopy((net.state_dict(), opt.state_dict(), sch.state_dict()))
state = torch.get_rng_state()
# %% check
rest = [step() for _ in range(3)]
net2 = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
opt2 = torch.optim.SGD([{"params": net2[0].parameters()}, {"params": net2[3].parameters(), "lr": 0.5}], lr=0.1, momentum=0.9, nesterov=True)
sch2 = torch.optim.lr_scheduler.OneCycleLR(opt2, max_lr=[0.2, 0.6], total_steps=20)
net2.load_state_dict(twin[0]); opt2.load_state_dict(twin[1]); sch2.load_state_dict(twin[2]); torch.set_rng_state(state)
mine = []
for _ in range(3):
    opt2.zero_grad(); loss = ((net2(x) - y) ** 2).mean(); loss.backward(); opt2.step(); sch2.step(); mine.append(loss.item())
OK = rest == mine and opt.param_groups[1]["params"][0] is net[3].weight and sch.optimizer is opt and int(ema.n_averaged) == 6
""",
    ),
    (
        "frames_groups_and_windows",
        r"""
# %%
import pandas as pd, numpy as np
df = pd.DataFrame({"k": list("aabb"), "v": [1., 2., 3., 4.], "t": pd.date_range("2024", periods=4, tz="Europe/Berlin")})
gb = df.groupby("k"); roll = df["v"].rolling(2); exp = df["v"].expanding(); styled = df.style.format({"v": "{:.1f}"})
idx = pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["l", "n"]); mi = df.set_index(idx)
per = pd.period_range("2024-01", periods=3, freq="M"); iv = pd.cut([1, 5, 9], [0, 3, 6, 10])
df.attrs["source"] = {"file": "a.csv"}
sub = df.loc[df.v > 1]; same = df
nul = pd.array([1, None, 3], dtype="Int64"); strs = pd.Series(["a", None], dtype="string")
off = pd.offsets.BMonthEnd(2); ts = pd.Timestamp("2024-01-01", tz="UTC"); nat = pd.NaT; na = pd.NA
# %% check
same["new"] = 1
OK = ("new" in df and gb["v"].sum().to_dict() == {"a": 3., "b": 7.} and roll.sum().iloc[1] == 3 and exp.max().iloc[3] == 4
      and "1.0" in styled.to_html() and mi.loc[("y", 1), "v"] == 3 and str(per[2]) == "2024-03" and iv.categories[1].left == 3
      and df.attrs["source"]["file"] == "a.csv" and len(sub) == 3 and nul[1] is pd.NA and strs.isna()[1] and off.n == 2
      and nat is pd.NaT and na is pd.NA and str(df.t.dt.tz) == "Europe/Berlin")
""",
    ),
    (
        "random_streams_of_all_kinds",
        r"""
# %%
import random, numpy as np, torch, copy
mine = random.Random(5); mine.random()
gen = np.random.default_rng(7); gen.normal()
kids = gen.spawn(2) if hasattr(gen, "spawn") else np.random.SeedSequence(7).spawn(2)
legacy = np.random.RandomState(3); legacy.randn(3)
tg = torch.Generator().manual_seed(11); torch.rand(2, generator=tg)
random.seed(1); np.random.seed(2); torch.manual_seed(3)
random.gauss(0, 1)
import pickle
def draw():
    return (mine.random(), gen.normal(), kids[0].integers(100), legacy.randn(), torch.rand(1, generator=tg).item(),
            random.gauss(0, 1), random.random(), np.random.randn(), torch.randn(1).item())
state = (mine.getstate(), gen.bit_generator.state, kids[0].bit_generator.state, legacy.get_state(), tg.get_state(),
         random.getstate(), np.random.get_state(), torch.get_rng_state())
expected = draw()
mine.setstate(state[0]); gen.bit_generator.state = state[1]; kids[0].bit_generator.state = state[2]; legacy.set_state(state[3])
tg.set_state(state[4]); random.setstate(state[5]); np.random.set_state(state[6]); torch.set_rng_state(state[7])
# %% check
OK = draw() == expected
""",
    ),
    (
        "figures_axes_and_animations_of_matplotlib",
        r"""
# %%
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt, numpy as np
plt.rcParams["lines.linewidth"] = 3.5
fig, axs = plt.subplots(1, 2, sharey=True, num="mine")
line, = axs[0].plot([1, 2, 3], label="l"); axs[0].legend(); im = axs[1].imshow(np.eye(3)); cb = fig.colorbar(im)
axs[0].set_title("T"); twin = axs[0].twinx(); twin.plot([9, 8])
fig2 = plt.figure()
plt.figure("mine")
# %% check
line.set_ydata([4, 5, 6])
OK = (plt.rcParams["lines.linewidth"] == 3.5 and plt.gcf() is fig and axs[0].lines[0] is line and axs[0].get_title() == "T"
      and list(axs[0].lines[0].get_ydata()) == [4, 5, 6] and cb.mappable is im and fig2.number in plt.get_fignums()
      and axs[0].get_shared_y_axes().joined(axs[0], axs[1]))
fig.savefig(__import__("io").BytesIO())
# %% if reported: fig, axs, line, im, cb, twin, fig2
OK = True
""",
    ),
    (
        "loggers_warnings_and_settings",
        r"""
# %%
import logging, warnings, decimal, locale, sys, numpy as np, pandas as pd
log = logging.getLogger("mine.sub"); log.setLevel(logging.DEBUG); log.propagate = False
class Keep(logging.Handler):
    def __init__(self): super().__init__(); self.seen = []
    def emit(self, record): self.seen.append(record.getMessage())
keep = Keep(); keep.setFormatter(logging.Formatter("%(message)s!")); log.addHandler(keep); log.debug("one")
warnings.filterwarnings("error", message="mine.*")
decimal.getcontext().prec = 7
np.set_printoptions(precision=2); pd.set_option("display.max_rows", 7); old_err = np.seterr(divide="raise")
sys.setrecursionlimit(4321)
# %% check
log.debug("two")
try:
    warnings.warn("mine is here"); ok = False
except UserWarning:
    ok = True
OK = (ok and keep.seen == ["one", "two"] and logging.getLogger("mine.sub") is log and not log.propagate
      and decimal.getcontext().prec == 7 and np.get_printoptions()["precision"] == 2
      and pd.get_option("display.max_rows") == 7 and np.geterr()["divide"] == "raise" and sys.getrecursionlimit() == 4321)
""",
    ),
    (
        "estimators_and_pipelines_after_a_fit",
        r"""
# %%
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, FunctionTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
rng = np.random.RandomState(0)
X = rng.randn(60, 4); y = (X[:, 0] > 0).astype(int)
def clip(v): return np.clip(v, -LIMIT, LIMIT)
LIMIT = 2
pipe = make_pipeline(StandardScaler(), FunctionTransformer(clip), LogisticRegression()).fit(X, y)
forest = RandomForestClassifier(5, random_state=rng).fit(X, y)
folds = StratifiedKFold(3, shuffle=True, random_state=1); it = folds.split(X, y); next(it)
scores = pipe.predict_proba(X)[:3]
# %% check
LIMIT = 1
OK = (pipe[1].func is clip and forest.random_state is rng and (forest.predict(X) == y).mean() > 0.8
      and np.allclose(pipe[2].coef_, pipe.named_steps["logisticregression"].coef_)
      and not np.allclose(pipe.predict_proba(X * 5)[:3], scores))
# %% if reported: it
OK = pipe[1].func is clip
""",
    ),
    (
        "memory_under_bytes_arrays_and_ctypes",
        r"""
# %%
import array, ctypes, numpy as np, mmap, struct
buf = bytearray(b"0123456789"); mv = memoryview(buf)[2:8:2]; cast = memoryview(buf).cast("H")
arr = np.frombuffer(buf, "u1"); part = arr[3:6]
a = array.array("d", [1, 2, 3]); an = np.asarray(a)
class Pt(ctypes.Structure): _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
pt = Pt(3, 4.5); pts = (Pt * 2)(pt, Pt(1, 2)); first = pts[0]
anon = mmap.mmap(-1, 4096); anon[:4] = b"abcd"; over = np.frombuffer(anon, "u1")
# %% check
buf[4] = 65; a[1] = 20
pts[0].x = 99
OK = (mv[1] == 65 and part[1] == 65 and an[1] == 20 and pt.x == 3 and first.x == 99 and bytes(anon[:4]) == b"abcd"
      and over[0] == 97 and len(cast) == 5)
# %% if reported: anon, over
OK = part[1] == 65
""",
    ),
    (
        "shared_arrays_in_modules_loaders_and_closures",
        r"""
# %%
import numpy as np, torch
big = np.zeros((100, 10), dtype="f4")
ds = torch.utils.data.TensorDataset(torch.from_numpy(big), torch.arange(100))
sub = torch.utils.data.Subset(ds, range(10, 20))
loader = torch.utils.data.DataLoader(sub, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(2))
def reader(): return big[12]
class Aug(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.from_numpy(big)[0])
        self.register_buffer("tmp", torch.ones(2), persistent=False)
        self.layers = torch.nn.ModuleDict({"a": torch.nn.Linear(10, 2)}); self.head = self.layers["a"]
        self.register_forward_hook(lambda mod, i, o: seen.append(o.shape))
    def forward(self, x): return self.head(x + self.table)
seen = []
aug = Aug().eval()
# %% check
big[12] = 7; big[0] = 1
aug(torch.zeros(3, 10))
OK = (sub[2][0][0] == 7 and reader()[0] == 7 and aug.table[3] == 1 and aug.head is aug.layers["a"] and not aug.training
      and seen == [(3, 2)] and "tmp" not in aug.state_dict() and sum(len(b[0]) for b in loader) == 10)
""",
    ),
]
