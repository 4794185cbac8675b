"""Arrays of JAX come back as they were. Those of CuPy are tried against a stand-in only: here is no GPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.state_world import StateWorld

pytestmark = [pytest.mark.slow, pytest.mark.beside]
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@pytest.fixture
def world(tmp_path: Path) -> StateWorld:
    return StateWorld(tmp_path, env={"JAX_PLATFORMS": "cpu"})


JAX = """
import jax, jax.numpy as jnp, numpy as np
from jax import random
x = jnp.arange(300_000, dtype=jnp.float32)
same = {"x": x}
half = jnp.ones((3, 5), jnp.bfloat16)
weak = jnp.asarray(2.0)
weak_type = weak.weak_type
empty = jnp.zeros((0, 4), jnp.int8)
key = random.key(7)
old_key = random.PRNGKey(7)
with_x64 = jax.config.update("jax_enable_x64", True)
wide = jnp.arange(3, dtype=jnp.float64) / 3
jax.config.update("jax_enable_x64", False)
tree = jax.tree.map(lambda it: it * 2, {"a": [x, half]})
numbers = np.asarray(random.normal(key, (4,)))
"""


@needs_jax
def test_arrays_of_jax_come_back_as_they_were(world: StateWorld) -> None:
    saved = world.save([JAX])
    assert saved.ok, saved
    done = world.restore(
        """
OK = same["x"] is x and isinstance(x, jax.Array) and x.dtype == jnp.float32 and float(x[-1]) == 299_999.0
OK = OK and half.dtype == jnp.bfloat16 and half.shape == (3, 5) and empty.shape == (0, 4)
OK = OK and weak.weak_type == weak_type and (weak + jnp.ones(1, jnp.bfloat16)).dtype == jnp.bfloat16
OK = OK and wide.dtype == jnp.float64 and float(wide[1]) == 1 / 3 and not jax.config.jax_enable_x64
OK = OK and bool((tree["a"][0] == x * 2).all()) and jax.jit(lambda it: it.sum())(half) == 15
OK = OK and (np.asarray(random.normal(key, (4,))) == numbers).all() and (old_key == random.PRNGKey(7)).all()
OK = bool(OK)
"""
    )
    assert done.ok, done
    assert not done.findings


@needs_jax
def test_an_array_of_jax_whose_memory_is_gone_is_reported(world: StateWorld) -> None:
    saved = world.save(["import jax.numpy as jnp\ngone = jnp.ones(3); left = jnp.ones(2)\ngone.delete()"])
    assert saved.paths() == ["gone"]
    done = world.restore("OK = bool(left.sum() == 2)", map_device={"cpu:0": "cpu:1"})
    assert done.ok, done
    assert done.paths("changed") == []


@needs_jax
def test_a_device_of_jax_may_be_named_without_its_number(tmp_path: Path) -> None:
    two = "--xla_force_host_platform_device_count=2"
    world = StateWorld(tmp_path, env={"JAX_PLATFORMS": "cpu", "XLA_FLAGS": two})
    there = "import jax, jax.numpy as jnp\nx = jax.device_put(jnp.ones(3), jax.devices()[1])"
    assert world.save([there]).ok
    done = world.restore("OK = [it.id for it in x.devices()] == [1]")
    assert done.ok, done
    assert done.paths("changed") == []
    done = world.restore("OK = [it.id for it in x.devices()] == [0]", map_device={"cpu:1": "cpu"})
    assert done.ok, done
    assert done.paths("changed") == ["x"]
    # the same where the first device is called a GPU: nothing is left on it that is to be on the CPU
    called = (
        "def called(it):\n    return 'cuda:0' if it.id == 0 else 'cpu:0'\n"
        "__import__('jupyter_gpupool.state.recipes.devicearrays', fromlist=['_label'])._label = called\n"
    )
    assert world.save([called, "import jax.numpy as jnp\nx = jnp.ones(3)"]).ok
    done = world.restore(
        "OK = [it.id for it in x.devices()] == [1]", before=called, map_device={"cuda:0": "cpu"}
    )
    assert done.ok, done
    assert done.paths("changed") == ["x"]


CUPY = """
import types, sys
import numpy as np
class Device:
    def __init__(self, id): self.id = id
    def __enter__(self): cupy.at.append(self.id)
    def __exit__(self, *_): cupy.at.pop()
class ndarray:
    def __init__(self, host, device, base=None):
        self.host, self.device, self.base = host, Device(device), base
    def get(self, order): return self.host.copy(order)
    def __reduce__(self): raise TypeError("it was not saved through its host copy")
cupy = sys.modules["cupy"]
cupy.at, cupy.ndarray = [0], ndarray
ndarray.__module__ = "cupy"
cupy.array = lambda host, order: ndarray(host.copy(order), cupy.at[-1])
runtime = types.SimpleNamespace(getDeviceCount=lambda: COUNT)
cupy.cuda = types.SimpleNamespace(Device=Device, runtime=runtime)
"""
ARRAYS = """
import numpy as np
x = cupy.ndarray(np.arange(9e4).reshape(300, 300).T, 1)
y = [x]
view = cupy.ndarray(x.host[0], 1, x)
"""
BACK = """
OK = y[0] is x and x.device.id == WHERE and (x.host == np.arange(9e4).reshape(300, 300).T).all()
OK = OK and x.host.flags.f_contiguous and view.base is None
"""
MODULE = "import sys; sys.path.insert(0, '.')\nimport cupy"


@pytest.mark.parametrize(
    ("count", "mapped", "where", "kind", "path"),
    [
        (2, None, 1, "changed", "view"),
        (1, None, 0, "changed", "x"),
        (2, {"cuda:1": "cuda:0"}, 0, "changed", "x"),
        (0, None, None, "not_saved", "x"),
        (2, {"cuda": "cpu"}, None, "not_saved", "x"),
    ],
)
def test_arrays_of_cupy_go_through_the_host(
    world: StateWorld, count: int, mapped: dict[str, str] | None, where: int | None, kind: str, path: str
) -> None:
    pytest.importorskip("numpy")
    stand_in = world.work / "cupy.py"
    stand_in.write_text(CUPY.replace("COUNT", "2"))
    saved = world.save([MODULE, ARRAYS])
    assert saved.ok, saved
    assert saved.paths("changed") == ["view"]
    stand_in.write_text(CUPY.replace("COUNT", str(count)))
    check = "OK = True" if where is None else BACK.replace("WHERE", str(where))
    done = world.restore(check, **({"map_device": mapped} if mapped else {}))
    assert done.ok, done
    assert path in done.paths(kind)
