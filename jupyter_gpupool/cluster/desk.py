"""What an agent does with holders: attach, resize, detach, adopt, and notice that they ended.

Rules of this module: whole operations follow one another, never interleave; a holder is listed from the
moment it is under its limits and on disk; an end that arrives while its holder is being attached wins.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.cluster.attach import refusal
from jupyter_gpupool.cluster.errors import AlreadyAttached, AttachError, LeaseOver
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.holders import HolderRecord
from jupyter_gpupool.cluster.limits import Limits
from jupyter_gpupool.cluster.peer import Peer, find, is_alive
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
    Report,
)

logger = logging.getLogger(__name__)

#: Pause before a detach that failed is tried again, seconds.
RETRY_SECONDS = 2.0


@dataclass(slots=True)
class _Held:
    record: HolderRecord
    pidfd: int
    complaint: str = ""

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
        self._tasks: set[asyncio.Task[None]] = set()
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
        """Take over what an earlier agent attached; of holders that ended meanwhile nothing is left."""
        for record in records:
            pidfd = find(record.holder)
            if pidfd is not None:
                self._hold(record, pidfd)
                logger.info("Adopted process %s of lease %s", record.holder.pid, record.lease_id)
            else:
                await self._detach(record)

    async def attach(self, order: PrepareOrder, peer: Peer) -> AttachReply:
        """Put a process under the limits of its lease; ``peer`` is this desk's from here on."""
        self._attaching[order.lease_id] = False
        try:
            async with self._turn:
                return (await self._attach(order, peer)).reply()
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
        self._spawn(self._obey_apply(order))

    def detach(self, order: DetachOrder) -> None:
        """Take limits away and report it, at once or after what is going on; also when there are none."""
        if order.lease_id in self._attaching:
            self._attaching[order.lease_id] = True
        self._spawn(self._obey_detach(order))

    async def look(self) -> list[LeaseSample]:
        """Look at the process tree of every holder."""
        samples = []
        for lease_id in list(self._held):
            async with self._turn:
                held = self._held.get(lease_id)
                if held is None:
                    continue
                try:
                    samples.append(await self._hands.do(self._limits.watch, held.record))
                except (GPUPoolError, OSError) as error:
                    held.complain(error)
        return samples

    async def close(self) -> None:
        """Finish what was begun, and let go of the holders: they stay attached, and their records on disk."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
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

    async def _attach(self, order: PrepareOrder, peer: Peer) -> HolderRecord:
        older = self._held.get(order.lease_id)
        if older is not None and older.record.generation >= order.generation:
            if older.record.holder != peer.mark or older.record.generation != order.generation:
                raise AlreadyAttached(
                    f"Lease {order.lease_id} has a holder: process {older.record.holder.pid}."
                )
            peer.close()
            return older.record
        if older is not None:
            await self._end(order.lease_id)
        record = await self._hands.do(self._limits.attach, order, peer.mark)
        if self._attaching[order.lease_id]:
            await self._detach(record)
            raise LeaseOver(f"Lease {order.lease_id} ended while it was being attached.")
        self._hold(record, peer.pidfd)
        self._report(
            AttachedReport(
                lease_id=record.lease_id,
                generation=record.generation,
                pid=record.holder.pid,
                isolation=record.isolation,
            )
        )
        return record

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
            done = await self._end(order.lease_id) if ours else True
        if done:
            self._report(DetachedReport(lease_id=order.lease_id, generation=order.generation))
        else:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.detach, order)

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
        """Tell that a holder's process ended, and clean up behind it."""
        held = self._let_go(lease_id)
        record = held.record
        self._report(
            ExitedReport(
                lease_id=lease_id,
                generation=record.generation,
                detail=f"Process {record.holder.pid} ended.",
            )
        )
        self._spawn(self._clean(held))

    async def _clean(self, held: _Held) -> None:
        """Free the children that a holder left behind; what fails is tried again by the next agent."""
        async with self._turn:
            await self._detach(held.record)
        os.close(held.pidfd)

    def _hold(self, record: HolderRecord, pidfd: int) -> None:
        self._held[record.lease_id] = _Held(record, pidfd)
        self._watch.add(record.lease_id, pidfd)
        self.changed.set()

    def _let_go(self, lease_id: str) -> _Held:
        self._watch.remove(lease_id)
        self.changed.set()
        return self._held.pop(lease_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._spent)

    def _spent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("Work on a holder failed", exc_info=task.exception())
