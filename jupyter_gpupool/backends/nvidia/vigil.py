"""Watching the holders of GPUs: the proof at the first CUDA context, the use of memory, what is told.

Rules of this module: limits are looked at again whenever other processes of the holder compute; what is
remembered only spares looking, and is rebuilt after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_gpupool.backends.base import Attachment, Demand, ProcessMark
from jupyter_gpupool.backends.nvidia import ladder, watchdog
from jupyter_gpupool.backends.nvidia.climb import Climber
from jupyter_gpupool.backends.nvidia.presence import Presence, Use
from jupyter_gpupool.backends.nvidia.rungs.base import Site
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.nvidia.undo import NvidiaUndo, dump_undo
from jupyter_gpupool.backends.nvidia.watchdog import Verdict, WatchState
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import LeaseSample

#: How often limits are looked at again when nothing moves, seconds.
LOOK_SECONDS = 30.0


@dataclass(slots=True)
class _Seen:
    """What is remembered of one lease."""

    computing: frozenset[int] = frozenset()
    looked_at: float | None = None
    state: WatchState = field(default_factory=WatchState)
    demand: Demand | None = None


class Vigil:
    """Watches holders.

    Parameters
    ----------
    climber : Climber
        The node's rungs.
    presence : Presence
        Finds processes.
    sampler : DeviceSampler
        Knows how busy they keep the device.
    rules : NodeRules
        When to warn, and what to do.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        climber: Climber,
        presence: Presence,
        sampler: DeviceSampler,
        rules: NodeRules,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._climber = climber
        self._presence = presence
        self._sampler = sampler
        self._rules = rules
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def watch(self, attachment: Attachment, undo: NvidiaUndo, site: Site) -> LeaseSample:
        """Look at a holder; its attachment is brought up to date.

        Replaces ``attachment.isolation`` when what is in force changed, and ``attachment.undo`` when
        processes came or went: write the record again then.
        """
        tree = self._presence.tree(site.lease_id, site.holder, undo.known)
        use = self._presence.use(site.lease_id, site.gpu, tree)
        seen = self._seen.setdefault(site.lease_id, _Seen())
        self._look_again(seen, attachment, undo, site, use)
        self._remember(attachment, undo, site.holder, tree, use)
        verdict = self._judge(seen, attachment, use, site)
        seen.state = verdict.state
        seen.demand = verdict.demand or seen.demand
        notices = [*attachment.notices, verdict.notice, *_strays(use, site), *_failures(attachment.isolation)]
        return LeaseSample(
            lease_id=site.lease_id,
            memory_used_bytes=use.memory_bytes if tree else None,
            processes=len(tree),
            utilization_percent=self._utilization(site, use),
            notices=[notice for notice in notices if notice],
        )

    def demand(self, lease_id: str) -> Demand | None:
        """Return what has to be done to a holder, once."""
        seen = self._seen.get(lease_id)
        if seen is None:
            return None
        demand, seen.demand = seen.demand, None
        return demand

    def forget(self, lease_id: str) -> None:
        """Forget a lease."""
        self._seen.pop(lease_id, None)

    def _look_again(
        self, seen: _Seen, attachment: Attachment, undo: NvidiaUndo, site: Site, use: Use
    ) -> None:
        """Look at what is in force where other processes compute than the last time, or it is due."""
        now, computing = self._clock(), frozenset(process.pid for process in use.here)
        pending = any(doc.verified is Verified.PENDING for doc in attachment.isolation)
        moved = computing != seen.computing or (pending and bool(computing or use.elsewhere))
        if moved or seen.looked_at is None or now - seen.looked_at >= LOOK_SECONDS:
            attachment.isolation = kept(attachment.isolation, self._climber.look(undo, site))
            seen.computing, seen.looked_at = computing, now

    def _judge(self, seen: _Seen, attachment: Attachment, use: Use, site: Site) -> Verdict:
        """Judge the use of memory, and whether the node's requirements still hold."""
        rules, now = self._rules, self._clock()
        if use.here and (why := ladder.unmet(attachment.isolation, ours(rules.require_isolation))):
            return watchdog.breach(seen.state, why.rstrip("."), now, rules, "restart the kernel")
        alone = undivided(site)  # nobody suffers when it takes all of the device
        share = site.gpu.memory_bytes if alone else site.share.memory_bytes
        return watchdog.step(seen.state, use.memory_bytes, share, now, rules, site.gpu.name)

    @staticmethod
    def _remember(
        attachment: Attachment,
        undo: NvidiaUndo,
        holder: ProcessMark,
        tree: Sequence[ProcessMark],
        use: Use,
    ) -> None:
        """Note the processes that compute, so that they stay the holder's when their parents die."""
        computing = {process.pid for process in use.here}
        known = [mark for mark in tree if mark != holder and (mark.pid in computing or mark in undo.known)]
        if known != undo.known:
            undo.known = known
            attachment.undo = dump_undo(undo)

    def _utilization(self, site: Site, use: Use) -> float | None:
        """Return how busy the holder keeps the device, percent of all of it."""
        sample = self._sampler.latest().by_uuid.get(site.gpu.uuid)
        if sample is None:
            return None
        if undivided(site):
            return sample.readings.utilization_percent
        if not sample.per_process_utilization:
            return None
        return sum(sample.per_process_utilization.get(process.pid, 0.0) for process in use.here)


def undivided(site: Site) -> bool:
    """Say whether nobody else's lease is on the device."""
    return site.gpu.is_mig or site.share.compute_milli == WHOLE_MILLI


def ours(
    required: Sequence[tuple[Resource, Strength]],
) -> list[tuple[Resource, Strength]]:
    """Return what of a node's requirements is about the device; the rest is about its host."""
    return [each for each in required if each[0] in {Resource.MEMORY, Resource.COMPUTE}]


def kept(before: Sequence[IsolationDoc], now: Sequence[IsolationDoc]) -> list[IsolationDoc]:
    """Return what is in force; limits on the host, which others put there, stay listed."""
    mine = {doc.resource for doc in now}
    return [*now, *(doc for doc in before if doc.resource not in mine)]


def _strays(use: Use, site: Site) -> list[str]:
    """Tell that a holder computes on devices that are not its own."""
    return [
        f"Process {pids[0]} computes on {name}, which is not in this lease: use {site.gpu.name}."
        for name, pids in use.elsewhere.items()
    ]


def _failures(docs: Sequence[IsolationDoc]) -> list[str]:
    """Tell that a proof failed."""
    return [
        f"The limit of {doc.resource.value} is not in force ({doc.mechanism}): {doc.note}"
        for doc in docs
        if doc.strength is Strength.NONE and doc.limit != "none" and doc.note
    ]
