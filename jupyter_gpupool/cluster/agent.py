"""The agent of a node: the composition root of the process that attaches, watches and detaches holders.

Rules of this module: whatever ends the agent leaves holders attached and recorded, so that the next one
adopts them; nothing on the way from a ticket to its answer waits for a timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gpupool._version import version
from jupyter_gpupool.backends.base import Backend
from jupyter_gpupool.backends.host.limits import host_limits
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.cluster import lockfile
from jupyter_gpupool.cluster.attach import AttachSocket
from jupyter_gpupool.cluster.desk import HolderDesk
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.holders import HolderBook
from jupyter_gpupool.cluster.identity import node_id
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.cluster.launchers.choose import accounts_at_the_socket, make_launcher, socket_place
from jupyter_gpupool.cluster.launching import Launching
from jupyter_gpupool.cluster.limits import Limits
from jupyter_gpupool.cluster.link import AgentLink
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.cluster.sampler import Sampler
from jupyter_gpupool.cluster.tasks import Tasks
from jupyter_gpupool.cluster.tickets import TicketBook
from jupyter_gpupool.cluster.whereabouts import SameMachine, Whereabouts
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.launches import SignalOrder, StartOrder
from jupyter_gpupool.protocol.messages import (
    ApplyOrder,
    DetachOrder,
    HelloReport,
    HoldersReport,
    Order,
    PrepareOrder,
    QuiesceOrder,
    ReportOrder,
    StopOrder,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """What an agent is told when it starts.

    Attributes
    ----------
    runtime : Path
        Private runtime directory of the pool.
    emulate : str
        Emulated devices, as ``8xA100-80GB,2xH100-80GB``; empty for the real ones.
    emulate_beside : bool
        True to have the real ones too.
    watch_holders : bool
        False to watch no process (for tests of the other nets).
    use_peerpidfd : bool
        False to identify processes as kernels before 6.5 do.
    sample_seconds : float
        Pause between two looks at holders.
    alone_seconds : float
        After so long without holders and without a pool service it ends.
    rules : NodeRules
        What the administrator decided about the node's devices.
    pool : Whereabouts or None
        The pool of another machine that this node has joined; None for the one of the runtime directory.
    node_name : str
        What the node is called; empty for the name of the machine.
    host, port
        Where to listen for orders; port 0 for any.
    """

    runtime: Path
    emulate: str = ""
    emulate_beside: bool = False
    watch_holders: bool = True
    use_peerpidfd: bool = True
    sample_seconds: float = 1.0
    alone_seconds: float = 60.0
    rules: NodeRules = field(default_factory=NodeRules)
    pool: Whereabouts | None = None
    node_name: str = ""
    host: str = "127.0.0.1"
    port: int = 0


async def run_agent(settings: AgentSettings) -> int:
    """Run an agent until it is told to end, or has nothing to do and nobody to serve.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    AgentRuns
        If another agent runs in the same runtime directory.
    """
    from jupyter_gpupool.backends.registry import make_backends
    from jupyter_gpupool.backends.shed import shed_inherited_limits

    shed_inherited_limits()
    lock = await asyncio.to_thread(lockfile.hold, settings.runtime / names.AGENT_LOCK)
    try:
        backends = make_backends(
            settings.emulate, settings.emulate_beside, settings.rules, settings.runtime, settings.node_name
        )
        await _Agent(settings, backends).run()
    finally:
        os.close(lock)
    return 0


class _Agent:
    """One agent, put together."""

    def __init__(self, settings: AgentSettings, backends: Sequence[Backend]) -> None:
        self._settings = settings
        self._node_id = node_id(settings.node_name)
        self._public = Path(settings.rules.socket_directory or settings.runtime)
        self._socket_path = socket_place(settings.rules, settings.runtime)
        self._hands = Hands()
        self._inventory = Inventory(backends, DeviceLocks())
        self._book = HolderBook(settings.runtime / names.HOLDERS_DIR)
        self._link = AgentLink(
            pool=settings.pool or SameMachine(settings.runtime),
            node_id=self._node_id,
            hello=self._hello,
            on_orders=self._obey,
            host=settings.host,
            port=settings.port,
        )
        self._desk = HolderDesk(
            Limits(self._inventory, self._book, host_limits(backends, settings.rules)),
            self._hands,
            self._link.send,
            watch_holders=settings.watch_holders,
        )
        self._launching = self._make_launching()
        self._tasks = Tasks()
        self._tickets = TicketBook()
        self._socket = AttachSocket(
            self._socket_path,
            tickets=self._tickets,
            attach=self._desk.attach,
            use_peerpidfd=settings.use_peerpidfd,
            accounts=accounts_at_the_socket(settings.rules, node=settings.node_name or socket.gethostname()),
        )
        self._sampler = Sampler(
            self._desk, self._inventory, self._hands, self._link.send, seconds=settings.sample_seconds
        )
        self._stop = asyncio.Event()

    def _make_launching(self) -> Launching:
        """Make what starts processes: as the agent's own user."""
        settings, name = self._settings, self._settings.node_name or socket.gethostname()
        pool = settings.pool or SameMachine(settings.runtime)
        outputs = settings.runtime / names.OUTPUTS_DIR
        return Launching(
            make_launcher(settings.rules, outputs, node=name, joined=settings.pool is not None),
            settings.runtime / names.PROCESSES_DIR,
            report=self._link.send,
            node=name,
            address=settings.host,
            pool=pool.api,
            calm=self._desk.calm,
            require_encryption=settings.rules.require_encryption,
        )

    async def run(self) -> None:
        """Adopt, listen, serve, and let go."""
        await self._hands.do(self._inventory.refresh)
        await self._desk.adopt(self._book.load())
        await self._launching.adopt()
        await self._socket.start()
        try:
            with _signals(self._stop):
                await self._serve()
        finally:
            await self._socket.close()
            if self._socket_path.parent not in (self._settings.runtime, self._public):  # made for it only
                with contextlib.suppress(OSError):
                    self._socket_path.parent.rmdir()
            await self._tasks.close()
            await self._launching.close()
            await self._desk.close()
            await self._hands.do(self._inventory.close)
            self._hands.close()

    async def _serve(self) -> None:
        """Run everything until one thing fails or the agent is to end."""
        work = [
            asyncio.ensure_future(self._link.run()),
            asyncio.ensure_future(self._sampler.run()),
            asyncio.ensure_future(self._mind_being_alone()),
        ]
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            done, _ = await asyncio.wait({*work, stop}, return_when=asyncio.FIRST_COMPLETED)
            for future in done - {stop}:
                future.result()
        finally:
            for future in (*work, stop):
                future.cancel()
            await asyncio.gather(*work, stop, return_exceptions=True)

    async def _mind_being_alone(self) -> None:
        """Return when nobody has needed this agent for a while; a pool of another machine comes back."""
        if self._settings.pool is not None:
            await asyncio.Event().wait()
        limit = self._settings.alone_seconds
        while len(self._desk) or len(self._launching) or self._link.alone_seconds < limit:  # noqa: ASYNC110 - time is what it waits for
            await asyncio.sleep(limit / 10)
        logger.info("No holder, and no pool service for %s s: the agent ends", limit)

    def _hello(self) -> HelloReport:
        """Say who this is, which devices there are, and who holds something of them."""
        self._sampler.tell_all()
        # what was expected before may be over; the pool prepares anew what still waits
        self._tickets.forget_all()
        return HelloReport(
            format=names.FORMAT,
            version=version(),
            node_id=self._node_id,
            hostname=self._settings.node_name or socket.gethostname(),
            pid=os.getpid(),
            socket=os.fspath(self._socket_path),
            devices=list(self._inventory.devices),
            holders=self._desk.living(),
            processes=self._launching.reports(),
        )

    def _obey(self, orders: list[Order]) -> None:
        """Take orders, one after the other."""
        for order in orders:
            match order:
                case PrepareOrder():
                    self._tickets.expect(order)
                case ApplyOrder():
                    self._desk.apply(order)
                case DetachOrder():
                    self._tickets.revoke(order.lease_id, order.generation)
                    self._end(order)
                case StartOrder():
                    self._launching.start(order)
                case SignalOrder():
                    self._launching.signal(order)
                case QuiesceOrder():
                    self._desk.quiesce(order)
                case ReportOrder():
                    self._link.send(HoldersReport(token=order.token, holders=self._desk.living()))
                case StopOrder() if self._settings.pool is None:
                    self._stop.set()
                case StopOrder():
                    logger.info("The pool ends; this agent waits until it is back")

    def _end(self, order: DetachOrder) -> None:
        """End what a lease has here: the process that was started for it first, then its limits."""
        if self._launching.has(order.lease_id, order.generation):
            self._tasks.spawn(self._end_with_process(order))
        else:
            self._desk.detach(order)

    async def _end_with_process(self, order: DetachOrder) -> None:
        await self._launching.end_of(order.lease_id, order.generation)
        self._desk.detach(order)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the agent in good order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
