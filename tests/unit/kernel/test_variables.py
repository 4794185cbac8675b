"""Numbers in the variables of a lease grow and shrink with its share."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.variables import scaled
from jupyter_gpupool.protocol.documents import ShareDoc
from jupyter_gpupool.protocol.messages import AttachReply, DeviceCap

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "PYTORCH_ALLOC_CONF",
            "a:1,per_process_memory_fraction:0.2500",
            "a:1,per_process_memory_fraction:0.5",
        ),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.7500", "1"),
        ("CUPY_GPU_MEMORY_LIMIT", str(20 * GIB), str(40 * GIB)),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "GPU-12ab=20480M,GPU-3=1G", "GPU-12ab=40960M,GPU-3=2G"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", "75"),
    ],
)
def test_a_size_is_scaled_in_the_form_it_was_written_in(name, before, after):
    assert scaled({name: before}, compute=3.0, memory=2.0) == {name: after}


def test_what_carries_no_size_is_left_out():
    others = {"CUDA_VISIBLE_DEVICES": "GPU-25", "OMP_NUM_THREADS": "2", "CUDA_MPS_PIPE_DIRECTORY": "/run/1"}
    assert scaled(others, compute=2.0, memory=2.0) == {}


def share(milli: int, gib: int) -> ShareDoc:
    return ShareDoc(device_id="GPU-1", device_name="cuda0", compute_milli=milli, memory_bytes=gib * GIB)


def test_a_resize_reaches_the_environment_of_future_children_and_never_what_the_user_set(monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:128")
    for name in ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUPY_GPU_MEMORY_LIMIT", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    reply = AttachReply(
        environment={
            "PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.2500",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
            "CUPY_GPU_MEMORY_LIMIT": str(20 * GIB),
            "CUDA_VISIBLE_DEVICES": "GPU-1",
        },
        caps=[DeviceCap(device_id="GPU-1", memory_bytes=19 * GIB, total_bytes=80 * GIB)],
    )
    settings = AppliedSettings()
    settings.apply(reply, {"pytorch": "2.13.0"})
    assert os.environ["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:128,per_process_memory_fraction:0.2500"
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "7")
    settings.follow(share(250, 20), share(500, 40))
    assert os.environ["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:128,per_process_memory_fraction:0.5"
    assert os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert os.environ["CUPY_GPU_MEMORY_LIMIT"] == "7"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert [cap.memory_bytes for cap in settings._caps.wanted] == [39 * GIB]
    settings.follow(share(250, 20), share(125, 10))
    assert os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "12"
    settings.undo()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:128"
    assert os.environ["CUPY_GPU_MEMORY_LIMIT"] == "7"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert settings.notices == []
