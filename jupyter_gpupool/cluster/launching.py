"""The processes that an agent starts for the owners of leases: kernels, and workers of session clusters.

Rules of this module: a process is started once, whatever is asked again; it outlives the agent, and the next
one takes it over; it never outlives its lease; every state is told as soon as it is one. Limits are none of
its business: a process shows its lease's ticket to the agent's socket, as every holder does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jupyter_gpupool.cluster.errors import KernelNotEncrypted
from jupyter_gpupool.cluster.launched import (
    LaunchedBook,
    LaunchedRecord,
    read_ports,
    remove_directory,
)
from jupyter_gpupool.cluster.launchers.base import Launched, Launcher, LaunchRecord
from jupyter_gpupool.cluster.launching_plan import can_be_overheard, planned
from jupyter_gpupool.cluster.whereabouts import PoolAPI
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.launches import OVER, ProcessReport, ProcessState, SignalOrder, StartOrder

logger = logging.getLogger(__name__)

#: How long a kernel may take to say where it listens: imports from a cold disk take long, seconds.
LISTEN_SECONDS = 90.0
#: How often its connection file is looked at meanwhile, seconds.
LOOK_SECONDS = 0.05
#: How many processes that are over are remembered.
MOST_OVER = 200


@dataclass(slots=True)
class _Entry:
    """One process, as far as it has come."""

    report: ProcessReport
    #: Its start, while that is under way.
    beginning: asyncio.Future[None] | None = None
    record: LaunchedRecord | None = None
    launched: Launched | None = None
    #: Waits for its end.
    ending: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.report.state in OVER


class Launching:
    """Starts processes, watches them, and ends them with their leases.

    Parameters
    ----------
    launcher : Launcher
        Starts them as the right account.
    directory : Path
        Private directory for records.
    report : callable
        Tells the pool what has changed.
    node : str
        Name of this node, for people.
    address : str
        Where kernels listen.
    pool : callable
        Says how processes reach the pool.
    calm : callable
        Makes it safe to signal the holder of a lease.
    require_encryption : bool
        Whether kernels are refused whose connection the network could read.
    """

    def __init__(
        self,
        launcher: Launcher,
        directory: Path,
        *,
        report: Callable[[ProcessReport], None],
        node: str,
        address: str,
        pool: Callable[[], PoolAPI],
        calm: Callable[[str], Awaitable[None]],
        require_encryption: bool = False,
    ) -> None:
        self._launcher = launcher
        self._book = LaunchedBook(directory)
        self._report = report
        self._node = node
        self._address = address
        self._pool = pool
        self._calm = calm
        self._require_encryption = require_encryption
        self._entries: dict[str, _Entry] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Count those that are not over."""
        return sum(not entry.is_over for entry in self._entries.values())

    def reports(self) -> list[ProcessReport]:
        """Say how all are, also those that ended of late."""
        return [entry.report for entry in self._entries.values()]

    def has(self, lease_id: str, generation: int) -> bool:
        """Tell whether a process of this lease, up to a generation, is not over."""
        return any(True for _ in self._of(lease_id, generation))

    def _of(self, lease_id: str, generation: int) -> list[_Entry]:
        return [
            entry
            for entry in self._entries.values()
            if entry.report.lease_id == lease_id
            and entry.report.generation <= generation
            and not entry.is_over
        ]

    # --- orders ---------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Start a process; one that was started already is only told about again."""
        if known := self._entries.get(order.process_id):
            self._report(known.report)
            return
        self._forget_old()
        entry = _Entry(
            ProcessReport(
                lease_id=order.lease_id,
                generation=order.generation,
                process_id=order.process_id,
                state=ProcessState.STARTING,
                ip=self._address if order.connection else "",
            )
        )
        self._entries[order.process_id] = entry
        self._report(entry.report)
        entry.beginning = self._spawn(self._begin(entry, order))

    def signal(self, order: SignalOrder) -> None:
        """Send a signal to a process, or end it; nothing when it is over."""
        entry = self._entries.get(order.process_id)
        if entry is not None and not entry.is_over:
            self._spawn(self._send(entry, order.number))

    async def end_of(self, lease_id: str, generation: int) -> None:
        """End what was started for a lease that is over; returns when it has ended."""
        await asyncio.gather(*(self._end(entry) for entry in self._of(lease_id, generation)))

    # --- its life -------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """Take over what earlier agents have started."""
        for record in self._book.load():
            launched = await self._launcher.adopt(record.launch)
            waits = bool(record.connection_file) and record.ports is None
            report = ProcessReport(
                lease_id=record.lease_id,
                generation=record.generation,
                process_id=record.process_id,
                state=ProcessState.STARTING if waits else ProcessState.RUNNING,
                pid=record.launch.process.pid,
                ip=self._address if record.connection_file else "",
                ports=record.ports,
            )
            entry = self._entries[record.process_id] = _Entry(report, record=record, launched=launched)
            if launched is None:
                self._over(entry, "It ended while no agent ran on its node.")
            else:
                logger.info("Took over process %s of lease %s", launched.pid, record.lease_id)
                self._follow(entry)

    async def close(self) -> None:
        """Let go of all processes: they go on, and the next agent takes them over."""
        beginning = [it.beginning for it in self._entries.values() if it.beginning is not None]
        await asyncio.gather(*beginning, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for entry in self._entries.values():
            if entry.launched is not None and not entry.is_over:
                entry.launched.release()

    async def _begin(self, entry: _Entry, order: StartOrder) -> None:
        plan = planned(order, pool=self._pool(), address=self._address, node=self._node)

        def keep(launch: LaunchRecord) -> None:
            entry.record = LaunchedRecord(
                lease_id=order.lease_id,
                generation=order.generation,
                process_id=order.process_id,
                directory=plan.directory,
                connection_file=plan.connection_file,
                launch=launch,
            )
            self._book.save(entry.record)

        try:
            self._check_connection(order)
            launched = await self._launcher.launch(plan.spec, keep)
        except (GPUPoolError, OSError) as error:
            logger.warning("No process was started for lease %s: %s", order.lease_id, error)
            self._over(entry, str(error), state=ProcessState.FAILED)
            return
        entry.launched = launched
        logger.info("Process %s was started for lease %s: %s", launched.pid, order.lease_id, order.argv[0])
        listens = plan.connection_file
        self._change(
            entry, state=ProcessState.STARTING if listens else ProcessState.RUNNING, pid=launched.pid
        )
        self._follow(entry)

    def _check_connection(self, order: StartOrder) -> None:
        """Refuse a kernel that could be overheard, or say that it can be."""
        if not can_be_overheard(order.connection, self._address):
            return
        if self._require_encryption:
            raise KernelNotEncrypted(
                f"Node {self._node} starts no kernels that the network can listen to.",
                hint='A kernelspec with "supported_encryption": ["curve"] has its kernels encrypted, where'
                " kernel and Jupyter server can; an administrator can allow others by"
                " PoolAgent.require_encryption.",
            )
        logger.warning("The kernel of lease %s is not encrypted: the network can read it", order.lease_id)

    def _follow(self, entry: _Entry) -> None:
        """Watch a process that runs."""
        entry.ending = self._spawn(self._await_end(entry))
        if entry.report.state is ProcessState.STARTING:
            self._spawn(self._await_ports(entry))

    async def _await_end(self, entry: _Entry) -> None:
        launched = entry.launched
        if launched is None:
            return
        end = await launched.wait()
        if entry.report.state is ProcessState.STARTING:
            self._over(entry, str(end), state=ProcessState.FAILED, status=end.status, signal=end.signal)
        else:
            self._over(entry, end.last_words, status=end.status, signal=end.signal)
        launched.close()

    async def _await_ports(self, entry: _Entry) -> None:
        """Wait until a kernel has said where it listens; end one that does not."""
        record, until = entry.record, asyncio.get_running_loop().time() + LISTEN_SECONDS
        while record is not None and not entry.is_over:
            if (ports := read_ports(f"{record.directory}/{record.connection_file}")) is not None:
                record.ports = ports
                self._book.save(record)
                self._change(entry, state=ProcessState.RUNNING, ports=ports)
                return
            if asyncio.get_running_loop().time() > until:
                logger.warning("Process %s did not listen within %g s", entry.report.pid, LISTEN_SECONDS)
                await self._end(entry)
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _send(self, entry: _Entry, number: int) -> None:
        if entry.beginning is not None:
            await asyncio.wait([entry.beginning])
        if not number:
            await self._end(entry)
        elif entry.launched is not None and not entry.is_over:
            await entry.launched.signal(number)

    async def _end(self, entry: _Entry) -> None:
        """End a process, once that is safe for others on its device; return when its end was told."""
        if entry.beginning is not None:
            await asyncio.wait([entry.beginning])
        if entry.launched is None or entry.is_over:
            return
        await self._calm(entry.report.lease_id)
        await entry.launched.end()
        if entry.ending is not None:
            await asyncio.wait([entry.ending])

    # --- what is told ---------------------------------------------------------------------------

    def _over(
        self, entry: _Entry, words: str, *, state: ProcessState = ProcessState.ENDED, **how: Any
    ) -> None:
        """Note that a process has ended; nothing of it is left here."""
        self._book.remove(entry.report.process_id)
        if entry.record is not None:
            remove_directory(entry.record.directory)
        self._change(entry, state=state, words=words, **how)

    def _change(self, entry: _Entry, **fields: Any) -> None:
        entry.report = msgspec.structs.replace(entry.report, **fields)
        self._report(entry.report)

    def _forget_old(self) -> None:
        over = [key for key, entry in self._entries.items() if entry.is_over]
        for key in over[: max(0, len(over) - MOST_OVER)]:
            del self._entries[key]

    def _spawn(self, work: Any) -> asyncio.Future[None]:
        task: asyncio.Future[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._spent)
        return task

    def _spent(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            logger.error("Work on a process failed", exc_info=fault)
