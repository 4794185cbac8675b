"""Emulated devices: which there are, and how their telemetry behaves."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from jupyter_gpupool.backends.base import Attachment, ProcessMark
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.emulated import EmulatedBackend
from jupyter_gpupool.backends.emulated_models import MODELS, parse_emulation
from jupyter_gpupool.backends.nvidia.backend import NvidiaBackend
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.registry import make_backends
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.documents import ReadingsDoc
from jupyter_gpupool.protocol.messages import ShareOrder


class Clock:
    """Time that a test passes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def me() -> ProcessMark:
    stat = ProcFS().stat(os.getpid())
    assert stat is not None
    return stat.mark


def leased(backend: EmulatedBackend, milli: int = 500, lease_id: str = "lease_1") -> Attachment:
    device = backend.discover()[0]
    memory = device.memory_bytes * milli // 1000
    share = ShareOrder(device_id=device.id, compute_milli=milli, memory_bytes=memory)
    return backend.attach(lease_id, share, me())


def course(
    backend: EmulatedBackend, clock: Clock, leases: list[Attachment], seconds: int
) -> list[ReadingsDoc]:
    """Sample the first device each second."""
    readings = []
    for _ in range(seconds):
        clock.now += 1
        readings.append(backend.sample(leases)[0].readings)
    return readings


def test_a_list_of_devices_is_read() -> None:
    devices = parse_emulation("8xA100-80GB, 2 x h100-80gb,L4-24GB")
    assert [model.name for model in devices] == [
        *["NVIDIA A100-SXM4-80GB"] * 8,
        *["NVIDIA H100 80GB HBM3"] * 2,
        "NVIDIA L4",
    ]


@pytest.mark.parametrize("spec", ["8xA100", "A100-80GB,", "", "x", "2xGPU", "-1xA100-80GB", "1.5xL4-24GB"])
def test_an_unknown_device_is_refused_with_those_there_are(spec: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_emulation(spec)
    for name in MODELS:
        assert name in caught.value.hint


@pytest.mark.parametrize(
    "spec", ["0xA100-80GB", "4097xT4-16GB", "4096xT4-16GB,1xL4-24GB", "999999999xL4-24GB"]
)
def test_too_many_or_no_devices_are_refused(spec: str) -> None:
    with pytest.raises(InvalidValue, match="between 1 and 4096"):
        parse_emulation(spec)


def test_every_device_says_that_it_is_emulated() -> None:
    devices = EmulatedBackend("2xA100-80GB,1xT4-16GB").discover()
    assert [device.name for device in devices] == ["cuda0", "cuda1", "cuda2"]
    for device in devices:
        assert device.emulated
        assert device.kind is DeviceKind.CUDA
        assert device.model.endswith("(emulated)")
    assert devices[0].compute_units == 108


def test_ids_follow_from_what_was_asked_for() -> None:
    ids = [device.id for device in EmulatedBackend("2xL4-24GB").discover()]
    assert ids == [device.id for device in EmulatedBackend("2xL4-24GB", seed=5).discover()]
    assert not set(ids) & {device.id for device in EmulatedBackend("3xL4-24GB").discover()}


def test_an_idle_device_is_cool_and_draws_little() -> None:
    clock = Clock()
    backend = EmulatedBackend("8xA100-80GB", clock=clock)
    for _ in range(50):
        clock.now += 1
        for sample in backend.sample([]):
            assert sample.readings.utilization_percent == 0
            assert 30 <= (sample.readings.temperature_celsius or 0) <= 40
            assert sample.readings.power_watts == 60


def test_utilization_wanders_within_the_share() -> None:
    clock = Clock()
    backend = EmulatedBackend("1xA100-80GB", clock=clock)
    lease = leased(backend, 500)
    percent = [reading.utilization_percent or 0 for reading in course(backend, clock, [lease], 120)]
    assert 15 <= min(percent) < max(percent) <= 50
    assert max(percent) - min(percent) > 5
    assert max(abs(one - other) for one, other in pairwise(percent)) < 10


def test_power_and_temperature_follow_with_inertia() -> None:
    clock = Clock()
    backend = EmulatedBackend("1xA100-80GB", clock=clock)
    idle = course(backend, clock, [], 5)[-1]
    lease = leased(backend, 1000)
    busy = course(backend, clock, [lease], 180)
    assert (busy[0].temperature_celsius or 0) - (idle.temperature_celsius or 0) < 3
    assert (busy[-1].temperature_celsius or 0) > 50
    assert (busy[-1].power_watts or 0) > 200
    after = course(backend, clock, [], 300)
    assert (after[0].temperature_celsius or 0) > 50
    assert abs((after[-1].temperature_celsius or 0) - (idle.temperature_celsius or 0)) < 1
    assert after[-1].power_watts == 60


def test_memory_warms_up_and_stays_within_the_share() -> None:
    clock = Clock()
    backend = EmulatedBackend("1xA100-80GB", clock=clock)
    lease = leased(backend, 250)
    parts = []
    for _ in range(150):
        used = backend.watch(lease).memory_used_bytes
        assert used is not None
        parts.append(used / lease.share.memory_bytes)
        clock.now += 1
    assert parts[0] == 0
    assert parts == sorted(parts)
    assert 0.69 < parts[-1] < 0.91


def test_the_same_seed_and_clock_make_the_same_course() -> None:
    courses = []
    for seed in (1, 1, 2):
        clock = Clock()
        backend = EmulatedBackend("1xH100-80GB", seed=seed, clock=clock)
        courses.append(course(backend, clock, [leased(backend)], 30))
    assert courses[0] == courses[1] != courses[2]


def test_leases_of_other_devices_do_not_count() -> None:
    clock = Clock()
    backend = EmulatedBackend("2xL4-24GB", clock=clock)
    lease = leased(backend, 1000)
    clock.now += 30
    first, second = backend.sample([lease])
    assert (first.readings.utilization_percent or 0) > 0
    assert second.readings.utilization_percent == 0


def test_emulated_devices_take_the_place_of_real_ones() -> None:
    assert [type(each) for each in make_backends("", False)] == [NvidiaBackend, CPUBackend]
    assert [type(each) for each in make_backends("", True)] == [NvidiaBackend, CPUBackend]
    assert [type(each) for each in make_backends("1xL4-24GB", False)] == [EmulatedBackend]
    assert [type(each) for each in make_backends(" 1xL4-24GB", True)] == [
        EmulatedBackend,
        NvidiaBackend,
        CPUBackend,
    ]
    with pytest.raises(InvalidValue):
        make_backends("9xNothing", False)


def test_beside_real_devices_emulated_ones_have_names_of_their_own() -> None:
    beside = make_backends("2xL4-24GB", True)[0].discover()
    assert [device.name for device in beside] == ["emulated0", "emulated1"]
    alone = make_backends("2xL4-24GB", False)[0].discover()
    assert [device.name for device in alone] == ["cuda0", "cuda1"]
    assert [device.id for device in alone] == [device.id for device in beside]
