"""What an agent does with holders, with devices whose pace the test sets."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.protocol.messages import (
    ApplyOrder,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    DetachOrder,
    ExitedReport,
)
from tests.support.desk_bench import DeskBench, order_for, peer_of, shares_of
from tests.support.waiting import until

pytestmark = pytest.mark.skipif("not hasattr(__import__('os'), 'pidfd_open')", reason="agents run on Linux")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.asyncio
async def test_an_end_that_arrives_during_the_attach_wins(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    bench.backend.go.clear()
    attach = asyncio.ensure_future(bench.desk.attach(order_for("one"), peer_of(process)))
    await until(bench.backend.entered.is_set, what="the attach has begun")
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    bench.backend.go.set()
    reply = await attach
    await until(lambda: bench.reports, what="the detach is confirmed")
    assert reply.error is not None
    assert reply.error.code == "lease_ended"
    assert bench.kinds() == [DetachedReport]
    assert bench.backend.in_force == {}
    assert bench.book.load() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_the_end_of_a_lease_that_nobody_took_is_confirmed_at_once(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    assert bench.reports == [DetachedReport(lease_id="lease_1", generation=1)]

    await bench.desk.attach(order_for("one"), peer_of(process))
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    assert bench.kinds() == [DetachedReport, AttachedReport]  # that of one that is held takes its time
    await until(lambda: len(bench.reports) == 3, what="the detach is confirmed")
    assert bench.backend.in_force == {}
    await bench.desk.close()


@pytest.mark.asyncio
async def test_of_several_shares_all_are_in_force_or_none(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    bench.backend.failing = {"attach two"}
    reply = await bench.desk.attach(order_for("one", "two"), peer_of(process))
    assert reply.error is not None
    assert bench.backend.in_force == {}

    bench.backend.failing = {"resize two"}
    assert (await bench.desk.attach(order_for("one", "two"), peer_of(process))).error is None
    shares = shares_of("one", "two", compute_milli=500)
    bench.desk.apply(ApplyOrder(lease_id="lease_1", generation=1, shares=shares))
    await until(lambda: ApplyRefusedReport in bench.kinds(), what="the resize is refused")
    assert set(bench.backend.in_force.values()) == {250}
    assert [item.share.compute_milli for item in bench.book.load()[0].attachments] == [250, 250]
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_detach_that_fails_is_not_confirmed_and_is_tried_again(
    tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpupool.cluster.desk.RETRY_SECONDS", 0.05)
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(process))
    bench.backend.failing = {"detach one"}
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    for _ in range(10):
        await bench.hands.do(lambda: None)
    assert bench.kinds() == [AttachedReport]
    assert [seen.lease_id for seen in bench.desk.living()] == ["lease_1"]
    bench.backend.failing = set()
    await until(lambda: bench.kinds()[-1] is DetachedReport, what="the detach is confirmed")
    assert bench.book.load() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_late_end_of_an_earlier_generation_leaves_the_newer_alone(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one", generation=2), peer_of(process))
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    await until(lambda: DetachedReport in bench.kinds(), what="it is confirmed all the same")
    assert bench.backend.in_force == {("lease_1", "one"): 250}
    await bench.desk.close()


@pytest.mark.asyncio
async def test_an_adopted_process_is_watched_and_one_that_ended_is_cleaned_up(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(process))
    await bench.desk.close()
    assert bench.backend.in_force

    second = bench.make_desk()
    await second.adopt(bench.book.load())
    assert [seen.pid for seen in second.living()] == [process.pid]
    process.kill()
    await until(lambda: ExitedReport in bench.kinds(), what="its end is reported")
    await second.close()
    assert bench.backend.in_force == {}


@pytest.mark.asyncio
async def test_a_record_of_a_process_whose_number_was_reused_is_not_adopted(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    await bench.desk.attach(order_for("one"), peer_of(process))
    await bench.desk.close()
    (record,) = bench.book.load()
    record.holder = ProcessMark(pid=process.pid, start_ticks=record.holder.start_ticks - 1)
    second = bench.make_desk()
    await second.adopt([record])
    assert second.living() == []
    assert bench.backend.in_force == {}


@pytest.mark.asyncio
async def test_a_record_that_cannot_be_written_refuses_the_attach_and_leaves_nothing_in_force(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = DeskBench(tmp_path)
    (tmp_path / "holders").rmdir()
    reply = await bench.desk.attach(order_for("one"), peer_of(process))
    assert reply.error is not None
    assert bench.kinds() == [AttachRefusedReport]
    assert bench.backend.in_force == {}
    assert bench.desk.living() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_bug_in_a_backend_is_told_and_logged_once_and_ends_nothing(
    tmp_path: Path, process: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bench = DeskBench(tmp_path)
    bench.backend.failing = {"attach one badly"}
    reply = await bench.desk.attach(order_for("one"), peer_of(process))
    assert reply.error is not None
    assert "a bug" in reply.error.message

    bench.backend.failing = {"watch one badly"}
    assert (await bench.desk.attach(order_for("one"), peer_of(process))).error is None
    assert await bench.desk.look() == []
    assert await bench.desk.look() == []
    assert caplog.text.count("cannot be looked at") == 1
    assert "AttributeError: a bug" in caplog.text
    bench.backend.failing = set()
    assert [sample.lease_id for sample in await bench.desk.look()] == ["lease_1"]
    await bench.desk.close()
