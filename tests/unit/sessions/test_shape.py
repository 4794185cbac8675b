"""What follows from a lease for the size of its worker."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import DeviceDoc, HolderDoc, LeaseDoc, ReadingsDoc, ShareDoc
from jupyter_gpupool.sessions.errors import TooManyWorkers
from jupyter_gpupool.sessions.shape import MOST_WORKERS, Wish, capacity, parse_workers, shape_of

GIB = 2**30


def device(
    name: str, kind: DeviceKind = DeviceKind.CUDA, *, units: int = 100, parent: int = 1000
) -> DeviceDoc:
    return DeviceDoc(
        id=name,
        name=name,
        node_id="node",
        kind=kind,
        model="any",
        emulated=True,
        memory_bytes=80 * GIB,
        compute_units=units,
        free_compute_milli=1000,
        free_memory_bytes=80 * GIB,
        unmanaged_bytes=0,
        health=Health.HEALTHY,
        offered=True,
        withheld="",
        readings=ReadingsDoc(),
        leases=[],
        parent_milli=parent,
    )


def lease(kind: DeviceKind, milli: int, *devices: DeviceDoc, **fields: object) -> LeaseDoc:
    shares = [
        ShareDoc(
            device_id=it.id,
            device_name=it.name,
            compute_milli=milli,
            memory_bytes=it.memory_bytes * milli // 1000,
            parent_milli=it.parent_milli,
        )
        for it in devices
    ]
    known: dict[str, object] = {
        "id": "lease_1",
        "state": LeaseState.ATTACHING,
        "mine": True,
        "owner": "ann",
        "compute_milli": milli,
        "memory_bytes": shares[0].memory_bytes,
        "kind": kind,
        "device": shares[0].device_name,
        "shares": shares,
        "node_id": "node",
        "holder": HolderDoc(),
        "isolation": [],
        "generation": 1,
        "position": None,
        "reason": "",
        "waited_seconds": 0.0,
        "held_seconds": 0.0,
        "expires_seconds": None,
        "wait_left_seconds": None,
        "memory_used_bytes": None,
        "end_reason": None,
        "end_detail": "",
        "resizing": False,
        "tag": "",
        "count": len(shares),
    }
    return LeaseDoc(**{**known, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(("milli", "threads"), [(1, 1), (250, 2), (251, 3), (1000, 8)])
def test_a_share_of_a_cpu_has_as_many_threads_as_cores_rounded_up(milli: int, threads: int) -> None:
    cpu = device("cpu", DeviceKind.CPU, units=8)
    shape = shape_of(lease(DeviceKind.CPU, milli, cpu), [cpu], machine_memory_bytes=GIB)
    assert shape.nthreads == threads
    assert shape.memory_limit_bytes == 80 * GIB * milli // 1000
    assert shape.resources == {"CPU": milli / 1000}


def test_a_share_of_a_gpu_has_one_thread_and_its_part_of_main_memory() -> None:
    gpus = [device("cuda0"), device("cuda1")]
    shape = shape_of(lease(DeviceKind.CUDA, 250, gpus[0]), gpus, machine_memory_bytes=64 * GIB)
    assert (shape.nthreads, shape.memory_limit_bytes) == (1, 8 * GIB)
    assert shape.resources == {"GPU": 0.25}


def test_cores_and_memory_asked_for_beside_a_gpu_count() -> None:
    gpu = device("cuda0")
    held = lease(DeviceKind.CUDA, 500, gpu, host_cpu_milli=4000, host_memory_bytes=16 * GIB)
    shape = shape_of(held, [gpu], machine_memory_bytes=64 * GIB)
    assert (shape.nthreads, shape.memory_limit_bytes) == (4, 16 * GIB)


def test_a_worker_on_several_gpus_has_a_thread_and_a_resource_for_each() -> None:
    gpus = [device(f"cuda{number}") for number in range(4)]
    shape = shape_of(lease(DeviceKind.CUDA, 1000, *gpus[:2]), gpus, machine_memory_bytes=64 * GIB)
    assert (shape.nthreads, shape.memory_limit_bytes) == (2, 32 * GIB)
    assert shape.resources == {"GPU": 2.0}


def test_an_instance_is_the_part_of_its_gpu_that_it_is() -> None:
    mig = device("mig0", parent=286)
    shape = shape_of(lease(DeviceKind.CUDA, 1000, mig), [mig], machine_memory_bytes=100 * GIB)
    assert shape.resources == {"GPU": 0.286}
    assert shape.memory_limit_bytes <= 29 * GIB


def test_the_pool_holds_as_many_workers_as_shares_fit_on_devices_of_the_kind() -> None:
    devices = [device("cuda0"), device("cuda1"), device("cpu", DeviceKind.CPU)]
    assert capacity(devices, None, 300) == 6
    assert capacity(devices, DeviceKind.CPU, 250) == 4
    assert capacity(devices, None, 1000, count=2) == 1
    assert capacity([], None, 250) == 1
    assert capacity([device("cuda0")], None, 1) == MOST_WORKERS


def test_how_many_workers_is_a_number_or_two_bounds() -> None:
    assert parse_workers("4") == parse_workers(4) == Wish(4, 4)
    assert parse_workers("2:8") == Wish(2, 8, adaptive=True)
    assert parse_workers("3:3").adaptive
    assert parse_workers(0) == Wish(0, 0)


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "8:2", "1:2:3", "0:0", "²", True])
def test_what_is_no_number_of_workers_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_workers(text)
    assert caught.value.hint.startswith("Write ")


def test_more_workers_than_a_kernel_can_serve_are_refused() -> None:
    assert parse_workers(MOST_WORKERS).most == MOST_WORKERS
    with pytest.raises(TooManyWorkers, match=f"at most {MOST_WORKERS} workers"):
        parse_workers(f"1:{MOST_WORKERS + 1}")
