"""What comes in from the agents: to the book, and as events to the host.

Rule of this module: reports of one node are taken in their order; nothing here waits for the disk.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_gpupool.core.events import AgentLeft, DevicesReported, Event
from jupyter_gpupool.protocol.launches import ProcessReport
from jupyter_gpupool.protocol.messages import (
    DetachedReport,
    DevicesReport,
    ExitedReport,
    HelloReport,
    HoldersReport,
    QuiescedReport,
    Report,
    SampleReport,
)
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.idleness import Idleness
from jupyter_gpupool.service.nodes import Changes, NodeBook
from jupyter_gpupool.service.processes import Processes
from jupyter_gpupool.service.reports import holders_event, joined, lease_event
from jupyter_gpupool.service.usage_meter import UsageMeter
from jupyter_gpupool.service.watch import Watch

_log = logging.getLogger(__name__)


class Inbox:
    """Takes reports, and sees to it that agents are asked for their holders now and then.

    Parameters
    ----------
    host, book, dispatcher, watch, clock, idleness, meter, processes
        The parts of the service that reports concern.
    sweep_seconds : float
        Pause between two reconcile sweeps.
    """

    def __init__(
        self,
        *,
        host: PoolHost,
        book: NodeBook,
        dispatcher: Dispatcher,
        watch: Watch,
        clock: PoolClock,
        idleness: Idleness,
        meter: UsageMeter,
        processes: Processes,
        sweep_seconds: float,
    ) -> None:
        self._host = host
        self._book = book
        self._dispatcher = dispatcher
        self._watch = watch
        self._clock = clock
        self._idleness = idleness
        self._meter = meter
        self._processes = processes
        self._sweep_seconds = sweep_seconds

    async def take(self, node_id: str, reports: list[Report]) -> None:
        """Take what an agent reports."""
        for report in reports:
            match report:
                case HelloReport():
                    _log.info("The agent of %s (%s) has joined", report.hostname, node_id)
                    self._book.hello(report)
                    self._host.post(joined(report, self._clock.read()))
                    self._processes.joined(node_id, report.processes)
                case ProcessReport():
                    self._processes.note(node_id, report)
                case SampleReport() | DevicesReport():
                    self._noted(node_id, self._book.note(node_id, report))
                    if isinstance(report, SampleReport):
                        self._idleness.sampled(report, node_id)
                        self._meter.sampled(report, node_id)
                case QuiescedReport():
                    self._dispatcher.quiesced(report.lease_id, report.generation, report.pid)
                case _:
                    self._lease(node_id, report)

    def _noted(self, node_id: str, changes: Changes) -> None:
        """Tell the pool, and whoever waits, of what has changed."""
        if changes.pool:
            self._devices(node_id)
        on_them = (lease_id for it in changes.devices for lease_id in self._host.pool.leases_on(it))
        self._watch.leases_changed({*changes.leases, *on_them})
        self._watch.readings_changed()

    def _lease(self, node_id: str, report: Report) -> None:
        now = self._clock.read()
        self._book.note(node_id, report)
        if isinstance(report, ExitedReport | DetachedReport):  # nothing is left to be harmed by a signal
            self._dispatcher.quiesced(report.lease_id, report.generation)
        event: Event | None
        if isinstance(report, HoldersReport):
            event = holders_event(node_id, report, self._dispatcher.asked_ms(report.token), now)
        else:
            event = lease_event(node_id, report, now)
        if event is not None:
            self._host.post(event)

    def _devices(self, node_id: str) -> None:
        entry = self._book.nodes.get(node_id)
        if entry is not None:
            now = self._clock.read()
            devices = tuple(entry.devices.values())
            self._host.post(
                DevicesReported(now_ms=now.now_ms, wall_ms=now.wall_ms, node_id=node_id, devices=devices)
            )

    async def left(self, node_id: str) -> None:
        """Note that the connection to an agent is lost."""
        _log.warning("The agent of node %s is away", node_id)
        self._book.left(node_id)
        now = self._clock.read()
        self._host.post(AgentLeft(now_ms=now.now_ms, wall_ms=now.wall_ms, node_id=node_id))

    async def sweep(self) -> None:
        """Ask all agents for their holders, again and again; ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._sweep_seconds)
            for node_id in list(self._book.nodes):
                self._dispatcher.ask_holders(node_id)
