"""Leases with devices on several nodes: what they have on each, and tickets for processes that join there.

Rules of this module: a ticket is given out for a share that no process has; who it is for is known already.
"""

from __future__ import annotations

from jupyter_gpupool.core.errors import AlreadyHolds, IllegalTransition, LeaseError
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.protocol.documents import AttachDoc, LeaseDoc, PartDoc
from jupyter_gpupool.service.convert import isolation_docs
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.nodes import NodeBook

#: How long an agent may take to hear of a process that joins, seconds.
HEAR_SECONDS = 5.0


class NotItsNode(LeaseError):
    """Raised when a lease has nothing on the node that was named. The message lists the nodes it is on."""

    code = "not_its_node"


def parts_of(pool: Pool, lease: Lease, doc: LeaseDoc) -> list[PartDoc]:
    """Show what a lease has on each of its nodes; nothing where that is one.

    Parameters
    ----------
    pool : Pool
        The pool.
    lease : Lease
        The lease.
    doc : LeaseDoc
        What is shown of it otherwise.
    """
    nodes = pool.nodes_of(lease) if len(lease.shares) > 1 else ()
    if len(nodes) < 2:
        return []
    found = {
        it: PartDoc(node_id=it, hostname=_hostname(pool, it), shares=[], holder=False, joined=False)
        for it in nodes
    }
    for share, shown in zip(lease.shares, doc.shares, strict=True):
        device = pool.device(share.device_id)
        if device is not None and device.node_id in found:
            found[device.node_id].shares.append(shown)
    own = found[lease.node_id]
    own.holder, own.joined, own.pid = True, lease.state is LeaseState.ACTIVE, lease.pid
    own.isolation = doc.isolation
    for joined in pool.joined(lease.id):
        part = found.get(joined.node_id)
        if part is not None:
            part.joined, part.pid, part.isolation = True, joined.pid, isolation_docs(joined.isolation)
    return list(found.values())


def _hostname(pool: Pool, node_id: str) -> str:
    node = pool.nodes.get(node_id)
    return node.hostname if node is not None else node_id


class PartDesk:
    """Gives out tickets.

    Parameters
    ----------
    host : PoolHost
        The pool.
    dispatcher : Dispatcher
        Tells agents whom to expect.
    book : NodeBook
        Where the agents' sockets are.
    """

    def __init__(self, host: PoolHost, dispatcher: Dispatcher, book: NodeBook) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._book = book

    async def ticket(self, lease: Lease, doc: LeaseDoc, node: str) -> AttachDoc:
        """Give out a ticket for a process on one of a lease's nodes.

        Parameters
        ----------
        lease : Lease
            The lease.
        doc : LeaseDoc
            The lease as its owner sees it.
        node : str
            Id or name of the node.

        Raises
        ------
        NotItsNode
            If the lease has nothing there.
        IllegalTransition
            If it is not held, or no longer.
        AlreadyHolds
            If a process has that share.
        AgentAway
            If the node's agent is not there.
        """
        if lease.state not in (LeaseState.ATTACHING, LeaseState.ACTIVE):
            raise IllegalTransition(
                f"Lease {lease.id} is {lease.state.value}: only one that is held can be joined.",
                hint=doc.reason,
            )
        part = self._part(lease, doc, node)
        if part.joined:
            raise AlreadyHolds(
                f"Process {part.pid} has what lease {lease.id} has on {part.hostname}.",
                hint="What that process starts is under the same limits.",
            )
        if part.holder:
            return _of_holder(lease, doc, part)
        if lease.state is not LeaseState.ACTIVE:
            raise IllegalTransition(
                f"Lease {lease.id} waits for its holder on {_hostname(self._host.pool, lease.node_id)}.",
                hint="Join it on its other nodes when that is attached.",
            )
        return await self._of_part(lease, part)

    def _part(self, lease: Lease, doc: LeaseDoc, node: str) -> PartDoc:
        """Find what a lease has on a node."""
        name = _hostname(self._host.pool, lease.node_id)
        own = PartDoc(
            node_id=lease.node_id,
            hostname=name,
            shares=doc.shares,
            holder=True,
            joined=lease.state is LeaseState.ACTIVE,
            pid=lease.pid,
        )
        parts = doc.parts or [own]
        found = [it for it in parts if it.node_id == node] or [it for it in parts if it.hostname == node]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{it.hostname} ({it.node_id})" for it in parts)
        what = "has nothing on" if not found else "is on several nodes called"
        raise NotItsNode(f"Lease {lease.id} {what} {node[:80]}.", hint=f"Its nodes are {listed}.")

    async def _of_part(self, lease: Lease, part: PartDoc) -> AttachDoc:
        there = self._host.pool.on_node(lease, part.node_id)
        ticket = await self._dispatcher.prepare_part(part.node_id, there, HEAR_SECONDS)
        node = self._book.nodes.get(part.node_id)
        return AttachDoc(
            socket=node.socket if node is not None else "",
            ticket=ticket.value,
            node_id=part.node_id,
            hostname=part.hostname,
            expires_seconds=self._dispatcher.left_seconds(ticket),
        )


def _of_holder(lease: Lease, doc: LeaseDoc, part: PartDoc) -> AttachDoc:
    """Give out the ticket of the lease's holder, where that is no kernel's."""
    if lease.holder.kernel_id:
        raise IllegalTransition(
            f"What lease {lease.id} has on {part.hostname} is its kernel's, which has yet to attach.",
            hint="Join it on its other nodes when the kernel is attached.",
        )
    if doc.attach is None:
        raise IllegalTransition(
            f"The agent of {part.hostname} has not heard of lease {lease.id} yet.",
            hint="Try again in a moment.",
        )
    return doc.attach
