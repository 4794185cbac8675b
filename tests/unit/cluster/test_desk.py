"""What an agent does with holders, with devices whose pace the test sets."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.backends.base import Attachment, Backend, BackendError, Note, ProcessMark, no_note
from jupyter_gpupool.cluster.desk import HolderDesk
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.holders import HolderBook
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.cluster.limits import Limits
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.cluster.peer import Peer, open_pidfd, start_time
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.messages import (
    ApplyOrder,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    DetachOrder,
    DeviceReport,
    DeviceSample,
    ExitedReport,
    LeaseSample,
    PrepareOrder,
    Report,
    ShareOrder,
)
from tests.support.waiting import until

pytestmark = pytest.mark.skipif("not hasattr(__import__('os'), 'pidfd_open')", reason="agents run on Linux")


class PacedBackend(Backend):
    """Two devices whose attach waits for `go`, and whose calls fail when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.in_force: dict[tuple[str, str], int] = {}
        self.failing: set[str] = set()

    def discover(self) -> list[DeviceReport]:
        return [
            DeviceReport(
                id=name,
                name=name,
                kind=DeviceKind.CUDA,
                model="test",
                memory_bytes=100,
                compute_units=1,
                emulated=True,
            )
            for name in ("one", "two")
        ]

    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        return []

    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        self.entered.set()
        assert self.go.wait(10)
        self._fail("attach", share)
        self.in_force[lease_id, share.device_id] = share.compute_milli
        return Attachment(
            lease_id=lease_id, share=share, holder=holder, isolation=[], environment={}, threads=None
        )

    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        self._fail("resize", share)
        self.in_force[attachment.lease_id, share.device_id] = share.compute_milli
        return Attachment(
            lease_id=attachment.lease_id,
            share=share,
            holder=attachment.holder,
            isolation=[],
            environment={},
            threads=None,
        )

    def watch(self, attachment: Attachment) -> LeaseSample:
        self._fail("watch", attachment.share)
        return LeaseSample(lease_id=attachment.lease_id)

    def detach(self, attachment: Attachment) -> None:
        self._fail("detach", attachment.share)
        self.in_force.pop((attachment.lease_id, attachment.share.device_id), None)

    def _fail(self, what: str, share: ShareOrder) -> None:
        if f"{what} {share.device_id} badly" in self.failing:
            raise AttributeError("a bug")
        if f"{what} {share.device_id}" in self.failing:
            raise BackendError(f"The test lets {what} of {share.device_id} fail.")


class _Bench:
    def __init__(self, directory: Path) -> None:
        self.backend = PacedBackend()
        self.reports: list[Report] = []
        self.hands = Hands()
        self.book = HolderBook(directory / "holders")
        self.inventory = Inventory([self.backend], DeviceLocks(directory / "lock"))
        self.inventory.refresh()
        self.desk = self.make_desk()

    def make_desk(self) -> HolderDesk:
        return HolderDesk(Limits(self.inventory, self.book), self.hands, self.reports.append)

    def kinds(self) -> list[type[Report]]:
        return [type(report) for report in self.reports]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def _peer(process: subprocess.Popen[bytes]) -> Peer:
    start_ticks = start_time(process.pid)
    assert start_ticks is not None
    return Peer(ProcessMark(pid=process.pid, start_ticks=start_ticks), open_pidfd(process.pid))


def _order(*devices: str, generation: int = 1) -> PrepareOrder:
    return PrepareOrder(
        lease_id="lease_1",
        generation=generation,
        owner="ann",
        ticket_sha256="",
        expires_seconds=60,
        shares=_shares(*devices),
    )


def _shares(*devices: str, compute_milli: int = 250) -> list[ShareOrder]:
    return [ShareOrder(device_id=name, compute_milli=compute_milli, memory_bytes=10) for name in devices]


@pytest.mark.asyncio
async def test_an_end_that_arrives_during_the_attach_wins(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = _Bench(tmp_path)
    bench.backend.go.clear()
    attach = asyncio.ensure_future(bench.desk.attach(_order("one"), _peer(process)))
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
async def test_of_several_shares_all_are_in_force_or_none(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = _Bench(tmp_path)
    bench.backend.failing = {"attach two"}
    reply = await bench.desk.attach(_order("one", "two"), _peer(process))
    assert reply.error is not None
    assert bench.backend.in_force == {}

    bench.backend.failing = {"resize two"}
    assert (await bench.desk.attach(_order("one", "two"), _peer(process))).error is None
    shares = _shares("one", "two", compute_milli=500)
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
    bench = _Bench(tmp_path)
    await bench.desk.attach(_order("one"), _peer(process))
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
    bench = _Bench(tmp_path)
    await bench.desk.attach(_order("one", generation=2), _peer(process))
    bench.desk.detach(DetachOrder(lease_id="lease_1", generation=1))
    await until(lambda: DetachedReport in bench.kinds(), what="it is confirmed all the same")
    assert bench.backend.in_force == {("lease_1", "one"): 250}
    await bench.desk.close()


@pytest.mark.asyncio
async def test_an_adopted_process_is_watched_and_one_that_ended_is_cleaned_up(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    bench = _Bench(tmp_path)
    await bench.desk.attach(_order("one"), _peer(process))
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
    bench = _Bench(tmp_path)
    await bench.desk.attach(_order("one"), _peer(process))
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
    bench = _Bench(tmp_path)
    (tmp_path / "holders").rmdir()
    reply = await bench.desk.attach(_order("one"), _peer(process))
    assert reply.error is not None
    assert bench.kinds() == [AttachRefusedReport]
    assert bench.backend.in_force == {}
    assert bench.desk.living() == []
    await bench.desk.close()


@pytest.mark.asyncio
async def test_a_bug_in_a_backend_is_told_and_logged_once_and_ends_nothing(
    tmp_path: Path, process: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bench = _Bench(tmp_path)
    bench.backend.failing = {"attach one badly"}
    reply = await bench.desk.attach(_order("one"), _peer(process))
    assert reply.error is not None
    assert "a bug" in reply.error.message

    bench.backend.failing = {"watch one badly"}
    assert (await bench.desk.attach(_order("one"), _peer(process))).error is None
    assert await bench.desk.look() == []
    assert await bench.desk.look() == []
    assert caplog.text.count("cannot be looked at") == 1
    assert "AttributeError: a bug" in caplog.text
    bench.backend.failing = set()
    assert [sample.lease_id for sample in await bench.desk.look()] == ["lease_1"]
    await bench.desk.close()
