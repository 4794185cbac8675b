"""Putting the rungs of a plan in force, together or not at all.

Rules of this module: a rung is asked before it is used; what was begun and failed is undone in reverse; what
cannot be undone is tried to the end, and then told.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.nvidia import ladder
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Capabilities, Plan
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.backends.nvidia.undo import NvidiaUndo
from jupyter_gpupool.backends.nvidia.unified import UNIFIED_NOTICE
from jupyter_gpupool.backends.probebook import ProbeBook, judged
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder

logger = logging.getLogger(__name__)

#: For how long an answer about a device holds, seconds: asking may take a call to a daemon.
_ASK_SECONDS = 5.0


class Climber:
    """The rungs of one node.

    Parameters
    ----------
    rungs : sequence of Rung
        Those that this node has.
    probes : ProbeBook, optional
        What exceeding limits has shown.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        rungs: Sequence[Rung],
        probes: ProbeBook | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rungs = {rung.name: rung for rung in rungs}
        self._probes = probes
        self._clock = clock
        self._asked: dict[tuple[RungName, str], tuple[float, str]] = {}

    # --- asking -------------------------------------------------------------------------------------

    def device(self, gpu: GPU) -> Capabilities:
        """Ask each rung about a device."""
        return Capabilities(
            gpu=gpu, reasons={name: self._impossible(rung, gpu) for name, rung in self._all()}
        )

    def holder(self, site: Site, kept: Sequence[RungName] = ()) -> Capabilities:
        """Ask each rung about a device and a holder; those in ``kept`` are in force already."""
        reasons = {}
        for name, rung in self._all():
            reasons[name] = "" if name in kept else self._impossible(rung, site.gpu) or rung.refused(site)
        return Capabilities(gpu=site.gpu, reasons=reasons)

    def promise(self, plan: Plan, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what a share would get."""
        docs = ladder.combine(plan, {name: self.rungs[name].promise(gpu, share) for name in plan.rungs})
        return [_of_system_memory(gpu, doc) for doc in docs]

    def most_leases(self, plan: Plan, gpu: GPU) -> int | None:
        """Return how many leases the plan lets a device carry; None for any number."""
        found = [most for name in plan.rungs if (most := self.rungs[name].most_leases(gpu)) is not None]
        return min(found, default=None)

    def _all(self) -> list[tuple[RungName, Rung]]:
        return list(self.rungs.items())

    def _impossible(self, rung: Rung, gpu: GPU) -> str:
        now, key = self._clock(), (rung.name, gpu.uuid)
        at, answer = self._asked.get(key, (0.0, None))
        if answer is None or now - at > _ASK_SECONDS:
            answer = rung.impossible(gpu)
            self._asked[key] = (now, answer)
        return answer

    # --- doing --------------------------------------------------------------------------------------

    def intend(self, undo: NvidiaUndo, site: Site) -> None:
        """Write into the record how whatever comes next is undone."""
        for name in undo.plan.rungs:
            if name not in undo.rungs:
                undo.rungs[name] = self.rungs[name].intent(site)

    def put(self, undo: NvidiaUndo, site: Site) -> list[Put]:
        """Put all rungs of the record's plan in force, or none."""
        puts = []
        try:
            for name in undo.plan.rungs:
                made = self.rungs[name].put(site)
                undo.rungs[name] = made.record
                puts.append(made)
        except BaseException:
            self.take_back(undo, site.lease_id)
            raise
        return puts

    def look(self, undo: NvidiaUndo, site: Site) -> list[IsolationDoc]:
        """Look at what is in force."""
        plan = undo.plan
        docs = {name: self.rungs[name].look(site, undo.rungs[name]) for name in plan.rungs}
        combined = [_of_system_memory(site.gpu, doc) for doc in ladder.combine(plan, docs)]
        return [self._judged(plan, site.gpu, doc) for doc in combined]

    def resize(self, undo: NvidiaUndo, before: Site, site: Site, plan: Plan) -> list[Put]:
        """Put another share in force; on any error the old one holds.

        Rungs that the new plan has not any more are taken away at the end, when nothing can fail.
        """
        puts: list[Put] = []
        done: list[RungName] = []
        try:
            for name in plan.rungs:
                rung = self.rungs[name]
                fresh = name not in undo.rungs
                made = rung.put(site) if fresh else rung.resize(site, undo.rungs[name])
                undo.rungs[name] = made.record
                done.append(name)
                puts.append(made)
        except BaseException:
            self._put_back(undo, before, done)
            raise
        for name in [name for name in undo.rungs if name not in plan.rungs]:
            self.rungs[name].take_away(site.lease_id, undo.rungs.pop(name))
        undo.follow(plan)
        return puts

    def take_away(self, undo: NvidiaUndo, lease_id: str) -> None:
        """Undo everything, in reverse.

        Raises
        ------
        BackendError
            If something of it could not be undone; the rest was.
        """
        failed: BackendError | None = None
        for name, record in reversed(undo.rungs.items()):
            rung = self.rungs.get(name)
            if rung is None:
                failed = BackendError(
                    f"Lease {lease_id}: this agent has no {name.value} rung to undo it with."
                )
                continue
            try:
                rung.take_away(lease_id, record)
            except BackendError as error:
                logger.warning("Lease %s: %s is not undone: %s", lease_id, ladder.TITLES[name], error)
                failed = error
        if failed is not None:
            raise failed

    def quiesce(self, undo: NvidiaUndo, site: Site, pids: list[int]) -> None:
        """Make it safe to signal the holder's processes."""
        for name, record in undo.rungs.items():
            if name in self.rungs:
                self.rungs[name].quiesce(site, record, pids)

    def tidy(self) -> None:
        """End what nobody uses any more."""
        for rung in self.rungs.values():
            try:
                rung.tidy()
            except BackendError as error:
                logger.warning("%s is not tidied up: %s", ladder.TITLES[rung.name], error)

    def _put_back(self, undo: NvidiaUndo, before: Site, done: Sequence[RungName]) -> None:
        """Put the old share in force again where the new one is already."""
        was = undo.plan.rungs
        for name in reversed(done):
            try:
                if name in was:
                    undo.rungs[name] = self.rungs[name].resize(before, undo.rungs[name]).record
                else:
                    self.rungs[name].take_away(before.lease_id, undo.rungs.pop(name))
            except BackendError as error:
                logger.error("Lease %s: %s cannot be put back: %s", before.lease_id, name.value, error)

    def take_back(self, undo: NvidiaUndo, lease_id: str) -> None:
        """Undo what was begun and failed; what cannot be undone is logged, so that the failure is told."""
        try:
            self.take_away(undo, lease_id)
        except BackendError as error:
            logger.error("Lease %s: what was begun cannot be undone: %s", lease_id, error)

    def _judged(self, plan: Plan, gpu: GPU, doc: IsolationDoc) -> IsolationDoc:
        """Weigh what a lease says with what was proved on its device."""
        name = plan.answers().get(doc.resource)
        if self._probes is None or name is None or doc.resource not in {Resource.MEMORY, Resource.COMPUTE}:
            return doc
        return judged(doc, self._probes.result(gpu.uuid, gpu.driver, name.value))


def _of_system_memory(gpu: GPU, doc: IsolationDoc) -> IsolationDoc:
    """Say of a device without a memory of its own whose memory it is."""
    if not gpu.unified or doc.resource is not Resource.MEMORY:
        return doc
    return msgspec.structs.replace(doc, note=f"{doc.note} {UNIFIED_NOTICE}".strip())


def merged(puts: Sequence[Put]) -> Put:
    """Return what all rungs together tell the holder."""
    whole = Put()
    for put in puts:
        whole.environment.update(put.environment)
        whole.caps.extend(put.caps)
        whole.notices.extend(put.notices)
    whole.record = msgspec.Raw(b"{}")
    return whole
