"""The inside of a pool service without its processes: a real Pool and journal, and agents that are functions.

Rule of this module: everything of ours is real; only the far end of the control plane is played.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from jupyter_gpupool.cluster.errors import AgentAway
from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.events import LeaseRequested, ReleaseRequested
from jupyter_gpupool.core.leases import Holder, Lease, LeaseState, Want
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyOrder,
    AttachedReport,
    DetachedReport,
    DetachOrder,
    DeviceReport,
    HelloReport,
    HolderReport,
    HoldersReport,
    Order,
    PrepareOrder,
    QuiescedReport,
    QuiesceOrder,
    Report,
    ReportOrder,
)
from jupyter_gpupool.service.audit import AuditLog
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.desk import Desk
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.idempotency import KEYS, KeyBook
from jupyter_gpupool.service.idleness import Idleness
from jupyter_gpupool.service.inbox import Inbox
from jupyter_gpupool.service.journaling import JournalThread
from jupyter_gpupool.service.lease_views import LeaseViews
from jupyter_gpupool.service.metrics import Metrics
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.processes import Processes
from jupyter_gpupool.service.tickets import TicketBook
from jupyter_gpupool.service.usage_meter import UsageMeter
from jupyter_gpupool.service.views import Views
from jupyter_gpupool.service.watch import Watch
from tests.support.waiting import until

GIB = 2**30


class HandClock:
    """Both clocks of a `PoolClock`, turned by hand; seconds."""

    def __init__(self) -> None:
        self.monotonic_seconds = 1000.0
        self.wall_seconds = 1_700_000_000.0

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic_seconds += seconds
        self.wall_seconds += seconds

    def clock(self, start_ms: int = 0) -> PoolClock:
        """Return the clock of a pool."""
        return PoolClock(start_ms, monotonic=lambda: self.monotonic_seconds, wall=lambda: self.wall_seconds)


class PlayedAgent:
    """Takes orders as an agent does, and reports to an inbox."""

    def __init__(self, node_id: str = "node-1", devices: int = 1) -> None:
        self.node_id = node_id
        self.devices = devices
        self.inbox: Inbox | None = None
        self.away = False
        self.obeys_detach = True
        self.applies = True
        self.quiesces = True
        self.quiesced: list[str] = []
        self.sends: list[list[Order]] = []
        self.prepared: dict[str, PrepareOrder] = {}
        self.holders: dict[str, HolderReport] = {}
        #: Sends wait for this when it is set.
        self.gate: asyncio.Event | None = None

    @property
    def connected(self) -> set[str]:
        """Be a control plane that knows of this agent."""
        return set() if self.away else {self.node_id}

    async def send(self, node_id: str, orders: Sequence[Order]) -> None:
        """Be the control plane."""
        if self.gate is not None:
            await self.gate.wait()
        if self.away or node_id != self.node_id:
            raise AgentAway(f"The agent of node {node_id} is not connected.")
        self.sends.append(list(orders))
        for order in orders:
            await self._obey(order)

    async def _obey(self, order: Order) -> None:
        match order:
            case PrepareOrder():
                self.prepared[order.lease_id] = order
            case DetachOrder():
                self.holders.pop(order.lease_id, None)
                if self.obeys_detach:
                    await self.report(DetachedReport(lease_id=order.lease_id, generation=order.generation))
            case ApplyOrder() if self.applies:
                await self.report(
                    AppliedReport(lease_id=order.lease_id, generation=order.generation, isolation=[])
                )
            case QuiesceOrder():
                self.quiesced.append(order.lease_id)
                if self.quiesces:
                    done = QuiescedReport(lease_id=order.lease_id, generation=order.generation, pid=order.pid)
                    await self.report(done)
            case ReportOrder():
                holders = list(self.holders.values())
                await self.report(HoldersReport(token=order.token, holders=holders))
            case _:
                pass

    async def report(self, report: Report) -> None:
        """Report to the service."""
        assert self.inbox is not None
        await self.inbox.take(self.node_id, [report])

    def reports(self) -> list[DeviceReport]:
        """Return what it says of its devices."""
        return [
            DeviceReport(
                id=f"GPU-{self.node_id}-{number}",
                name=f"cuda{number}",
                kind=DeviceKind.CUDA,
                model="Test",
                memory_bytes=16 * GIB,
                compute_units=8,
            )
            for number in range(self.devices)
        ]

    async def join(self) -> None:
        """Connect."""
        self.away = False
        await self.report(
            HelloReport(
                format=names.FORMAT,
                version="0",
                node_id=self.node_id,
                hostname=f"host-{self.node_id}",
                pid=1,
                socket="/run/x.sock",
                devices=self.reports(),
                holders=list(self.holders.values()),
            )
        )

    async def attach(self, lease: Lease, pid: int = 4711) -> None:
        """Attach a lease's holder."""
        self.holders[lease.id] = HolderReport(lease_id=lease.id, generation=lease.generation, pid=pid)
        await self.report(
            AttachedReport(lease_id=lease.id, generation=lease.generation, pid=pid, isolation=[])
        )


class ServiceBench:
    """A service's inside on a journal; make it inside a running loop, and `close` it."""

    def __init__(
        self, path: Path, *, agent: PlayedAgent | None = None, config: PoolConfig | None = None
    ) -> None:
        self.path = path
        self.hands = HandClock()
        journal = Journal.open(path)
        self.clock = self.hands.clock(journal.pool_time(int(self.hands.wall_seconds * 1000)))
        live, rows = journal.live_leases(), journal.recent_keys(self.clock.now_ms(), KEYS)
        self.agent = agent or PlayedAgent()
        self.watch, self.book, self.metrics = Watch(), NodeBook(), Metrics()
        self.tickets = TicketBook(self.clock.now_ms)
        self.journal = JournalThread(journal, self.clock, self.metrics)
        self.dispatcher = Dispatcher(self.agent, self.tickets, self.watch, self.clock.now_ms)
        self.host = PoolHost(
            config=config or PoolConfig(),
            live=live,
            usage=journal.standings(),
            holds=journal.recent_holds(),
            demand=journal.demand(),
            journal=self.journal,
            clock=self.clock,
            book=self.book,
            dispatcher=self.dispatcher,
            watch=self.watch,
        )
        self.idleness = Idleness(self.host, self.clock)
        self.meter = UsageMeter(self.host, self.clock)
        self.processes = Processes(self.host, self.dispatcher, self.book, self.watch)
        self.agent.inbox = self.inbox = Inbox(
            idleness=self.idleness,
            meter=self.meter,
            processes=self.processes,
            host=self.host,
            book=self.book,
            dispatcher=self.dispatcher,
            watch=self.watch,
            clock=self.clock,
            sweep_seconds=3600.0,
        )
        self._face_clients(path, KeyBook(rows, self.journal, self.clock.now_ms))
        self.numbers = iter(range(1, 1_000_000))

    def _face_clients(self, path: Path, keys: KeyBook) -> None:
        """Make what clients see and use."""
        self.keys = keys
        self.lease_views = LeaseViews(
            host=self.host,
            book=self.book,
            tickets=self.tickets,
            clock=self.clock,
            idleness=self.idleness,
        )
        self.views = Views(
            host=self.host,
            leases=self.lease_views,
            book=self.book,
            clock=self.clock,
            embedded=True,
            agent_log=path,
        )
        self.desk = Desk(
            idleness=self.idleness,
            host=self.host,
            views=self.lease_views,
            keys=self.keys,
            dispatcher=self.dispatcher,
            book=self.book,
            watch=self.watch,
            clock=self.clock,
            audit=AuditLog(path.with_name("audit.jsonl"), lambda: self.clock.read().wall_ms),
            waiter_grace_seconds=0.2,
        )

    async def open(self, *, join: bool = True) -> ServiceBench:
        """Start, and let the agent join."""
        self.host.start()
        self.desk.open()
        if join:
            await self.agent.join()
            await self.until(lambda: bool(self.host.pool.devices))
        return self

    async def close(self) -> None:
        """Stop, and see that the pool's ledger is sound."""
        self.host.pool.check_invariants()
        self.desk.close()
        self.watch.close()
        await self.host.close()
        await self.dispatcher.close()
        self.journal.close()

    async def until(self, look: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until ``look()`` is true."""
        await until(look, what="it", seconds=seconds)

    def requested(self, compute_milli: int = 250, *, owner: str = "ann", key: str = "") -> LeaseRequested:
        """Make the event of a new request."""
        now = self.clock.read()
        number = next(self.numbers)
        return LeaseRequested(
            now_ms=now.now_ms,
            wall_ms=now.wall_ms,
            lease_id=f"lease_{number:06d}",
            owner=owner,
            holder=Holder(key=key or f"holder-{number}"),
            want=Want(compute_milli=compute_milli),
        )

    def released(self, lease_id: str) -> ReleaseRequested:
        """Make the event of a release."""
        now = self.clock.read()
        return ReleaseRequested(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease_id)

    async def granted(self, compute_milli: int = 250, *, owner: str = "ann") -> Lease:
        """Ask for a lease, and return it as it was written down."""
        event = self.requested(compute_milli, owner=owner)
        await self.host.submit(event)
        return self.host.leases[event.lease_id]

    async def active(self, compute_milli: int = 250) -> Lease:
        """Return a lease whose holder is attached."""
        lease = await self.granted(compute_milli)
        await self.until(lambda: lease.id in self.agent.prepared)
        await self.agent.attach(lease)
        await self.until(lambda: self.host.leases[lease.id].state is LeaseState.ACTIVE)
        return self.host.leases[lease.id]

    def on_disk(self) -> dict[str, str]:
        """Return the state of every lease as the file has it now."""
        database = sqlite3.connect(self.path)
        try:
            return dict(database.execute("SELECT id, state FROM leases"))
        finally:
            database.close()

    def block_writes(self) -> None:
        """Make every commit fail, as on a disk that is full or read-only."""
        self._pragma("query_only = 1")

    def allow_writes(self) -> None:
        """Undo that."""
        self._pragma("query_only = 0")

    def _pragma(self, text: str) -> None:
        journal = self.journal._journal
        self.journal._thread.submit(journal._database.execute, f"PRAGMA {text}").result(10)
