"""Arrays, tensors and frames: what shares memory goes on sharing it."""

STATES = [
    (
        "reversed_and_strided_views",
        r"""
# %%
import numpy as np
a = np.arange(24).reshape(4, 6)
r = a[::-1, ::2]
col = a[:, 3]
f = a.reshape(-1, order="A")
flat = a.ravel()
# %% check
a[3, 0] = 100
a[1, 3] = 50
OK = r[0, 0] == 100 and col[1] == 50 and flat[18] == 100 and f[18] == 100 and r.strides == (-48, 16)
""",
    ),
    (
        "a_view_outlives_the_name_of_its_base",
        r"""
# %%
import numpy as np
a = np.arange(10)
b, c = a[2:6], a[4:8]
# %%
del a
# %% check
b[2] = 70
OK = c[0] == 70 and np.shares_memory(b, c) and "a" not in globals()
""",
    ),
    (
        "other_dtype_views_and_fields",
        r"""
# %%
import numpy as np
x = np.zeros(4, "f4")
bits = x.view("u4")
rec = np.zeros(3, dtype=[("a", "i4"), ("b", "f8", (2,))])
fa, fb = rec["a"], rec["b"]
ra = rec.view(np.recarray)
# %% check
bits[0] = 0x3F800000
rec["a"][1] = 9
OK = x[0] == 1.0 and fa[1] == 9 and ra.a[1] == 9 and fb.base is not None and ra.b.shape == (3, 2)
""",
    ),
    (
        "broadcast_readonly_empty_and_zero_dimensional",
        r"""
# %%
import numpy as np
base = np.array([1.0, 2.0])
wide = np.broadcast_to(base, (3, 2))
ro = np.arange(3)
ro.flags.writeable = False
e = np.empty((0, 3))
z = np.array(5.0)
sc = np.float32(2.5)
win = np.lib.stride_tricks.sliding_window_view(np.arange(6), 3)
# %% check
base[0] = 9
OK = wide[2, 0] == 9 and not wide.flags.writeable and not ro.flags.writeable and e.shape == (0, 3) and z.shape == ()
OK = OK and type(sc) is np.float32 and win.strides[0] == win.strides[1] and win.tolist()[1] == [1, 2, 3]
""",
    ),
    (
        "object_string_date_and_masked_arrays",
        r"""
# %%
import numpy as np
shared = [1]
o = np.array([shared, None, "x", shared], dtype=object)
o2 = o[1:]
s = np.array(["ab", "c"])
sd = np.array(["a", "long string " * 5], dtype=np.dtypes.StringDType())
d = np.array(["2026-01-01", "NaT"], dtype="M8[D]")
m = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0])
F = np.asfortranarray(np.arange(6.0).reshape(2, 3))
# %% check
shared.append(2)
o[3] = "new"
OK = o[0] is shared and o2[2] == "new" and s[0] == "ab" and np.isnat(d[1]) and m.sum() == 4.0 and m.mask[1]
OK = OK and F.flags.f_contiguous and F[1, 2] == 5 and sd[1] == "long string " * 5 and isinstance(sd.dtype, np.dtypes.StringDType)
""",
    ),
    (
        "an_array_subclass_with_state",
        r"""
# %%
import numpy as np
class Unit(np.ndarray):
    def __new__(cls, data, unit):
        obj = np.asarray(data).view(cls)
        obj.unit = unit
        return obj
    def __array_finalize__(self, obj):
        self.unit = getattr(obj, "unit", None)
u = Unit([1.0, 2.0], "m")
v = u[:1]
# %% check
u[0] = 8
OK = u.unit == "m" and v.unit == "m" and v[0] == 8 and type(v) is Unit
""",
    ),
    (
        "buffers_of_python_under_arrays",
        r"""
# %%
import numpy as np, array
buf = bytearray(16)
a = np.frombuffer(buf, dtype="i4")
mv = memoryview(buf)[4:8]
arr = array.array("d", [1.0, 2.0])
b = np.frombuffer(arr)
const = np.frombuffer(b"abcd", dtype="u1")
# %% check
a[1] = 7
buf[0] = 1
b[1] = 5.0
OK = mv[0] == 7 and a[0] == 1 and arr[1] == 5.0 and bytes(mv) == b"\x07\0\0\0" and not const.flags.writeable and const[1] == 98
""",
    ),
    (
        "a_memory_map_of_a_file",
        r"""
# %%
import numpy as np, mmap
np.save("x.npy", np.arange(10.0))
m = np.load("x.npy", mmap_mode="r+")
part = m[2:4]
m[2] = 20
m.flush()
# %% check
part[1] = 30
m.flush()
OK = m[3] == 30 and m[2] == 20 and np.load("x.npy")[3] == 30 and isinstance(m, np.memmap)
""",
    ),
    (
        "frames_copy_when_written_to",
        r"""
# %%
import pandas as pd
df = pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]})
col = df["a"]
lazy = df.copy(deep=False)
part = df[["b"]]
top = df.iloc[:2]
# %% check
df.loc[0, "a"] = 99
lazy.loc[1, "b"] = 77
OK = col[0] == 1 and lazy.loc[0, "a"] == 1 and df.loc[1, "b"] == 2.0 and part.loc[1, "b"] == 2.0 and top.loc[0, "a"] == 1
col[1] = 55
OK = OK and df.loc[1, "a"] == 2 and top.loc[1, "a"] == 2
""",
    ),
    (
        "frames_of_many_types",
        r"""
# %%
import pandas as pd, numpy as np
df = pd.DataFrame({
    "cat": pd.Categorical(["x", "y", "x"], ordered=True),
    "when": pd.date_range("2026-01-01", periods=3, tz="Europe/Berlin"),
    "text": ["a", None, "c"],
    "n": pd.array([1, None, 3], dtype="Int64"),
    "span": pd.to_timedelta([1, 2, 3], unit="D"),
    "obj": pd.Series([[1], {"k": 2}, None], dtype=object),
    "iv": pd.interval_range(0, 3),
}).set_index(["cat", "when"])
df.attrs["source"] = "made"
g = pd.DataFrame({"k": [1, 1, 2], "v": [1, 2, 3]}).groupby("k")
sp = pd.Series(pd.arrays.SparseArray([0, 0, 1]))
s = df["n"]
e = repr(df)
dt = df.dtypes.astype(str).tolist()
# %% check
OK = repr(df) == e and df.dtypes.astype(str).tolist() == dt and df.attrs == {"source": "made"} and g["v"].sum().tolist() == [3, 3]
OK = OK and sp.sparse.density > 0.3 and df.index.levels[1].tz is not None and s.isna().sum() == 1
""",
    ),
    (
        "a_frame_over_an_array",
        r"""
# %%
import pandas as pd, numpy as np
arr = np.zeros((3, 2))
df = pd.DataFrame(arr, columns=["a", "b"], copy=False)
view = df.to_numpy()
shares = np.shares_memory(arr, view)
w = view.flags.writeable
# %% check
OK = np.shares_memory(arr, df.to_numpy()) == shares and view.flags.writeable == w
arr[0, 0] = 5
OK = OK and (df.iloc[0, 0] == 5) == shares
""",
    ),
    (
        "arrow_tables",
        r"""
# %%
import pyarrow as pa
t = pa.table({"a": [1, 2, None], "s": ["x", None, "z"]})
col = t["a"]
import pandas as pd
df = t.to_pandas(types_mapper=pd.ArrowDtype)
# %% check
OK = t.column("s").to_pylist() == ["x", None, "z"] and col.null_count == 1 and df["a"].sum() == 3 and t.schema.names == ["a", "s"]
""",
    ),
    (
        "tied_weights_and_a_state_dict",
        r"""
# %%
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e = torch.nn.Embedding(5, 3)
        self.out = torch.nn.Linear(3, 5, bias=False)
        self.out.weight = self.e.weight
        self.register_buffer("mean", torch.zeros(3))
        self.drop = torch.nn.Dropout(0.5)
net = Net().eval()
sd = net.state_dict()
flat = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
# %% check
with torch.no_grad():
    net.e.weight[0, 0] = 9
OK = net.out.weight is net.e.weight and sd["out.weight"][0, 0] == 9 and not net.training and len(list(net.parameters())) == 1
OK = OK and "mean" in dict(net.named_buffers())
""",
    ),
    (
        "tensor_data_detach_and_other_dtypes",
        r"""
# %%
import torch
p = torch.nn.Parameter(torch.arange(4.0))
d = p.data
det = p.detach()
b = torch.zeros(4, dtype=torch.bfloat16)
i = b.view(torch.int16)
tr = torch.arange(6).reshape(2, 3).t()
neg = torch.arange(5)[1::2]
c = torch.zeros(3, dtype=torch.complex64)
re = c.real
ex = torch.zeros(1).expand(3)
e = torch.empty(0, 4)
# %% check
d[0] = 5
i[0] = 1
re[1] = 2
OK = p[0].item() == 5 and det[0] == 5 and b[0] != 0 and tr.stride() == (1, 3) and c[1] == 2 and ex.stride() == (0,)
OK = OK and e.shape == (0, 4) and neg.storage_offset() == 1 and isinstance(p, torch.nn.Parameter) and p.requires_grad
""",
    ),
    (
        "arrays_of_tensors_and_tensors_of_arrays",
        r"""
# %%
import torch, numpy as np
t = torch.zeros(6)
a = t.numpy()
part = a[2:4]
b = np.arange(5.0)
tb = torch.from_numpy(b)[1:]
frozen = torch.as_tensor(b)
# %% check
t[2] = 3
b[1] = -1
OK = part[0] == 3 and tb[0] == -1 and frozen[1] == -1 and np.shares_memory(a, part)
""",
    ),
    (
        "an_optimizer_goes_on_bit_for_bit",
        r"""
# %%
import torch, copy
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
opt = torch.optim.AdamW([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[3].parameters()}], lr=0.01)
sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
g = torch.Generator().manual_seed(3)
def step():
    x = torch.randn(16, 4, generator=g)
    opt.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    opt.step()
    sch.step()
    return loss.item()
for _ in range(3):
    step()
# %%
st = copy.deepcopy((net.state_dict(), opt.state_dict(), sch.state_dict())), g.get_state(), torch.get_rng_state()
e = [step() for _ in range(3)]
net.load_state_dict(st[0][0]); opt.load_state_dict(st[0][1]); sch.load_state_dict(st[0][2])
g.set_state(st[1]); torch.set_rng_state(st[2])
# %% check
OK = [step() for _ in range(3)] == e
""",
    ),
    (
        "hooks_sparse_and_meta",
        r"""
# %%
import torch
seen = []
lin = torch.nn.Linear(2, 2)
h = lin.register_forward_hook(lambda m, i, o: seen.append(1))
sp = torch.tensor([[0, 1.0], [0, 0]]).to_sparse()
meta = torch.empty(3, device="meta")
w = torch.ones(2, requires_grad=True)
w.grad = torch.full((2,), 4.0)
size, dt, dev = torch.Size([1, 2]), torch.float16, torch.device("cpu")
# %% check
lin(torch.ones(1, 2))
OK = seen == [1] and sp.to_dense()[0, 1] == 1 and meta.device.type == "meta" and w.grad.tolist() == [4, 4]
OK = OK and dt is torch.float16 and size.numel() == 2 and dev.type == "cpu"
h.remove()
lin(torch.ones(1, 2))
OK = OK and seen == [1]
""",
    ),
    (
        "a_loss_that_still_has_its_graph",
        r"""
# %%
import torch
w = torch.ones(3, requires_grad=True)
losses = [(w * k).sum() for k in range(2)]
keep = w
# %% check
losses[1].backward()
OK = w.grad is not None
# %% if reported: losses
OK = losses[1].item() == 3 and not losses[1].requires_grad and keep is w and w.requires_grad
""",
    ),
    (
        "a_data_loader_and_a_dataset_of_the_notebook",
        r"""
# %%
import torch
from torch.utils.data import Dataset, DataLoader
class D(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.tensor(i)
ds = D()
dl = DataLoader(ds, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(0))
# %% check
OK = sorted(int(x) for b in dl for x in b) == [0, 1, 2, 3] and dl.dataset is ds
""",
    ),
]
