"""An agent's desk with devices whose pace, faults and demands the test sets."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from jupyter_gpupool.backends.base import (
    Attachment,
    Backend,
    BackendError,
    Demand,
    Note,
    ProcessMark,
    no_note,
)
from jupyter_gpupool.cluster.desk import HolderDesk
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.holders import HolderBook
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.cluster.limits import Limits
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.cluster.peer import Peer, open_pidfd, start_time
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import (
    DeviceReport,
    DeviceSample,
    LeaseSample,
    PrepareOrder,
    Report,
    ShareOrder,
)


class PacedBackend(Backend):
    """Two devices whose attach waits for `go`, and whose calls fail when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.in_force: dict[tuple[str, str], int] = {}
        self.failing: set[str] = set()
        #: What `watch` finds in force, and `demand` asks for.
        self.isolation: list[IsolationDoc] = []
        self.demanded: Demand | None = None
        #: Frameworks that `admit` was told of, and those that were made safe to signal.
        self.frameworks: list[dict[str, str]] = []
        self.quiesced: list[str] = []
        #: Which process of them, each time; 0 for all.
        self.quiesced_pids: list[int] = []
        self.closed = False

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
        made = Attachment(
            lease_id=lease_id, share=share, holder=holder, isolation=[], environment={}, threads=None
        )
        note(made)
        self.entered.set()
        assert self.go.wait(10)
        self._fail("attach", share)
        self.in_force[lease_id, share.device_id] = share.compute_milli
        return made

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
        attachment.isolation = [*self.isolation]
        return LeaseSample(lease_id=attachment.lease_id, memory_used_bytes=2**30)

    def admit(self, share: ShareOrder, frameworks: Mapping[str, str]) -> None:
        self.frameworks.append(dict(frameworks))
        self._fail("admit", share)

    def demand(self, attachment: Attachment) -> Demand | None:
        return self.demanded

    def quiesce(self, attachment: Attachment, pid: int = 0) -> None:
        self._fail("quiesce", attachment.share)
        self.quiesced.append(attachment.lease_id)
        self.quiesced_pids.append(pid)

    def close(self) -> None:
        self.closed = True

    def detach(self, attachment: Attachment) -> None:
        self._fail("detach", attachment.share)
        self.in_force.pop((attachment.lease_id, attachment.share.device_id), None)

    def _fail(self, what: str, share: ShareOrder) -> None:
        if f"{what} {share.device_id} badly" in self.failing:
            raise AttributeError("a bug")
        if f"{what} {share.device_id}" in self.failing:
            raise BackendError(f"The test lets {what} of {share.device_id} fail.")


class DeskBench:
    """A desk, with all that it needs, and what it reported."""

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


def peer_of(process: subprocess.Popen[bytes]) -> Peer:
    start_ticks = start_time(process.pid)
    assert start_ticks is not None
    return Peer(ProcessMark(pid=process.pid, start_ticks=start_ticks), open_pidfd(process.pid), os.getuid())


def order_for(*devices: str, generation: int = 1) -> PrepareOrder:
    return PrepareOrder(
        lease_id="lease_1",
        generation=generation,
        owner="ann",
        ticket_sha256="",
        expires_seconds=60,
        shares=shares_of(*devices),
    )


def shares_of(*devices: str, compute_milli: int = 250) -> list[ShareOrder]:
    return [ShareOrder(device_id=name, compute_milli=compute_milli, memory_bytes=10) for name in devices]
