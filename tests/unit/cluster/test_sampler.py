"""When an agent tells the pool what it measured."""

from __future__ import annotations

import pytest

from jupyter_gpupool.cluster.sampler import LEAST_SECONDS, TELL_SECONDS, worth_telling
from jupyter_gpupool.protocol.documents import ProcessDoc, ReadingsDoc
from jupyter_gpupool.protocol.messages import DeviceSample, LeaseSample, SampleReport

GIB = 2**30


def _sample(*, lease: LeaseSample | None = None, **device: object) -> SampleReport:
    made = DeviceSample(device_id="GPU-1", readings=ReadingsDoc(utilization_percent=50.0), **device)  # type: ignore[arg-type]
    return SampleReport(devices=[made], leases=[] if lease is None else [lease])


QUIET = _sample(metrics={"fan": 1.0})
HELD = LeaseSample(lease_id="lease_1", memory_used_bytes=GIB, processes=1)


@pytest.mark.parametrize(
    ("new", "worth"),
    [
        (_sample(metrics={"fan": 2.0}), False),
        (_sample(metrics={"fan": 1.0}, missing={"fan": "no permission"}), True),
        (_sample(metrics={"fan": 1.0}, unmanaged=[ProcessDoc(pid=7, user="ann", name="python")]), True),
    ],
)
def test_readings_ride_along_and_what_a_person_would_see_is_told(new: SampleReport, worth: bool) -> None:
    assert worth_telling(QUIET, new, LEAST_SECONDS + 0.1) is worth
    assert worth_telling(QUIET, new, TELL_SECONDS)
    assert not worth_telling(QUIET, new, LEAST_SECONDS / 2)


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, False),
        ({"notices": ["It uses 93 % of its memory."]}, True),
        ({"host_memory_bytes": GIB}, True),
        ({"utilization_percent": 10.0}, True),
        ({"memory_used_bytes": GIB + 1}, False),
    ],
)
def test_what_changes_for_a_holder_is_told(changes: dict[str, object], worth: bool) -> None:
    fields = {"lease_id": "lease_1", "memory_used_bytes": GIB, "processes": 1, **changes}
    new = LeaseSample(**fields)  # type: ignore[arg-type]
    assert worth_telling(_sample(lease=HELD), _sample(lease=new), LEAST_SECONDS) is worth


def test_a_holder_that_comes_is_told_at_once_and_so_is_everything_to_a_new_service() -> None:
    many = {"fan": 1.0}
    assert worth_telling(_sample(metrics=many), _sample(metrics=many, lease=HELD), 0.0)
    assert worth_telling(None, QUIET, 0.0)
