"""What an agent does with holders: attach, resize, detach, adopt, and notice that they ended.

Rules of this module: whole operations follow one another, never interleave; a holder is listed from the
moment it is under its limits and on disk; an end that arrives while its holder is being attached wins; what
cannot be undone is tried again until it can, and only then confirmed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.backends.base import Demand
from jupyter_gpupool.cluster.attach import refusal
from jupyter_gpupool.cluster.ending import end_tree, interrupt
from jupyter_gpupool.cluster.errors import AlreadyAttached, AttachError, LeaseOver
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.holders import HolderRecord
from jupyter_gpupool.cluster.leftovers import RETRY_SECONDS, Leftovers
from jupyter_gpupool.cluster.limits import Limits, Look
from jupyter_gpupool.cluster.peer import Peer, find, is_alive
from jupyter_gpupool.cluster.tasks import Tasks
from jupyter_gpupool.cluster.watch import ProcessWatch
from jupyter_gpupool.core.errors import GPUPoolError, NoSuchDevice
from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyOrder,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    AttachReply,
    DetachedReport,
    DetachOrder,
    ExitedReport,
    HolderReport,
    LeaseSample,
    PrepareOrder,
    QuiescedReport,
    QuiesceOrder,
    Report,
)

logger = logging.getLogger(__name__)

#: How long a holder's processes may take until it is safe to signal them, seconds.
QUIESCE_SECONDS = 2.5


@dataclass(slots=True)
class _Held:
    record: HolderRecord
    pidfd: int
    complaint: str = ""
    #: Why it is being ended, one clause; empty while it is not.
    ending: str = ""

    def complain(self, error: Exception) -> None:
        """Log a fault that may come back every second, once."""
        if self.complaint != str(error):
            self.complaint = str(error)
            logger.warning("The holder of %s cannot be looked at", self.record.lease_id, exc_info=error)


class HolderDesk:
    """The holders of one agent.

    Parameters
    ----------
    limits : Limits
        Puts limits in force and keeps records; blocking.
    hands : Hands
        The thread in which it is called.
    report : callable
        Tells the pool what happened.
    watch_holders : bool
        False to watch no process, so that the other nets can be tried alone.
    """

    def __init__(
        self, limits: Limits, hands: Hands, report: Callable[[Report], None], *, watch_holders: bool = True
    ) -> None:
        self._limits = limits
        self._hands = hands
        self._report = report
        self._watch = ProcessWatch(self._exited, enabled=watch_holders)
        self._held: dict[str, _Held] = {}
        self._turn = asyncio.Lock()
        #: Leases that are being attached; True when their end was ordered meanwhile.
        self._attaching: dict[str, bool] = {}
        self._tasks = Tasks()
        self._leftovers = Leftovers(self._detach, self._turn, self._tasks)
        #: Set whenever the list of holders changes.
        self.changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def records(self) -> list[HolderRecord]:
        """What is attached now."""
        return [held.record for held in self._held.values()]

    def living(self) -> list[HolderReport]:
        """List the holders whose processes live."""
        return [
            HolderReport(
                lease_id=held.record.lease_id,
                generation=held.record.generation,
                pid=held.record.holder.pid,
                isolation=held.record.isolation,
            )
            for held in self._held.values()
            if is_alive(held.pidfd)
        ]

    async def adopt(self, records: list[HolderRecord]) -> None:
        """Take over what an earlier agent attached; of what it only began, or what ended, nothing is left."""
        for record in records:
            pidfd = None if record.begun else find(record.holder)
            if pidfd is not None:
                self._hold(record, pidfd)
                logger.info("Adopted process %s of lease %s", record.holder.pid, record.lease_id)
            elif not await self._detach(record):
                self._leftovers.keep(record, later=True)
        try:
            await self._hands.do(self._limits.show, self.records)
        except GPUPoolError as error:
            logger.warning("Devices do not take over their holders yet", exc_info=error)
        for held in [*self._held.values()]:
            await self._assure(held)

    async def _assure(self, held: _Held) -> None:
        """Set the limits of a record again, where an agent ended while it changed them."""
        try:
            held.record = await self._hands.do(self._limits.assure, held.record)
        except (GPUPoolError, OSError) as error:
            held.complain(error)

    async def attach(
        self, order: PrepareOrder, peer: Peer, frameworks: Mapping[str, str] | None = None
    ) -> AttachReply:
        """Put a process under the limits of its lease; ``peer`` is this desk's from here on."""
        self._attaching[order.lease_id] = False
        try:
            async with self._turn:
                return (await self._attach(order, peer, frameworks or {})).reply()
        except (AlreadyAttached, LeaseOver) as error:
            peer.close()
            return refusal(error)
        except GPUPoolError as error:
            return self._refuse(order, peer, error)
        except Exception as error:
            failed = AttachError(
                f"The agent failed to attach this process: {error}.", hint="Its log says more."
            )
            return self._refuse(order, peer, failed, cause=error)
        finally:
            del self._attaching[order.lease_id]

    def apply(self, order: ApplyOrder) -> None:
        """Put other limits in force for a holder, and report the outcome."""
        self._tasks.spawn(self._obey_apply(order))

    def detach(self, order: DetachOrder) -> None:
        """Take limits away and report it, at once or after what is going on; also when there are none."""
        if order.lease_id in self._attaching:
            self._attaching[order.lease_id] = True
        if self._has_nothing_of(order.lease_id):
            self._report(DetachedReport(lease_id=order.lease_id, generation=order.generation))
        else:
            self._tasks.spawn(self._obey_detach(order))

    def _has_nothing_of(self, lease_id: str) -> bool:
        """Tell whether no process has, had or gets a lease, as far as that can be said without waiting."""
        known = lease_id in self._held or lease_id in self._attaching or lease_id in self._leftovers
        return not known and not self._turn.locked()

    def quiesce(self, order: QuiesceOrder) -> None:
        """Make it safe to signal a lease's processes, and report it; at once where there are none."""
        self._tasks.spawn(self._obey_quiesce(order))

    async def look(self) -> list[LeaseSample]:
        """Look at the process tree of every holder."""
        samples = []
        for lease_id in list(self._held):
            async with self._turn:
                held = self._held.get(lease_id)
                if held is None:
                    continue
                try:
                    look = await self._hands.do(self._limits.watch, held.record)
                except (GPUPoolError, OSError) as error:
                    held.complain(error)
                    continue
            samples.append(look.sample)
            if self._held.get(lease_id) is held:
                self._act(held, look)
        return samples

    def _act(self, held: _Held, look: Look) -> None:
        """Tell what changed for a holder, and do to it what its device demands."""
        if look.changed:
            self._report_attached(held.record)
        if look.demand is Demand.INTERRUPT:
            logger.warning("Process %s is interrupted: %s", held.record.holder.pid, look.reason)
            interrupt(held.pidfd)
        elif look.demand is Demand.END and not held.ending:
            held.ending = look.reason
            self._leftovers.begin_ending(held.record.lease_id)
            self._tasks.spawn(self._end_holder(held))

    async def _end_holder(self, held: _Held) -> None:
        """End a holder's processes; its exit is reported by the watch, with the reason."""
        record = held.record
        logger.warning("The processes of %s are ended: %s", record.lease_id, held.ending)
        try:
            await self._quiesced(record)
            apart = {other.record.holder.pid for other in self._held.values()} - {record.holder.pid}
            await end_tree(record.holder, apart)
        finally:
            self._leftovers.finish_ending(record.lease_id)

    async def close(self) -> None:
        """Finish what was begun, and let go of the holders: they stay attached, and their records on disk."""
        await self._tasks.close()
        async with self._turn:
            for lease_id in list(self._held):
                os.close(self._let_go(lease_id).pidfd)

    def _refuse(
        self, order: PrepareOrder, peer: Peer, error: GPUPoolError, *, cause: Exception | None = None
    ) -> AttachReply:
        """Tell process and pool that the lease cannot be put in force."""
        logger.warning(
            *("Process %s cannot be attached to %s: %s", peer.mark.pid, order.lease_id, error),
            exc_info=cause or error.__cause__,
        )
        peer.close()
        self._report(
            AttachRefusedReport(lease_id=order.lease_id, generation=order.generation, detail=str(error))
        )
        return refusal(error)

    async def _attach(self, order: PrepareOrder, peer: Peer, frameworks: Mapping[str, str]) -> HolderRecord:
        older = self._held.get(order.lease_id)
        if older is not None and older.record.generation >= order.generation:
            if older.record.holder != peer.mark or older.record.generation != order.generation:
                raise AlreadyAttached(
                    f"Lease {order.lease_id} has a holder: process {older.record.holder.pid}."
                )
            peer.close()
            return older.record
        gone = await self._end(order.lease_id) if older is not None else True
        if not (gone and await self._leftovers.clear(order.lease_id)):
            raise AttachError(
                f"The limits of the process that had lease {order.lease_id} before cannot be taken away yet.",
                hint="Try again in a moment; the agent's log says what fails.",
            )
        try:
            record = await self._hands.do(self._limits.attach, order, peer.mark, frameworks)
        finally:
            while self._limits.leftovers:
                self._leftovers.keep(self._limits.leftovers.pop(), later=True)
        if self._attaching[order.lease_id]:
            if not await self._detach(record):
                self._leftovers.keep(record, later=True)
            raise LeaseOver(f"Lease {order.lease_id} ended while it was being attached.")
        self._hold(record, peer.pidfd)
        self._report_attached(record)
        return record

    def _report_attached(self, record: HolderRecord) -> None:
        """Tell what is in force for a holder."""
        self._report(
            AttachedReport(
                lease_id=record.lease_id,
                generation=record.generation,
                pid=record.holder.pid,
                isolation=record.isolation,
            )
        )

    async def _obey_apply(self, order: ApplyOrder) -> None:
        async with self._turn:
            self._report(await self._resize(order))

    async def _resize(self, order: ApplyOrder) -> Report:
        held = self._held.get(order.lease_id)
        known: dict[str, Any] = {"lease_id": order.lease_id, "generation": order.generation}
        if held is None or held.record.generation != order.generation:
            return ApplyRefusedReport(**known, detail="The agent has no holder of this lease.")
        try:
            held.record = await self._hands.do(self._limits.resize, held.record, order.shares)
        except (GPUPoolError, OSError) as error:
            return ApplyRefusedReport(**known, detail=str(error))
        return AppliedReport(**known, isolation=held.record.isolation)

    async def _obey_detach(self, order: DetachOrder) -> None:
        async with self._turn:
            held = self._held.get(order.lease_id)
            ours = held is not None and held.record.generation <= order.generation
            done = await self._end(order.lease_id) if ours else await self._leftovers.clear(order.lease_id)
        if done:
            self._report(DetachedReport(lease_id=order.lease_id, generation=order.generation))
        else:
            self._tasks.later(RETRY_SECONDS, self.detach, order)

    async def _obey_quiesce(self, order: QuiesceOrder) -> None:
        held = self._held.get(order.lease_id)
        gone = held is None or held.record.generation > order.generation
        if held is None or gone or await self._quiesced(held.record, order.pid):
            self._report(QuiescedReport(lease_id=order.lease_id, generation=order.generation, pid=order.pid))

    async def calm(self, lease_id: str) -> None:
        """Make it safe to signal the processes of a lease, if it has a holder; bounded."""
        held = self._held.get(lease_id)
        if held is not None:
            await self._quiesced(held.record)

    async def _quiesced(self, record: HolderRecord, pid: int = 0) -> bool:
        """Make it safe to signal a holder's processes; tell whether it is now."""
        try:
            async with asyncio.timeout(QUIESCE_SECONDS):
                await self._hands.do(self._limits.quiesce, record, pid)
        except (GPUPoolError, OSError, TimeoutError) as error:
            logger.warning("It may not be safe yet to signal the processes of %s: %s", record.lease_id, error)
            return False
        return True

    async def _end(self, lease_id: str) -> bool:
        """Detach a holder; if that fails it stays listed."""
        held = self._let_go(lease_id)
        if not await self._detach(held.record):
            self._hold(held.record, held.pidfd)
            return False
        os.close(held.pidfd)
        return True

    async def _detach(self, record: HolderRecord) -> bool:
        """Take limits away; tell whether nothing is left."""
        try:
            try:
                await self._hands.do(self._limits.detach, record)
            except NoSuchDevice as error:
                logger.warning("Lease %s: %s Its record is removed.", record.lease_id, error)
                await self._hands.do(self._limits.forget, record)
        except (GPUPoolError, OSError) as error:
            logger.error(
                "Lease %s cannot be detached from %s", record.lease_id, record.holder, exc_info=error
            )
            return False
        return True

    def _exited(self, lease_id: str) -> None:
        """Tell that a holder's process ended, and why if it was made to; clean up behind it."""
        held = self._let_go(lease_id)
        record, pid = held.record, held.record.holder.pid
        why = f"The agent ended process {pid}: {held.ending}." if held.ending else f"Process {pid} ended."
        self._report(ExitedReport(lease_id=lease_id, generation=record.generation, detail=why))
        os.close(held.pidfd)
        self._leftovers.keep(record)

    def _hold(self, record: HolderRecord, pidfd: int) -> None:
        self._held[record.lease_id] = _Held(record, pidfd)
        self._watch.add(record.lease_id, pidfd)
        self.changed.set()

    def _let_go(self, lease_id: str) -> _Held:
        self._watch.remove(lease_id)
        self.changed.set()
        return self._held.pop(lease_id)
