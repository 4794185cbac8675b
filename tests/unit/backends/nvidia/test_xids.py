"""Which device an XID concerns, and what a driver without events costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.health.vitals import Xid
from jupyter_gpupool.backends.nvidia.health.xids import XidListener
from tests.support.fake_gpus import FakeGPUs


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[FakeGPUs]:
    with FakeGPUs(tmp_path) as made:
        yield made


def test_events_come_with_their_gpu_and_once(gpus: FakeGPUs) -> None:
    nvml = NVML(library=gpus.a100(2).library)
    first, second = Discovery(nvml).look()
    listener = XidListener(nvml)
    listener.watch([first, second])
    gpus.event(1, 79)
    gpus.event(1, 95)
    listener.listen(5.0)
    listener.listen(6.0)
    assert listener.of(first) == ()
    assert listener.of(second) == (Xid(number=79, seconds=5.0), Xid(number=95, seconds=5.0))
    assert (listener.count(first), listener.count(second)) == (0, 2)
    listener.close()


def test_an_xid_of_one_instance_is_not_its_neighbours(gpus: FakeGPUs) -> None:
    nvml = NVML(library=gpus.h100_mig("3g.40gb", "2g.20gb").library)
    owner, one, other = Discovery(nvml).look()
    listener = XidListener(nvml)
    xid = Xid(number=94, seconds=1.0, gpu_instance_id=one.gpu_instance_id)
    listener.note(owner.uuid, xid)
    assert listener.of(one) == (xid,)
    assert listener.of(other) == listener.of(owner) == ()
    assert listener.count(owner) == 1


def test_what_is_remembered_is_bounded(gpus: FakeGPUs) -> None:
    nvml = NVML(library=gpus.a100().library)
    (gpu,) = Discovery(nvml).look()
    listener = XidListener(nvml)
    for number in range(1000):
        listener.note(gpu.uuid, Xid(number=number, seconds=float(number)))
    assert len(listener.of(gpu)) == 64
    assert listener.of(gpu)[-1].number == 999
    assert listener.count(gpu) == 1000


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents"])
def test_a_driver_without_events_is_said_to_have_none(gpus: FakeGPUs, function: str) -> None:
    nvml = NVML(library=gpus.a100().missing(function).library)
    (gpu,) = Discovery(nvml).look()
    listener = XidListener(nvml)
    listener.watch([gpu])
    listener.listen(1.0)
    assert listener.missing == {gpu.uuid: "driver too old"}
    listener.watch([replace(gpu, name="cuda7")])
    listener.close()


def test_a_gpu_that_has_no_xid_events_says_so(gpus: FakeGPUs) -> None:
    nvml = NVML(library=gpus.a100().set("gpu0.nvmlDeviceGetSupportedEventTypes", 1).library)
    (gpu,) = Discovery(nvml).look()
    listener = XidListener(nvml)
    listener.watch([gpu])
    assert listener.missing == {gpu.uuid: "not supported here"}
