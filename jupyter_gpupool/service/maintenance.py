"""What administrators do with nodes: draining one, and offering it again.

Rules of this module: who may not administer is refused before anything is looked up; what is done is in the
audit log and in the journal before the pool hears of it, so that a restart keeps it.
"""

from __future__ import annotations

import asyncio
import math

from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.events import NodeDrained, NodeUndrained
from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.protocol.administration import DrainRequest
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import NodeDoc
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.audit import AuditLog
from jupyter_gpupool.service.auth import Principal, Scope
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.errors import NotFound
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.journaling import JournalThread
from jupyter_gpupool.service.views import Views


class Maintenance:
    """Takes what administrators say of nodes.

    Parameters
    ----------
    host, journal, views, audit, clock
        The parts of the service that this concerns.
    """

    def __init__(
        self, *, host: PoolHost, journal: JournalThread, views: Views, audit: AuditLog, clock: PoolClock
    ) -> None:
        self._host = host
        self._journal = journal
        self._views = views
        self._audit = audit
        self._clock = clock
        self._turn = asyncio.Lock()

    async def drain(self, who: Principal, name: str, body: bytes) -> NodeDoc:
        """Take no new leases on a node; with a grace, end those that are there after it.

        Parameters
        ----------
        who : Principal
            An administrator.
        name : str
            Id or name of the node.
        body : bytes
            A `DrainRequest`.

        Raises
        ------
        Forbidden
            If this principal does not administer the pool.
        NotFound
            If there is no such node, or several are called so.
        AuditUnavailable, JournalUnavailable
            If it cannot be written down; then it is not done.
        """
        who.require(Scope.ADMIN)
        wanted = validate.drain_request(decode(body, DrainRequest))
        node = self._find(name)
        async with self._turn:
            grace = wanted.grace_seconds
            after = "leases stay" if grace is None else f"leases end in {format_duration(grace)}"
            told = "; ".join(part for part in (after, wanted.message) if part)
            await self._note(who, "drain", node, told)
            now = self._clock.read()
            until_ms = None if grace is None else now.now_ms + math.ceil(grace * 1000)
            drain = Drain(node_id=node.id, hostname=node.hostname, message=wanted.message, until_ms=until_ms)
            await self._journal.read(lambda journal: journal.write_drain(drain))
            await self._host.submit(NodeDrained(now_ms=now.now_ms, wall_ms=now.wall_ms, drain=drain))
        return self._find(node.id)

    async def undrain(self, who: Principal, name: str) -> NodeDoc:
        """Take leases on a node again; doing it twice is harmless.

        Raises
        ------
        Forbidden, NotFound, AuditUnavailable, JournalUnavailable
            As for `drain`.
        """
        who.require(Scope.ADMIN)
        node = self._find(name)
        async with self._turn:
            if self._host.pool.drain(node.id) is not None:
                await self._note(who, "undrain", node, "")
                await self._journal.read(lambda journal: journal.forget_drain(node.id))
                now = self._clock.read()
                event = NodeUndrained(now_ms=now.now_ms, wall_ms=now.wall_ms, node_id=node.id)
                await self._host.submit(event)
        # one that never joined was known by its drain alone
        return next((it for it in self._views.nodes() if it.id == node.id), node)

    async def _note(self, who: Principal, action: str, node: NodeDoc, detail: str) -> None:
        subject = node.hostname if node.hostname == node.id else f"{node.hostname} ({node.id})"
        await self._audit.note(who=who.owner, action=action, subject=subject, owner="", detail=detail)

    def _find(self, name: str) -> NodeDoc:
        nodes = self._views.nodes()
        found = [it for it in nodes if it.id == name] or [it for it in nodes if it.hostname == name]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{it.hostname} ({it.id})" for it in nodes[:20]) or "none"
        what = "There is no node" if not found else "Several nodes are called"
        raise NotFound(f"{what} {name[:80]}.", hint=f"The nodes are: {listed}.")
