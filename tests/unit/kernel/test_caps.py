"""Each framework gets its cap through its own API, whenever it is loaded, and loses it at the release."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.kernel.caps import FrameworkCaps
from jupyter_gpupool.kernel.frameworkcaps import visible_index
from jupyter_gpupool.protocol.messages import DeviceCap

STAND_INS = Path(__file__).parents[2] / "fakes" / "frameworks"
NAMES = {"torch", "tensorflow", "cupy", "rmm", "jax"}
GIB = 2**30
GPU = "GPU-1a2b3c4d-0000-0000-0000-000000000000"


def cap(gib: int, device_id: str = GPU) -> DeviceCap:
    return DeviceCap(device_id=device_id, memory_bytes=gib * GIB, total_bytes=80 * GIB)


def _theirs() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in NAMES]


@pytest.fixture
def caps(monkeypatch) -> Iterator[FrameworkCaps]:
    """Give caps in a process where the frameworks are the stand-ins, none of them loaded yet."""
    real = {name: sys.modules.pop(name) for name in _theirs()}
    monkeypatch.syspath_prepend(str(STAND_INS))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", GPU)
    caps = FrameworkCaps()
    yield caps
    caps.take_off()
    for name in _theirs():
        del sys.modules[name]
    sys.modules.update(real)


def test_torch_is_left_to_initialise_cuda_and_has_its_cap_from_the_first_moment(caps):
    import torch

    caps.put([cap(20)])
    assert not torch.cuda.is_initialized()
    assert torch.cuda.fractions[0] == 1.0
    torch.cuda.init()
    assert torch.cuda.fractions[0] == 0.25


def test_a_torch_that_is_imported_later_gets_it_too(caps):
    caps.put([cap(20)])
    import torch

    assert not torch.cuda.is_initialized()
    torch.cuda.init()
    assert torch.cuda.fractions[0] == 0.25
    caps.take_off()
    assert torch.cuda.fractions[0] == 1.0
    assert not any(type(finder).__name__ == "ImportHook" for finder in sys.meta_path)


def test_a_cap_follows_a_resize_before_and_after_cuda_starts(caps):
    import torch

    caps.put([cap(20)])
    caps.put([cap(10)])
    torch.cuda.init()
    assert torch.cuda.fractions[0] == 0.125
    assert len(torch.cuda._queued_calls) == 1
    caps.put([cap(40)])
    assert torch.cuda.fractions[0] == 0.5


def test_a_lease_that_ended_before_cuda_starts_leaves_torch_alone(caps):
    import torch

    caps.put([cap(20)])
    caps.take_off()
    torch.cuda.init()
    assert torch.cuda.fractions[0] == 1.0


def test_a_lower_fraction_of_the_users_own_stays_and_comes_back(caps):
    import torch

    torch.cuda.set_per_process_memory_fraction(0.1)
    caps.put([cap(20)])
    assert torch.cuda.fractions[0] == 0.1
    caps.take_off()
    assert torch.cuda.fractions[0] == 0.1


def test_the_fraction_that_our_own_variable_made_is_not_taken_for_the_users(caps, monkeypatch):
    import torch

    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.2500")
    torch.cuda.set_per_process_memory_fraction(0.25)  # as torch does when it reads that
    caps.put([cap(20)])
    caps.put([cap(40)])
    assert torch.cuda.fractions[0] == 0.5
    caps.take_off()
    assert torch.cuda.fractions[0] == 1.0


def test_an_error_of_torch_is_a_sentence_and_does_not_break_what_the_user_runs(caps):
    import torch

    torch.cuda.broken = True
    caps.put([cap(20)])
    torch.cuda.init()
    (sentence,) = caps.problems
    assert "torch did not take its memory cap (RuntimeError: CUDA error: something is wrong" in sentence
    torch.cuda.broken = False
    caps.put([cap(20)])
    assert caps.problems == []


def test_a_device_that_torch_does_not_see_is_not_capped_by_accident(caps):
    import torch

    caps.put([cap(20, "GPU-ffffffff-0000-0000-0000-000000000000")])
    torch.cuda.init()
    assert torch.cuda.fractions[0] == 1.0


def test_tensorflow_gets_a_logical_device_until_it_uses_its_gpu(caps):
    import tensorflow

    gpu = tensorflow.config.list_physical_devices("GPU")[0]
    caps.put([cap(20)])
    assert [it.memory_limit for it in tensorflow.config.logical[gpu]] == [20 * 1024]
    caps.take_off()
    assert tensorflow.config.logical[gpu] == []
    assert caps.problems == []
    caps.put([cap(20)])
    tensorflow.config.in_use = True
    caps.put([cap(40)])
    (sentence,) = caps.problems
    assert "can no longer be told its cap of 40.0 GiB; it follows after a kernel restart" in sentence


def test_a_notebook_that_lets_tensorflows_memory_grow_works_under_a_cap_too(caps):
    import tensorflow

    gpu = tensorflow.config.list_physical_devices("GPU")[0]
    original = tensorflow.config.experimental.set_memory_growth
    caps.put([cap(20)])
    tensorflow.config.experimental.set_memory_growth(gpu, True)
    tensorflow.config.experimental.set_memory_growth("/physical_device:GPU:1", True)
    assert tensorflow.config.growth == {"/physical_device:GPU:1": True}
    caps.take_off()
    assert tensorflow.config.experimental.set_memory_growth == original


def test_cupys_pool_and_rmms_resource_are_limited_and_put_back(caps):
    caps.put([cap(20)])
    import cupy
    import rmm

    assert cupy.get_default_memory_pool().get_limit() == 20 * GIB
    assert rmm.mr.resources[0].allocation_limit == 20 * GIB
    caps.put([cap(10)])
    assert cupy.get_default_memory_pool().get_limit() == 10 * GIB
    assert rmm.mr.resources[0].allocation_limit == 10 * GIB
    assert rmm.mr.resources[0].upstream_mr == "the CUDA resource"
    caps.take_off()
    assert cupy.get_default_memory_pool().get_limit() == 0
    assert rmm.mr.resources[0] == "the CUDA resource"


@pytest.mark.parametrize(("variable", "during", "after"), [(20 * GIB, 20 * GIB, 0), (GIB, GIB, GIB)])
def test_what_cupys_variable_said_is_told_from_what_the_user_wants(
    caps, monkeypatch, variable, during, after
):
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", str(variable))
    caps.put([cap(20)])
    import cupy

    assert cupy.get_default_memory_pool().get_limit() == during
    caps.take_off()
    assert cupy.get_default_memory_pool().get_limit() == after


def test_jax_can_only_be_told_that_it_is_too_late(caps):
    import jax._src.xla_bridge as bridge

    caps.put([cap(20)])
    assert caps.problems == []
    bridge._backends["cpu"] = object()
    caps.put([cap(30)])
    assert caps.problems == []
    bridge._backends["cuda"] = object()
    assert caps.problems == []
    caps.put([cap(40)])
    assert "JAX took its part of the GPU's memory before it could be told of 40.0 GiB" in caps.problems[0]


def test_no_caps_are_no_hook(caps):
    caps.put([])
    assert not any(type(finder).__name__ == "ImportHook" for finder in sys.meta_path)


@pytest.mark.parametrize(
    ("device_id", "uuids", "visible", "index"),
    [
        ("GPU-aa", ["bb", "aa"], "", 1),
        ("MIG-aa", ["aa"], "", 0),
        ("GPU-aa", ["bb"], "GPU-aa", None),
        ("GPU-aabb", ["", ""], "GPU-cc,GPU-aa", 1),
        ("GPU-aa", [""], "0", 0),
        ("GPU-aa", ["", ""], "0,1", None),
    ],
)
def test_a_device_is_found_by_its_uuid_never_by_its_place(monkeypatch, device_id, uuids, visible, index):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_index(device_id, uuids) == index


REAL = """
from jupyter_gpupool.kernel.caps import FrameworkCaps
from jupyter_gpupool.protocol.messages import DeviceCap
wanted = [DeviceCap(device_id="GPU-1", memory_bytes=2**30, total_bytes=2**32)]
caps = FrameworkCaps()
caps.put(wanted)
import torch
queued = [call for call, _ in torch.cuda._queued_calls if "TorchCap" in call.__qualname__]
print(len(queued), torch.cuda.is_initialized(), torch.ones(2).sum().item(), caps.problems)
queued[0]()
print(caps.problems)
caps.put(wanted)
caps.take_off()
queued[0]()
print(torch.cuda.is_initialized(), caps.problems)
"""


@pytest.mark.slow
def test_the_real_torch_takes_the_cap_for_later_without_starting_cuda():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", REAL], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "1 False 2.0 []"
    assert second == "[]" or "torch did not take its memory cap" in second
    assert third == "False []"
