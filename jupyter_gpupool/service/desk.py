"""What a principal can do with leases: the calls behind the HTTP handlers.

Rule of this module: a lease that is not the principal's own does not exist for it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from jupyter_gpupool.cluster.journal import IdempotencyRow
from jupyter_gpupool.core.errors import IllegalTransition, InvalidValue, UnknownLease
from jupyter_gpupool.core.events import (
    LeaseRequested,
    PinRequested,
    ReleaseRequested,
    ResizeRequested,
    WaiterLost,
)
from jupyter_gpupool.core.leases import EndReason, Holder, Lease, LeaseState, Want
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import (
    ActivityRequest,
    AttachDoc,
    JoinRequest,
    LeaseDoc,
    LeaseRequest,
    QuiescedDoc,
    ResizeRequest,
    WhyDoc,
)
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.audit import AuditLog
from jupyter_gpupool.service.auth import Forbidden, Principal, Scope
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.errors import LimitsRefusedByAgent
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.idempotency import KEY_MS, KeyBook, body_sha256
from jupyter_gpupool.service.idleness import Idleness
from jupyter_gpupool.service.ids import LeaseIds
from jupyter_gpupool.service.lease_views import LeaseViews
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.ownership import own_lease, seen_lease, unknown_lease
from jupyter_gpupool.service.parts import PartDesk
from jupyter_gpupool.service.reasons import why_doc
from jupyter_gpupool.service.waiters import Waiters
from jupyter_gpupool.service.watch import Watch

#: How long the answer to a release waits for the agent's confirmation, seconds.
RELEASE_SECONDS = 5.0
#: How long the answer to a resize waits for the agent, seconds.
RESIZE_SECONDS = 10.0
#: How long an agent may take to make it safe to signal the processes of a lease, seconds.
QUIESCE_SECONDS = 3.0
#: For how long a queued lease may be without a listener after the service was started anew, seconds.
RETURN_SECONDS = 30.0


#: States in which a lease's processes may be on its devices.
_WITH_PROCESSES = frozenset({LeaseState.ACTIVE, LeaseState.ENDING})


class Desk:
    """Takes the requests of principals.

    Parameters
    ----------
    host, views, keys, dispatcher, book, watch, clock, idleness, audit
        The parts of the service that requests concern.
    waiter_grace_seconds : float
        How long a queued lease may be without a listener.
    """

    def __init__(
        self,
        *,
        host: PoolHost,
        views: LeaseViews,
        keys: KeyBook,
        dispatcher: Dispatcher,
        book: NodeBook,
        watch: Watch,
        clock: PoolClock,
        idleness: Idleness,
        audit: AuditLog,
        waiter_grace_seconds: float,
    ) -> None:
        self._host = host
        self._views = views
        self._keys = keys
        self._dispatcher = dispatcher
        self._book = book
        self._watch = watch
        self._clock = clock
        self._idleness = idleness
        self._parts = PartDesk(host, dispatcher, book)
        self._audit = audit
        self._ids = LeaseIds(lambda: clock.read().wall_ms)
        self._waiters = Waiters(waiter_grace_seconds, self._waiter_lost)

    def open(self) -> None:
        """Give the waiters of an earlier service time to come back."""
        for lease in self._host.leases.values():
            if lease.state is LeaseState.QUEUED:
                self._waiters.queued(lease.id, grace_seconds=RETURN_SECONDS)

    def close(self) -> None:
        """Stop all timers."""
        self._waiters.close()

    # --- requests -------------------------------------------------------------------------------

    async def request(self, who: Principal, body: bytes, key: str | None) -> LeaseDoc:
        """Ask for a lease; with the key of an earlier request the answer is about that one's lease."""
        wanted = validate.lease_request(decode(body, LeaseRequest))
        validate.idempotency_key(key)
        row = IdempotencyRow(
            owner=who.owner,
            key=key or "",
            body_sha256=body_sha256(who.kernel_id, body) if key else "",
            lease_id=self._ids.mint(),
            expires_ms=self._clock.now_ms() + KEY_MS,
        )
        if key:
            lease_id = await self._keys.once(row, lambda row: self._create(who, wanted, row))
        else:
            lease_id = row.lease_id
            await self._create(who, wanted, row)
        lease = await self._own(who, lease_id)
        if lease.state is LeaseState.QUEUED:
            self._waiters.queued(lease.id)
        return self._show(who, lease)

    async def _create(self, who: Principal, wanted: LeaseRequest, row: IdempotencyRow) -> None:
        now = self._clock.read()
        event = LeaseRequested(
            now_ms=now.now_ms,
            wall_ms=now.wall_ms,
            lease_id=row.lease_id,
            owner=who.owner,
            holder=_holder(who, wanted),
            want=Want(
                compute_milli=wanted.compute_milli,
                memory_bytes=wanted.memory_bytes,
                kind=wanted.kind,
                device=wanted.device,
                count=wanted.count,
                spread=wanted.spread,
                priority=wanted.priority,
                at_most=wanted.at_most,
                host_cpu_milli=wanted.host_cpu_milli,
                host_memory_bytes=wanted.host_memory_bytes,
                model=wanted.model,
            ),
            wait_ms=validate.milliseconds(wanted.wait_seconds),
            hold_ms=validate.milliseconds(wanted.hold_seconds),
        )
        await self._host.submit(event, row if row.key else None)

    # --- one lease ------------------------------------------------------------------------------

    async def _own(self, who: Principal, lease_id: str) -> Lease:
        return await own_lease(self._host, who, lease_id)

    def _show(self, who: Principal, lease: Lease) -> LeaseDoc:
        """Make the document, with a good ticket where a holder may attach."""
        if lease.state is LeaseState.ATTACHING and who.may_touch(lease):
            self._dispatcher.renew(lease)
        return self._views.lease(lease, who)

    async def look(self, who: Principal, lease_id: str, since: str | None, wait_seconds: float) -> LeaseDoc:
        """Show a lease; with ``since``, as soon as its tag is another one, or after ``wait_seconds``."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (wait_seconds if since is not None else 0.0)
        lease = await seen_lease(self._host, who, lease_id)
        with self._listening(lease):
            while True:
                await self._host.settled()
                doc = self._show(who, await seen_lease(self._host, who, lease_id))
                left = until - loop.time()
                if doc.tag != since or left <= 0 or doc.state is LeaseState.ENDED or self._watch.closed:
                    return doc
                await self._watch.lease(lease_id, left, queued=doc.state is LeaseState.QUEUED)

    @contextmanager
    def _listening(self, lease: Lease) -> Iterator[None]:
        if lease.state is not LeaseState.QUEUED:
            yield
            return
        with self._waiters.listening(lease.id, still_queued=lambda: self._queued(lease.id)):
            yield

    def _queued(self, lease_id: str) -> bool:
        lease = self._host.leases.get(lease_id)
        return lease is not None and lease.state is LeaseState.QUEUED

    def _waiter_lost(self, lease_id: str) -> None:
        if self._queued(lease_id):
            now = self._clock.read()
            self._host.post(WaiterLost(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease_id))

    async def resize(self, who: Principal, lease_id: str, body: bytes) -> LeaseDoc:
        """Ask for another size, and wait until it is in force or refused."""
        wanted = validate.resize_request(decode(body, ResizeRequest))
        await self._own(who, lease_id)
        self._book.refusals.pop(lease_id, None)
        now = self._clock.read()
        event = ResizeRequested(
            now_ms=now.now_ms,
            wall_ms=now.wall_ms,
            lease_id=lease_id,
            compute_milli=wanted.compute_milli,
            memory_bytes=wanted.memory_bytes,
        )
        await self._host.submit(event)
        lease = await self._until(who, lease_id, RESIZE_SECONDS, lambda lease: not lease.pending)
        refusal = self._book.refusals.pop(lease_id, None)
        if refusal is not None:
            raise LimitsRefusedByAgent(refusal, hint="The size of the lease is what it was.")
        if lease.state is LeaseState.ENDED:
            raise UnknownLease(f"Lease {lease_id} ended meanwhile.", hint=self._views.reason(lease))
        return self._views.lease(lease, who)

    async def active(self, who: Principal, lease_id: str, body: bytes) -> LeaseDoc:
        """Take what the holder says that it does."""
        told = validate.activity_request(decode(body, ActivityRequest))
        lease = await self._own(who, lease_id)
        if lease.state is LeaseState.ACTIVE:
            self._idleness.told(lease, busy=told.busy, idle_ms=round(told.idle_seconds * 1000))
        return self._views.lease(lease, who)

    async def join(self, who: Principal, lease_id: str, body: bytes) -> AttachDoc:
        """Give out a ticket for a process that joins a lease on one of its nodes."""
        wanted = validate.join_request(decode(body, JoinRequest))
        await self._host.settled()
        lease = await self._own(who, lease_id)
        return await self._parts.ticket(lease, self._show(who, lease), wanted.node_id)

    async def why(self, who: Principal, lease_id: str) -> WhyDoc:
        """Say why a lease is as it is."""
        await self._host.settled()
        lease = await seen_lease(self._host, who, lease_id)
        return why_doc(self._host, self._views, lease, who, self._clock.now_ms())

    async def pin(self, who: Principal, lease_id: str, *, pinned: bool) -> LeaseDoc:
        """Have a lease not taken back, or let it be."""
        await self._own(who, lease_id)
        now = self._clock.read()
        event = PinRequested(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease_id, pinned=pinned)
        await self._host.submit(event)
        return self._views.lease(await self._own(who, lease_id), who)

    async def release(self, who: Principal, lease_id: str, reason: EndReason) -> LeaseDoc:
        """End a lease, and wait a while for the agent's confirmation. Ending it again changes nothing."""
        lease = await self._own(who, lease_id)
        if lease.state not in (LeaseState.ENDING, LeaseState.ENDED):
            now = self._clock.read()
            event = ReleaseRequested(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease_id, reason=reason)
            try:
                await self._host.submit(event)
            except (UnknownLease, IllegalTransition):
                await self._host.settled()  # something else ended it at the same time
        lease = await self._until(who, lease_id, RELEASE_SECONDS, _is_ended)
        return self._views.lease(lease, who)

    async def end(self, who: Principal, lease_id: str, message: str) -> LeaseDoc:
        """End anybody's lease as an administrator, with a message to whom it belongs.

        Raises
        ------
        Forbidden
            If this principal does not administer the pool.
        AuditUnavailable
            If it cannot be written down.
        """
        who.require(Scope.ADMIN)
        lease = await self._host.find(lease_id)
        if lease is None:
            raise unknown_lease(lease_id)
        if lease.state not in (LeaseState.ENDING, LeaseState.ENDED):
            await self._audit.note(
                who=who.owner, action="end", subject=lease.id, owner=lease.owner, detail=message
            )
            now = self._clock.read()
            event = ReleaseRequested(
                now_ms=now.now_ms,
                wall_ms=now.wall_ms,
                lease_id=lease_id,
                reason=EndReason.ADMIN_ENDED,
                detail=message,
            )
            with suppress(UnknownLease, IllegalTransition):  # something else ended it at the same time
                await self._host.submit(event)
        theirs = replace(who, owner=lease.owner, kernel_id="")
        return self._views.lease(await self._until(theirs, lease_id, RELEASE_SECONDS, _is_ended), who)

    async def release_kernel(self, who: Principal, kernel_id: str, reason: EndReason) -> list[LeaseDoc]:
        """End every lease of one kernel."""
        mine = self._of_kernel(who, kernel_id)
        return list(await asyncio.gather(*(self.release(who, lease.id, reason) for lease in mine)))

    def _of_kernel(self, who: Principal, kernel_id: str) -> list[Lease]:
        if who.kernel_id and who.kernel_id != kernel_id:
            raise Forbidden("A kernel can touch its own leases only.", hint="Use the owner's token.")
        leases = self._host.leases.values()
        return [it for it in leases if it.holder.kernel_id == kernel_id and who.may_touch(it)]

    async def quiesce(self, who: Principal, lease_id: str, pid: int = 0) -> QuiescedDoc:
        """Make it safe to signal the processes of one lease, as far as anything can be harmed by it."""
        return await self._quiesce([await self._own(who, lease_id)], pid)

    async def quiesce_kernel(self, who: Principal, kernel_id: str) -> QuiescedDoc:
        """Do the same for every lease of one kernel."""
        return await self._quiesce(self._of_kernel(who, kernel_id))

    async def _quiesce(self, leases: list[Lease], pid: int = 0) -> QuiescedDoc:
        asked = [it for it in leases if it.state in _WITH_PROCESSES and self._book.fragile(it)]
        answers = await asyncio.gather(*(self._dispatcher.quiesce(it, QUIESCE_SECONDS, pid) for it in asked))
        return QuiescedDoc(leases=len(leases), quiesced=len(leases) - answers.count(False))

    async def _until(
        self, who: Principal, lease_id: str, timeout_seconds: float, done: Callable[[Lease], bool]
    ) -> Lease:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        while True:
            lease = await self._own(who, lease_id)
            left = until - loop.time()
            if done(lease) or left <= 0 or lease.state is LeaseState.ENDED:
                return lease
            await self._watch.lease(lease_id, left)


def _is_ended(lease: Lease) -> bool:
    return lease.state is LeaseState.ENDED


def _holder(who: Principal, wanted: LeaseRequest) -> Holder:
    """Take the kernel from the token, never from the body."""
    label, hostname = validate.label(wanted.holder.label), wanted.holder.hostname
    worker = wanted.holder.worker
    key = who.kernel_id or wanted.holder.key or secrets.token_hex(8)
    if wanted.holder.server:
        if not who.server or who.kernel_id:
            raise InvalidValue(
                "Only a server of JupyterHub, by its own token, can have a lease for all of its kernels.",
                hint="Ask without “server”.",
            )
        key = who.server
    return Holder(
        key=f"{key}/{worker}" if worker else key,
        kernel_id=who.kernel_id,
        label=label,
        restartable=bool(who.kernel_id) and not worker,
        hostname=hostname,
    )
