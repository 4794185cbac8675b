"""What a kernel's state is besides its variables."""

STATES = [
    (
        "every_random_stream_goes_on",
        r"""
# %%
import random, numpy as np, torch, copy
random.seed(3); np.random.seed(4); torch.manual_seed(5)
random.gauss(0, 1); np.random.standard_normal(); torch.rand(2)
rng = np.random.Generator(np.random.PCG64(7))
rng.random(3)
legacy = np.random.RandomState(2)
legacy.randn()
py = random.Random(9)
py.gauss(0, 1)
child = rng.spawn(1)[0]
def draw():
    return [
        random.gauss(0, 1), random.random(), float(np.random.standard_normal()), torch.rand(1).item(), float(rng.random()),
        float(legacy.randn()), py.gauss(0, 1), float(child.random()),
    ]
st = random.getstate(), np.random.get_state(), torch.get_rng_state(), copy.deepcopy((rng.bit_generator.state, legacy.get_state(), py.getstate(), child.bit_generator.state))
e = draw()
random.setstate(st[0]); np.random.set_state(st[1]); torch.set_rng_state(st[2])
rng.bit_generator.state = st[3][0]; legacy.set_state(st[3][1]); py.setstate(st[3][2]); child.bit_generator.state = st[3][3]
# %% check
OK = draw() == e
""",
    ),
    (
        "history_and_output",
        r"""
# %%
x = [1]
# %%
x
# %%
_ + [2]
# %% check
OK = Out[2] is x and Out[3] == [1, 2] and _3 == [1, 2] and In[1].strip() == "x = [1]" and _i2.strip() == "x" and _ == [1, 2]
""",
    ),
    (
        "options_of_libraries",
        r"""
# %%
import pandas as pd, numpy as np, matplotlib as mpl, torch, warnings, decimal, sys
pd.options.display.max_columns = 3
np.set_printoptions(precision=2, suppress=True)
np.seterr(divide="ignore")
mpl.rcParams["lines.linewidth"] = 7
torch.set_default_dtype(torch.float64)
torch.set_printoptions(precision=2)
warnings.filterwarnings("ignore", message="custom.*")
decimal.getcontext().prec = 50
sys.setrecursionlimit(4321)
# %% check
OK = pd.options.display.max_columns == 3 and np.get_printoptions()["suppress"] and np.geterr()["divide"] == "ignore"
OK = OK and mpl.rcParams["lines.linewidth"] == 7 and torch.get_default_dtype() == torch.float64 and decimal.getcontext().prec == 50
OK = OK and sys.getrecursionlimit() == 4321 and any("custom" in str(f[1].pattern) for f in warnings.filters if f[1] is not None)
""",
    ),
    (
        "environment_without_what_is_the_kernels_own",
        r"""
# %%
import os, sys
os.environ["MY_SETTING"] = "ä b"
os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-stale"
os.environ["JPY_SESSION_NAME"] = "stale"
os.environ["MY_API_TOKEN"] = "s3cret"
os.environ.pop("LESS", None)
os.makedirs("deep/er", exist_ok=True)
os.chdir("deep/er")
sys.path.insert(0, "/opt/mine")
# %% check after a restore
OK = os.environ.get("MY_SETTING") == "ä b" and os.environ.get("CUDA_VISIBLE_DEVICES") != "GPU-stale"
OK = OK and os.environ.get("JPY_SESSION_NAME") != "stale" and os.environ.get("MY_API_TOKEN") is None
OK = OK and os.getcwd().endswith("deep/er") and "/opt/mine" in sys.path
""",
    ),
    (
        "names_that_were_deleted_or_replaced",
        r"""
# %%
a = b = [1]
import math as m
sum = "shadow"
# %%
del a
m = 5
# %% check
OK = "a" not in globals() and b == [1] and m == 5 and sum == "shadow"
""",
    ),
    (
        "imports_stay_references",
        r"""
# %%
import numpy as np, os.path as osp, collections.abc, json as j
from numpy import linalg
from os import environ
import xml.etree.ElementTree as ET
root = ET.fromstring("<a><b>1</b></a>")
# %% check
import numpy, os
OK = np is numpy and osp is os.path and linalg is numpy.linalg and environ is os.environ and root.find("b").text == "1"
OK = OK and collections.abc.Mapping and j.dumps({}) == "{}"
""",
    ),
]
