"""Carrying effects out: orders on their way to the agents.

Rule of this module: the orders of one node arrive in the order in which they were decided, and one send is
on its way to a node at a time; what gathers meanwhile goes with the next.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from jupyter_gpupool.cluster.errors import AgentAway
from jupyter_gpupool.core.effects import ApplyLimits, Detach, Effect, PrepareAttach, WriteDown
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import Lease, LeaseState, Share
from jupyter_gpupool.protocol.messages import (
    ApplyOrder,
    DetachOrder,
    Order,
    PrepareOrder,
    QuiesceOrder,
    ReportOrder,
    ShareOrder,
    StopOrder,
)
from jupyter_gpupool.service.tickets import Ticket, TicketBook
from jupyter_gpupool.service.watch import Watch

_log = logging.getLogger(__name__)


class OrderSender(Protocol):
    """What sends orders to agents (the control plane)."""

    @property
    def connected(self) -> Collection[str]:
        """Ids of the nodes whose agents are connected."""

    async def send(self, node_id: str, orders: Sequence[Order]) -> None:
        """Send orders, and return when the agent has taken them."""


class Outbox:
    """Orders that wait for, or are on, their way."""

    def __init__(self, sender: OrderSender) -> None:
        self._sender = sender
        self._waiting: dict[str, list[tuple[Order, asyncio.Future[bool]]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def put(self, node_id: str, order: Order) -> asyncio.Future[bool]:
        """Send an order soon; the future tells whether the agent took it."""
        loop = asyncio.get_running_loop()
        taken: asyncio.Future[bool] = loop.create_future()
        self._waiting.setdefault(node_id, []).append((order, taken))
        if node_id not in self._tasks:
            self._tasks[node_id] = loop.create_task(self._drain(node_id))
        return taken

    async def _drain(self, node_id: str) -> None:
        try:
            while waiting := self._waiting.pop(node_id, None):
                took = await self._send(node_id, [order for order, _ in waiting])
                for _, taken in waiting:
                    if not taken.done():
                        taken.set_result(took)
        finally:
            del self._tasks[node_id]

    async def _send(self, node_id: str, orders: list[Order]) -> bool:
        try:
            await self._sender.send(node_id, orders)
        except GPUPoolError as error:
            # nothing is lost: when the agent comes back, its holders are compared with the leases
            _log.info("%d orders did not reach node %s: %s", len(orders), node_id, error)
            return False
        return True

    async def close(self) -> None:
        """Stop sending."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _shares(shares: Iterable[Share]) -> list[ShareOrder]:
    return [
        ShareOrder(
            device_id=share.device_id, compute_milli=share.compute_milli, memory_bytes=share.memory_bytes
        )
        for share in shares
    ]


class Dispatcher:
    """Turns effects into orders, with the tickets that go with them.

    Parameters
    ----------
    sender : OrderSender
        The control plane.
    tickets : TicketBook
        The tickets that are good now.
    watch : Watch
        Woken when a ticket has become usable.
    now_ms : callable
        Pool time.
    """

    def __init__(
        self, sender: OrderSender, tickets: TicketBook, watch: Watch, now_ms: Callable[[], int]
    ) -> None:
        self._sender = sender
        self._outbox = Outbox(sender)
        self._tickets = tickets
        self._watch = watch
        self._now_ms = now_ms
        self._quiescing: dict[tuple[str, int, int], set[asyncio.Future[None]]] = {}
        self._asked: dict[int, int] = {}
        self._tokens = itertools.count(1)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Send what the effects order; of a `WriteDown` only the end of a ticket's use is looked at."""
        for effect in effects:
            match effect:
                case WriteDown():
                    if effect.lease.state is not LeaseState.ATTACHING:
                        self._tickets.forget(effect.lease.id)
                case PrepareAttach():
                    self.prepare(effect.node_id, effect.lease)
                case ApplyLimits():
                    order = ApplyOrder(
                        lease_id=effect.lease_id, generation=effect.generation, shares=_shares(effect.shares)
                    )
                    self._outbox.put(effect.node_id, order)
                case Detach():
                    gone = DetachOrder(lease_id=effect.lease_id, generation=effect.generation)
                    self._outbox.put(effect.node_id, gone)
                case _:
                    pass

    def prepare(self, node_id: str, lease: Lease) -> None:
        """Tell the agent to expect the lease's holder, with a good ticket.

        The ticket can be used at once: an agent waits a moment for the order that a ticket belongs to, so the
        holder's way to it and the order's may be gone side by side.
        """
        ticket = self._tickets.for_order(lease)
        taken = self._outbox.put(node_id, self._order(lease, ticket))
        self._note(ticket, announced=node_id in self._sender.connected)
        taken.add_done_callback(lambda it: self._note(ticket, announced=not it.cancelled() and it.result()))

    async def prepare_part(self, node_id: str, lease: Lease, timeout_seconds: float) -> Ticket:
        """Tell the agent of another node of a lease to expect a process that joins it there.

        Parameters
        ----------
        node_id : str
            The node.
        lease : Lease
            The lease with its shares on that node alone.
        timeout_seconds : float
            How long the agent may take to hear of it.

        Returns
        -------
        Ticket
            What the process shows.

        Raises
        ------
        AgentAway
            If the agent did not take the order in time.
        """
        ticket = self._tickets.for_part(lease)
        taken = self._outbox.put(node_id, self._order(lease, ticket))
        await asyncio.wait((taken,), timeout=timeout_seconds)
        if not taken.done() or taken.cancelled() or not taken.result():
            raise AgentAway(
                f"The agent of node {node_id} does not answer, so nothing can join the lease there now.",
                hint="Try again in a moment; `jupyter gpupool status` shows when the node is back.",
            )
        return ticket

    def _order(self, lease: Lease, ticket: Ticket) -> PrepareOrder:
        return PrepareOrder(
            lease_id=lease.id,
            generation=lease.generation,
            owner=lease.owner,
            ticket_sha256=ticket.sha256,
            expires_seconds=self._tickets.left_seconds(ticket),
            shares=_shares(lease.shares),
            host_cpu_milli=sum(it.cpu_milli for it in lease.beside),
            host_memory_bytes=sum(it.memory_bytes for it in lease.beside),
        )

    def left_seconds(self, ticket: Ticket) -> float:
        """Return for how long a ticket is good, seconds."""
        return self._tickets.left_seconds(ticket)

    def _note(self, ticket: Ticket, *, announced: bool) -> None:
        """Note whether a ticket can be used, and wake who waits for that."""
        if self._tickets.note(ticket, announced=announced):
            self._watch.leases_changed((ticket.lease_id,))

    def renew(self, lease: Lease) -> None:
        """Give an ATTACHING lease another ticket, if the one that it has is no good any more."""
        if self._tickets.good(lease) is None:
            self.prepare(lease.node_id, lease)

    async def quiesce(self, lease: Lease, timeout_seconds: float, pid: int = 0) -> bool:
        """Have an agent make it safe to signal a lease's processes; whether it said so in time.

        Whoever asks for the same meanwhile waits for the same answer.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = (lease.id, lease.generation, pid)
        waiting = self._quiescing.setdefault(key, set())
        waiting.add(answer)
        if len(waiting) == 1:
            order = QuiesceOrder(lease_id=lease.id, generation=lease.generation, pid=pid)
            taken = self._outbox.put(lease.node_id, order)
            taken.add_done_callback(lambda future: self._ordered(key, future))
        try:
            await asyncio.wait((answer,), timeout=timeout_seconds)
            return answer.done() and not answer.cancelled()
        finally:
            waiting.discard(answer)
            if not waiting and self._quiescing.get(key) is waiting:
                del self._quiescing[key]

    def _ordered(self, key: tuple[str, int, int], taken: asyncio.Future[bool]) -> None:
        """Keep nobody waiting for an agent that did not take the order."""
        if taken.cancelled() or not taken.result():
            for answer in self._quiescing.get(key, ()):
                answer.cancel()

    def quiesced(self, lease_id: str, generation: int, pid: int | None = None) -> None:
        """Note that the processes of a lease can be signalled safely now; None for every one of them."""
        for key, answers in self._quiescing.items():
            if key[:2] != (lease_id, generation) or pid not in (None, key[2]):
                continue
            for answer in answers:
                if not answer.done():
                    answer.set_result(None)

    def put(self, node_id: str, order: Order) -> asyncio.Future[bool]:
        """Send an order soon, after those that were decided before; the future tells whether it was taken."""
        return self._outbox.put(node_id, order)

    def ask_holders(self, node_id: str) -> None:
        """Ask an agent for all of its holders (the reconcile sweep)."""
        token = next(self._tokens)
        self._asked[token] = self._now_ms()
        taken = self._outbox.put(node_id, ReportOrder(token=token))
        taken.add_done_callback(lambda future: self._not_asked(token, future))

    def _not_asked(self, token: int, taken: asyncio.Future[bool]) -> None:
        if taken.cancelled() or not taken.result():
            self._asked.pop(token, None)

    def asked_ms(self, token: int) -> int | None:
        """Return when the list with this token was asked for; None when it was not, or is known already."""
        return self._asked.pop(token, None)

    async def stop_agents(self, node_ids: Iterable[str], timeout_seconds: float) -> None:
        """Tell agents to end, and wait up to a bound until they know."""
        told = [self._outbox.put(node_id, StopOrder()) for node_id in node_ids]
        if told:
            await asyncio.wait(told, timeout=timeout_seconds)

    async def close(self) -> None:
        """Stop sending."""
        await self._outbox.close()
