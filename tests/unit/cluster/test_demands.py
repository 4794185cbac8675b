"""What an agent does to holders because their devices ask for it, and how it tells the pool."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import Demand
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import (
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    DetachOrder,
    ExitedReport,
    QuiescedReport,
    QuiesceOrder,
)
from tests.support.desk_bench import DeskBench, order_for, peer_of
from tests.support.limits import lives
from tests.support.waiting import until

pytestmark = pytest.mark.skipif("not hasattr(__import__('os'), 'pidfd_open')", reason="agents run on Linux")

#: Prints its child's pid, ignores SIGTERM if it is told to, and ends with "interrupted" on SIGINT.
_HOLDER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    print(child.pid, flush=True)  # from here on the signal may come
    while True:
        time.sleep(0.05)  # not pause(): a signal just before it would be seen by nobody
except KeyboardInterrupt:
    child.kill()
    child.wait()
    print("interrupted", flush=True)
"""


class _Family:
    """A holder with a child in a session of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _HOLDER, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def family() -> Iterator[_Family]:
    made = _Family()
    yield made
    made.end()


@pytest.fixture
def stubborn() -> Iterator[_Family]:
    made = _Family("stubborn")
    yield made
    made.end()


def _doc(strength: Strength, verified: Verified) -> IsolationDoc:
    return IsolationDoc(
        resource=Resource.MEMORY, strength=strength, mechanism="test", limit="1 GiB", verified=verified
    )


@pytest.mark.asyncio
async def test_frameworks_reach_the_device_and_a_refusal_leaves_nothing(
    tmp_path: Path, family: _Family
) -> None:
    bench = DeskBench(tmp_path)
    bench.backend.failing = {"admit one"}
    reply = await bench.desk.attach(order_for("one"), peer_of(family.process), {"pytorch": "1.2"})
    assert reply.error is not None
    assert bench.backend.frameworks == [{"pytorch": "1.2"}]
    assert bench.kinds() == [AttachRefusedReport]
    assert bench.book.load() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_what_is_proved_later_is_told_and_written_down_once(tmp_path: Path, family: _Family) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    await bench.desk.look()
    assert bench.kinds() == [AttachedReport]
    bench.backend.isolation = [_doc(Strength.HARD, Verified.READ_BACK)]
    await bench.desk.look()
    await bench.desk.look()
    assert bench.kinds() == [AttachedReport, AttachedReport]
    assert bench.reports[-1].isolation == bench.backend.isolation
    (record,) = bench.book.load()
    assert record.isolation == bench.backend.isolation
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_holder_is_interrupted_as_by_the_stop_button(tmp_path: Path, family: _Family) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    bench.backend.demanded = Demand.INTERRUPT
    await bench.desk.look()
    assert family.process.stdout is not None
    assert await asyncio.to_thread(family.process.stdout.readline) == "interrupted\n"
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_holder_that_is_ended_takes_its_children_along_and_the_pool_is_told_why(
    tmp_path: Path, family: _Family
) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    bench.backend.demanded = Demand.END
    await bench.desk.look()
    await until(lambda: ExitedReport in bench.kinds(), what="its end is reported")
    assert bench.reports[-1].detail == (
        f"The agent ended process {family.process.pid}: it went on using more (1.0 GiB) than its 10 B of one."
    )
    assert bench.backend.quiesced == ["lease_1"]
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    await bench.desk.close()
    assert not lives(family.child)
    assert bench.backend.in_force == {}
    assert bench.book.load() == []


@pytest.mark.asyncio
async def test_a_holder_that_does_not_end_when_asked_is_killed(
    tmp_path: Path, stubborn: _Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpupool.cluster.ending.TERM_SECONDS", 0.2)
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(stubborn.process))
    bench.backend.demanded = Demand.END
    await bench.desk.look()
    await bench.desk.look()
    await until(lambda: not lives(stubborn.process.pid) and not lives(stubborn.child), what="all have ended")
    assert bench.backend.quiesced == ["lease_1"]
    await until(lambda: bench.backend.in_force == {}, what="it is cleaned up behind")
    await bench.desk.close()


@pytest.mark.asyncio
async def test_it_is_told_when_a_leases_processes_can_be_signalled(tmp_path: Path, family: _Family) -> None:
    bench = DeskBench(tmp_path)
    bench.desk.quiesce(QuiesceOrder(lease_id="lease_1", generation=1))
    await until(lambda: bench.kinds() == [QuiescedReport], what="nothing is there, and that is told")
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    bench.desk.quiesce(QuiesceOrder(lease_id="lease_1", generation=1))
    await until(lambda: bench.kinds()[-1] is QuiescedReport, what="it is safe")
    assert bench.backend.quiesced == ["lease_1"]
    bench.desk.quiesce(QuiesceOrder(lease_id="lease_1", generation=1, pid=family.child))
    await until(lambda: bench.kinds().count(QuiescedReport) == 3, what="one process of it is safe")
    assert bench.reports[-1] == QuiescedReport(lease_id="lease_1", generation=1, pid=family.child)
    assert bench.backend.quiesced_pids == [0, family.child]
    bench.backend.failing = {"quiesce one"}
    bench.desk.quiesce(QuiesceOrder(lease_id="lease_1", generation=1))
    await bench.desk.close()
    assert bench.kinds().count(QuiescedReport) == 3


@pytest.mark.asyncio
async def test_a_clean_up_that_fails_behind_an_ended_holder_is_tried_again_and_confirmed_only_then(
    tmp_path: Path, family: _Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpupool.cluster.desk.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("jupyter_gpupool.cluster.leftovers.RETRY_SECONDS", 0.05)
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    bench.backend.failing = {"detach one"}
    family.process.kill()
    await until(lambda: ExitedReport in bench.kinds(), what="its end is reported")
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    for _ in range(10):
        await bench.hands.do(lambda: None)
    assert DetachedReport not in bench.kinds()
    assert [record.lease_id for record in bench.book.load()] == ["lease_1"]
    bench.backend.failing = set()
    await until(lambda: bench.kinds()[-1] is DetachedReport, what="the end is confirmed")
    assert bench.backend.in_force == {}
    assert bench.book.load() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_an_attach_that_fails_and_cannot_be_undone_is_undone_later(
    tmp_path: Path, family: _Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpupool.cluster.leftovers.RETRY_SECONDS", 0.05)
    bench = DeskBench(tmp_path)
    bench.backend.failing = {"attach two", "detach one"}
    assert (await bench.desk.attach(order_for("one", "two"), peer_of(family.process))).error is not None
    (record,) = bench.book.load()
    assert record.begun
    reply = await bench.desk.attach(order_for("one", generation=2), peer_of(family.process))
    assert reply.error is not None
    assert "cannot be taken away yet" in reply.error.message
    bench.backend.failing = set()
    await until(lambda: bench.backend.in_force == {}, what="it is undone")
    await until(lambda: bench.book.load() == [], what="its record is gone")
    assert (await bench.desk.attach(order_for("one", generation=3), peer_of(family.process))).error is None
    await bench.desk.close()


@pytest.mark.asyncio
async def test_what_an_agent_had_only_begun_is_undone_by_the_next_one_and_not_adopted(
    tmp_path: Path, family: _Family
) -> None:
    bench = DeskBench(tmp_path)
    bench.backend.go.clear()
    attach = asyncio.ensure_future(bench.desk.attach(order_for("one"), peer_of(family.process)))
    await until(bench.backend.entered.is_set, what="the attach has begun")
    begun = bench.book.load()
    assert [(record.begun, len(record.attachments)) for record in begun] == [(True, 1)]
    bench.backend.go.set()
    assert (await attach).error is None
    assert not bench.book.load()[0].begun

    second = bench.make_desk()
    await second.adopt(begun)
    assert second.living() == []
    assert bench.backend.in_force == {}
    assert bench.book.load() == []
    await second.close()
    await bench.desk.close()


@pytest.mark.asyncio
async def test_limits_that_an_agent_was_changing_are_set_again_by_the_next_as_the_record_says(
    tmp_path: Path, family: _Family
) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(family.process))
    await bench.desk.close()
    (record,) = bench.book.load()
    record.resizing = True
    bench.book.save(record)
    bench.backend.in_force["lease_1", "one"] = 999

    second = bench.make_desk()
    await second.adopt(bench.book.load())
    assert bench.backend.in_force == {("lease_1", "one"): 250}
    assert not bench.book.load()[0].resizing
    await second.close()


@pytest.mark.asyncio
async def test_backends_close_what_they_opened(tmp_path: Path) -> None:
    bench = DeskBench(tmp_path)
    bench.inventory.close()
    assert bench.backend.closed
    await bench.desk.close()
