"""The pool service's end of the control plane: who is connected, orders out, reports in.

Rules of this module: an agent counts as connected from its hello on; its reports are handed on one call at a
time and in order; an order was taken when `ControlPlane.send` returns, or the agent is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster.dask_config import control_config
from jupyter_gpupool.cluster.errors import AgentAway, ControlPlaneDown
from jupyter_gpupool.cluster.nodes import ControlScheduler, Guard
from jupyter_gpupool.cluster.tls import ControlTLS, Peer
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.join import mismatch
from jupyter_gpupool.protocol.messages import HelloReport, Order, Report

__all__ = ["AgentAway", "ControlPlane"]

logger = logging.getLogger(__name__)

#: How long an agent may take to accept orders, seconds.
SEND_SECONDS = 5.0
#: What both sides answer when they took a message. Dask answers None for handlers that do not exist.
TAKEN = "taken"
#: The answer to reports of an agent that is not (or no longer) a member: it joins again.
UNKNOWN = "unknown"
#: Begins the answer to an agent that this pool will not have; the reason follows, as a sentence.
REFUSED = "refused: "

OnReports = Callable[[str, list[Report]], Awaitable[None]]
OnLeft = Callable[[str], Awaitable[None]]


class _Membership(SchedulerPlugin):  # type: ignore[misc]
    """Tells the control plane which workers the scheduler lost."""

    name = "gpupool-membership"

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Pass on that a worker is gone, whatever the cause."""
        self._lost(worker)


class ControlPlane:
    """The agents of a pool, as the service reaches them.

    Parameters
    ----------
    tls : ControlTLS
        Certificates; agents need one of the same authority.
    on_reports : callable
        Awaited with node id and reports: a `HelloReport` first for each connection.
    on_left : callable
        Awaited with the node id when its connection is lost.
    host : str
        Where to listen; loopback unless nodes are elsewhere.
    worker_ttl_seconds : float
        How long an agent may be silent on an open connection before it counts as lost.
    passes : callable
        Tells whether the certificate of an agent counts still; by default all of the authority's do.
    desk : mapping
        Further handlers that agents may call, by name; they are told who calls as ``peer``.
    """

    def __init__(
        self,
        *,
        tls: ControlTLS,
        on_reports: OnReports,
        on_left: OnLeft,
        host: str = "127.0.0.1",
        worker_ttl_seconds: float = 8.0,
        passes: Callable[[Peer], bool] = lambda _: True,
        desk: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._tls = tls
        self._guard = Guard(passes, self._denied)
        self._desk = dict(desk or {})
        self._on_reports = on_reports
        self._on_left = on_left
        self._host = host
        self._worker_ttl_seconds = worker_ttl_seconds
        self._stack = contextlib.ExitStack()
        self._scheduler: ControlScheduler | None = None
        self._closing = False
        #: node id -> worker address, and back.
        self._addresses: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        #: worker address -> number of the certificate that it came with.
        self._serials: dict[str, int] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        #: Nodes whose connection was lost, and the pool does not know yet.
        self._leaving: set[str] = set()
        self._tasks: set[asyncio.Future[Any]] = set()

    @property
    def connected(self) -> frozenset[str]:
        """Ids of the nodes whose agents are connected."""
        return frozenset(self._addresses)

    async def start(self, port: int = 0) -> str:
        """Listen, and return the address for agents (``tls://HOST:PORT``).

        Raises
        ------
        ControlPlaneDown
            If the port is taken, or the certificates cannot be read.
        """
        self._stack.enter_context(control_config())
        try:
            scheduler = ControlScheduler(
                security=self._tls.security("scheduler"),
                host=self._host,
                port=port,
                worker_ttl_seconds=self._worker_ttl_seconds,
                scratch=self._tls.directory.parent / "dask",
                guard=self._guard,
            )
            for name, handler in {"gpupool_report": self._take, **self._desk}.items():
                scheduler.serve(name, handler)
            scheduler.add_plugin(_Membership(self._lost))
            await scheduler
        except (OSError, RuntimeError) as error:
            self._stack.close()
            raise ControlPlaneDown(
                f"The control plane cannot listen on {self._host}:{port}: {error.__cause__ or error}.",
                hint="Free the port, or let the pool choose one.",
            ) from error
        self._scheduler = scheduler
        return str(scheduler.address)

    async def close(self) -> None:
        """Hang up on all agents; their holders stay attached."""
        self._closing = True
        if self._scheduler is not None:
            await self._scheduler.close(reason="the pool service ends")
            self._scheduler = None
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._addresses.clear()
        self._nodes.clear()
        self._serials.clear()
        self._stack.close()

    async def send(self, node_id: str, orders: Sequence[Order]) -> None:
        """Give orders to an agent; returns when it took them.

        Raises
        ------
        AgentAway
            If it is not connected, or did not answer in time.
        """
        address = self._addresses.get(node_id)
        if address is None or self._scheduler is None:
            raise AgentAway(f"The agent of node {node_id} is not connected.", hint="It connects by itself.")
        try:
            async with asyncio.timeout(SEND_SECONDS):
                answer = await self._scheduler.rpc(address).gpupool_orders(data=codec.encode(list(orders)))
        except (OSError, TimeoutError) as error:
            raise AgentAway(f"The agent of node {node_id} does not answer.") from error
        if isinstance(answer, bytes):
            await self._take_answer(node_id, address, answer)
        elif answer != TAKEN:
            raise AgentAway(f"The agent of node {node_id} does not take orders ({answer}).")

    async def _take_answer(self, node_id: str, worker: str, data: bytes) -> None:
        """Take reports that came with the answer to orders; of a connection that is over they are dropped."""
        try:
            reports = codec.decode_reports(data)
        except codec.BadMessage as error:
            logger.warning("The agent of node %s answered what cannot be read: %s", node_id, error)
            return
        async with self._turn(node_id):
            if self._nodes.get(worker) == node_id:
                await self._hand_on(node_id, reports)

    async def _take(self, *, worker: str, data: bytes, peer: Peer) -> str:
        """Take reports from the agent behind ``worker``; never raises, since Dask would send a pickle."""
        try:
            reports = codec.decode_reports(data)
        except codec.BadMessage as error:
            logger.warning("An agent at %s sent reports that cannot be read: %s", worker, error)
            return "unreadable"
        if self._scheduler is None or worker not in self._scheduler.workers:
            return UNKNOWN
        if reports and isinstance(reports[0], HelloReport):
            if refusal := _refusal(reports[0], peer):
                logger.warning("%s", refusal)
                return REFUSED + refusal
            self._welcome(worker, reports[0].node_id, peer)
        node_id = self._nodes.get(worker)
        if node_id is None or peer.node_id not in ("", node_id):
            return UNKNOWN
        async with self._turn(node_id):
            if self._nodes.get(worker) != node_id:
                return UNKNOWN
            return await self._hand_on(node_id, reports)

    async def _hand_on(self, node_id: str, reports: list[Report]) -> str:
        """Give reports to the pool; a fault there is logged, and the agent joins again."""
        try:
            await self._say_left(node_id)
            await self._on_reports(node_id, reports)
        except Exception:
            logger.exception("Reports of node %s could not be handled", node_id)
            return UNKNOWN
        return TAKEN

    def _welcome(self, worker: str, node_id: str, peer: Peer) -> None:
        """Make ``worker`` the connection of its node, in place of an older one."""
        older = self._addresses.get(node_id)
        if older is not None and older != worker:
            self._lost(older)
        self._addresses[node_id] = worker
        self._nodes[worker] = node_id
        self._serials[worker] = peer.serial

    def _denied(self, peer: Peer) -> None:
        """Hang up on a node whose certificate counts no more."""
        logger.warning("A peer with certificate %x (node %s) was refused", peer.serial, peer.node_id or "?")
        worker = self._addresses.get(peer.node_id)
        if worker is not None and self._serials.get(worker) == peer.serial and self._scheduler is not None:
            self._lost(worker)
            gone = self._scheduler.remove_worker(worker, stimulus_id="gpupool-denied")
            self._keep(asyncio.ensure_future(gone))

    def _lost(self, worker: str) -> None:
        """Forget a connection at once, and tell the pool when its turn comes."""
        node_id = self._nodes.pop(worker, None)
        self._serials.pop(worker, None)
        if node_id is None:
            return
        del self._addresses[node_id]
        if not self._closing:
            self._leaving.add(node_id)
            self._keep(asyncio.ensure_future(self._tell_left(node_id)))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        """Remember what runs by itself until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_left(self, node_id: str) -> None:
        async with self._turn(node_id):
            try:
                await self._say_left(node_id)
            except Exception:
                logger.exception("The loss of node %s could not be handled", node_id)

    async def _say_left(self, node_id: str) -> None:
        """Tell the pool of a loss before anything newer of that node; the caller has its turn."""
        if node_id in self._leaving:
            self._leaving.discard(node_id)
            await self._on_left(node_id)

    def _turn(self, node_id: str) -> asyncio.Lock:
        """Return the lock that keeps the calls for one node in order."""
        return self._turns.setdefault(node_id, asyncio.Lock())


def _refusal(hello: HelloReport, peer: Peer) -> str:
    """Say why an agent cannot be had; empty when it can."""
    if hello.format != names.FORMAT:
        return mismatch(f"The agent of {hello.hostname}", hello.version, hello.format, version())
    if peer.node_id not in ("", hello.node_id):
        return (
            f"The agent of {hello.hostname} says that it is {hello.node_id}, but its certificate is for"
            f" {peer.node_id}: start it with the --node that it joined with."
        )
    return ""
