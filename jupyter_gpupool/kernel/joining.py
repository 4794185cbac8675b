"""Joining a lease on another node than its holder's: this process gets under what the lease has here.

Rules of this module: which node this is, its agent says by taking the ticket or not; all waits are bounded.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.kernel.attach import AppliedSettings, show_ticket
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, HolderError, NotOnNode
from jupyter_gpupool.kernel.frameworks import installed
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.protocol.documents import AttachDoc, IsolationDoc, LeaseDoc, PartDoc, ShareDoc
from jupyter_gpupool.protocol.messages import AttachReply

#: How long an agent that does not take tickets (it may be restarting) is tried again, seconds.
ATTACH_SECONDS = 30.0
#: Pause between two tries, seconds.
_PAUSE_SECONDS = 0.5
#: What an agent answers to a ticket that it does not know.
_STALE = "stale_ticket"


class NothingHere(HolderError):
    """Raised when a lease has nothing on this machine that could be joined. The message lists its nodes."""

    code = "nothing_here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """What this process has of a lease, until it ends or the lease does.

    Attributes
    ----------
    lease_id : str
        The lease.
    node_id, hostname : str
        The node that this is.
    shares : tuple of ShareDoc
        What the lease has here.
    isolation : tuple of IsolationDoc
        What is in force for this process.
    notices : tuple of str
        Sentences that a person should read.
    """

    lease_id: str
    node_id: str
    hostname: str
    shares: tuple[ShareDoc, ...]
    isolation: tuple[IsolationDoc, ...]
    notices: tuple[str, ...]


def join(lease: str, *, node: str = "") -> Joined:
    """Join a lease that has devices on several nodes, on the node that this process runs on.

    The process is under the limits of what the lease has there, and so is what it starts, until it ends or
    the lease does.

    Parameters
    ----------
    lease : str
        One of yours, by its id or how that ends.
    node : str
        Name or id of the node; empty for the one that this is.

    Returns
    -------
    Joined
        What this process has now.

    Raises
    ------
    GPUPoolError
        If the lease is not held, has nothing here, or a process has it already; nothing was changed then.
    """
    client = this_process().client
    return join_lease(client, client.called(lease), node)


def join_lease(client: PoolClient, lease_id: str, node: str = "") -> Joined:
    """Do that with a client."""
    doc = client.lease(lease_id)
    frameworks = {} if doc.kind is DeviceKind.CPU else installed()
    nodes = [node] if node else _nodes(doc)
    for candidate in nodes:
        try:
            attach, reply = _attach(client, lease_id, candidate, frameworks, guess=len(nodes) > 1)
        except NotOnNode as error:
            if node or len(nodes) == 1:
                raise _wrong_machine(doc, error) from error
            continue
        settings = AppliedSettings()
        settings.apply(reply, frameworks)
        return Joined(
            lease_id=lease_id,
            node_id=attach.node_id,
            hostname=attach.hostname,
            shares=tuple(share for it in doc.parts if it.node_id == attach.node_id for share in it.shares)
            or tuple(doc.shares),
            isolation=tuple(reply.isolation),
            notices=tuple(settings.notices),
        )
    raise NothingHere(
        f"Lease {lease_id} has nothing on {socket.gethostname()} that could be joined: its nodes are"
        f" {_listed(doc)}.",
        hint="Run this there, or name the node that this is with --node.",
    )


def _nodes(doc: LeaseDoc) -> list[str]:
    """List the nodes that this may be: those called like this machine, else those without a process."""
    if not doc.parts:
        return [doc.node_id]
    here = [it.node_id for it in doc.parts if it.hostname == socket.gethostname()]
    return here if len(here) == 1 else [it.node_id for it in doc.parts if not it.joined]


def _attach(
    client: PoolClient, lease_id: str, node: str, frameworks: dict[str, str], *, guess: bool
) -> tuple[AttachDoc, AttachReply]:
    """Get a ticket and show it, again while the agent may be restarting; once, where the node is a guess."""
    until = time.monotonic() + ATTACH_SECONDS
    while True:
        attach = client.join(lease_id, node)
        try:
            return attach, show_ticket(attach, frameworks=frameworks)
        except (AgentSilent, AttachRefused) as error:
            if isinstance(error, AttachRefused) and error.code != _STALE:
                raise
            if guess:
                raise NotOnNode(str(error)) from error
            if time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)


def _wrong_machine(doc: LeaseDoc, error: NotOnNode) -> NotOnNode:
    return NotOnNode(error.message, hint=f"Run this on a node of the lease: {_listed(doc)}.")


def _listed(doc: LeaseDoc) -> str:
    return ", ".join(f"{it.hostname} ({part_state(it)})" for it in doc.parts) or doc.node_id


def part_state(part: PartDoc) -> str:
    """Say who has what a lease has on a node."""
    if not part.joined:
        return "no process"
    return f"process {part.pid}" if part.pid is not None else "a process"
