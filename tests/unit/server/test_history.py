"""What the server remembers of the pool's last hours."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_gpupool.protocol.documents import PoolDoc, ReadingsDoc
from jupyter_gpupool.server.history import DEVICE_STEPS, POOL_STEPS, STEP_SECONDS, History
from tests.support.fake_pool import pool_doc


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(clock: Clock) -> History:
    return History(clock)


def busy(percent: float | None) -> PoolDoc:
    """Build a snapshot whose one device is so busy, and a quarter of it leased."""
    doc = pool_doc()
    readings = ReadingsDoc(utilization_percent=percent, memory_used_bytes=2**30)
    device = msgspec.structs.replace(doc.devices[0], readings=readings, free_compute_milli=750)
    return msgspec.structs.replace(doc, devices=[device])


def test_before_the_first_snapshot_there_is_nothing(history: History) -> None:
    doc = history.doc()
    assert (doc.leased, doc.devices, doc.age_seconds) == ([], {}, 0.0)


def test_within_a_step_the_newest_reading_counts(history: History, clock: Clock) -> None:
    for percent in (10, 20, 30):
        history.note(busy(percent))
        clock.now += 1
    doc = history.doc()
    assert (doc.busy, doc.leased, doc.memory, doc.waiting) == ([30.0], [25.0], [25.0], [0.0])
    assert doc.devices == {"CPU-1": [30]}
    assert doc.age_seconds == 1


def test_a_pool_that_says_nothing_has_not_changed(history: History, clock: Clock) -> None:
    history.note(busy(40))
    clock.now += 3 * STEP_SECONDS
    history.note(busy(50))
    assert history.doc().busy == [40.0, 40.0, 40.0, 50.0]


def test_a_pool_that_was_not_heard_leaves_a_gap(history: History, clock: Clock) -> None:
    history.note(busy(40))
    history.lost()
    clock.now += 3 * STEP_SECONDS
    history.note(busy(50))
    assert history.doc().busy == [40.0, None, None, 50.0]


def test_an_unknown_reading_is_not_zero(history: History) -> None:
    history.note(busy(None))
    assert history.doc().busy == [None]


def test_it_is_bounded_and_forgets_devices_that_are_gone(history: History, clock: Clock) -> None:
    history.note(busy(40))
    clock.now += 10 * POOL_STEPS * STEP_SECONDS
    history.note(busy(50))
    doc = history.doc()
    assert len(doc.busy) == POOL_STEPS
    assert len(doc.devices["CPU-1"]) == DEVICE_STEPS
    history.note(msgspec.structs.replace(pool_doc(), devices=[]))
    assert history.doc().devices == {}
    assert history.doc().leased[-1] is None
