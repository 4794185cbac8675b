"""The backend of NVIDIA GPUs and MIG instances.

Rules of this module: devices and their use come from the sampler; the rungs of a lease are chosen by
`ladder`, put together or not at all, and looked at again at the holder's first CUDA context. What it
remembers between calls only makes it faster or fairer: an attachment's record is enough to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import (
    Attachment,
    Backend,
    Demand,
    LimitNotInForce,
    Note,
    ProcessMark,
    no_note,
)
from jupyter_gpupool.backends.cpu_refusals import check_share, refuse_foreign
from jupyter_gpupool.backends.nvidia import cuda_started, ladder
from jupyter_gpupool.backends.nvidia.census import Census
from jupyter_gpupool.backends.nvidia.climb import Climber, merged
from jupyter_gpupool.backends.nvidia.cuda_started import Started
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Mode, Plan
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.prober import Prober
from jupyter_gpupool.backends.nvidia.refusals import refuse_frameworks, refuse_larger, refuse_part
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler
from jupyter_gpupool.backends.nvidia.undo import NvidiaUndo, begin, dump_undo, load_undo
from jupyter_gpupool.backends.nvidia.unified import UNIFIED_NOTICE
from jupyter_gpupool.backends.nvidia.unmanaged import Strangers
from jupyter_gpupool.backends.nvidia.vigil import Vigil, ours
from jupyter_gpupool.backends.probebook import ProbeBook
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample, LeaseSample, ShareOrder
from jupyter_gpupool.protocol.names import ENV_LEASE


class NvidiaBackend(Backend):
    """The NVIDIA GPUs of this machine.

    Parameters
    ----------
    nvml : NVML
        The door.
    sampler : DeviceSampler
        Looks at the devices.
    presence : Presence
        Finds holders' processes on devices; the rungs have the same one.
    rungs : sequence of Rung
        The mechanisms that this node has.
    rules : NodeRules
        What an administrator decided.
    probes : ProbeBook, optional
        What exceeding limits has shown.
    probe_folder : Path, optional
        Where a probe that runs is written down; without it nothing is probed.
    procfs : ProcFS, optional
        Where processes are looked at.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        nvml: NVML,
        sampler: DeviceSampler,
        presence: Presence,
        rungs: Sequence[Rung],
        rules: NodeRules | None = None,
        *,
        probes: ProbeBook | None = None,
        probe_folder: Path | None = None,
        procfs: ProcFS | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules = rules or NodeRules()
        self._procfs = procfs = procfs or ProcFS()
        self._presence = presence
        self._climber = Climber(rungs, probes, clock)
        strangers = Strangers(rules, procfs, clock)
        self._census = Census(nvml, sampler, self._climber, presence, strangers, rules)
        self._vigil = Vigil(self._climber, presence, sampler, rules, clock)
        self._prober: Prober | None = None
        if probes is not None and probe_folder is not None:
            self._prober = Prober(
                probes, rungs, gpu=self._census.find, busy=self._census.busy, folder=probe_folder
            )
            self._census.own_pids = self._prober.pids

    # --- devices ------------------------------------------------------------------------------------

    def discover(self) -> list[DeviceReport]:
        """Report the devices; a GPU in MIG mode is none, its instances are."""
        return self._census.devices()

    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        """Read all GPUs, and find who uses them without a lease."""
        self._climber.tidy()
        return self._census.sample(leases)

    def close(self) -> None:
        """Stop looking at the devices, and what is being probed."""
        if self._prober is not None:
            self._prober.close()
        self._climber.tidy()
        self._census.close()

    def prove(self, device_ids: Collection[str]) -> None:
        """Have limits exceeded in children on idle devices; see `Prober`."""
        if self._prober is not None:
            self._prober.prove([each for each in device_ids if self._census.find(each) is not None])

    def admit(self, share: ShareOrder, frameworks: Mapping[str, str]) -> None:
        """Refuse a kernel whose frameworks may not time-slice this model."""
        gpu = self._census.gpu(share.device_id)
        if share.compute_milli < WHOLE_MILLI and self._census.mode(gpu) is Mode.TIMESLICE:
            refuse_frameworks(gpu, self._rules.rule_for(gpu.model), frameworks)

    # --- what it knows, for `selftest` --------------------------------------------------------------

    def problem(self) -> str:
        """Return why there are no GPUs, one clause; empty when there are any."""
        return self._census.problem()

    def gpu(self, device_id: str) -> GPU:
        """Return a device.

        Raises
        ------
        BackendError
            If there is none with this id.
        """
        return self._census.gpu(device_id)

    @property
    def rungs(self) -> Mapping[RungName, Rung]:
        """The mechanisms that this node has."""
        return self._climber.rungs

    def reasons(self, device_id: str) -> Mapping[RungName, str]:
        """Return why each rung is not possible on a device, one clause; empty when it is."""
        return self._climber.device(self._census.gpu(device_id)).reasons

    # --- attach -------------------------------------------------------------------------------------

    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        """Put a running process tree under a share; see `Backend.attach`."""
        gpu = self._census.gpu(share.device_id)
        check_share(lease_id, share, gpu.uuid)
        uid = refuse_foreign(self._procfs, holder)
        self._presence.note(lease_id, holder, gpu.uuid)
        if self._prober is not None:
            self._prober.make_room(gpu.uuid)
        try:
            return self._attach(lease_id, gpu, share, holder, uid, note)
        except BaseException:
            self._presence.forget(lease_id)
            raise

    def _attach(
        self, lease_id: str, gpu: GPU, share: ShareOrder, holder: ProcessMark, uid: int, note: Note
    ) -> Attachment:
        tree = self._presence.tree(lease_id, holder, fresh=True)
        use = self._presence.use(lease_id, gpu, tree, live=True)
        started = cuda_started.look(holder, tree, gpu, use, self._procfs.root)
        refuse_larger(use, share, gpu)
        site = Site(
            lease_id=lease_id, gpu=gpu, share=share, holder=holder, uid=uid, cuda_started=bool(started)
        )
        undo = begin(self._plan(site), uid, started.pid)
        self._climber.intend(undo, site)
        made = self._attachment(site, undo, self._climber.promise(undo.plan, gpu, share))
        note(made)
        puts = self._climber.put(undo, site)
        try:
            docs = self._climber.look(undo, site)
            self._require(docs)
        except BaseException:
            self._climber.take_back(undo, lease_id)
            raise
        return self._attachment(site, undo, docs, merged(puts), started)

    def _plan(self, site: Site, kept: Sequence[RungName] = ()) -> Plan:
        """Choose the rungs of a holder."""
        mode = self._census.mode(site.gpu)
        sharing = self._rules.rule_for(site.gpu.model).sharing
        able = self._climber.holder(site, kept)
        return ladder.choose(able, sharing, whole=site.share.compute_milli >= WHOLE_MILLI, mode=mode)

    def _require(self, docs: Sequence[IsolationDoc]) -> None:
        if why := ladder.unmet(docs, ours(self._rules.require_isolation)):
            raise LimitNotInForce(
                why, hint="Request another device, or ask an administrator (PoolAgent.require_isolation)."
            )

    def _attachment(
        self,
        site: Site,
        undo: NvidiaUndo,
        docs: list[IsolationDoc],
        put: Put | None = None,
        started: Started | None = None,
    ) -> Attachment:
        """Write down what is in force."""
        put = put or Put()
        notices = [*put.notices, *([UNIFIED_NOTICE] if site.gpu.unified else [])]
        if started:
            mps = undo.mode is Mode.MPS and undo.compute is not RungName.MPS
            notices.insert(0, started.notice(site.gpu, mps=mps))
        return Attachment(
            lease_id=site.lease_id,
            share=site.share,
            holder=site.holder,
            isolation=docs,
            environment={
                ENV_LEASE: site.lease_id,
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": site.gpu.uuid,
                **put.environment,
            },
            threads=None,
            undo=dump_undo(undo),
            caps=put.caps,
            notices=notices,
        )

    # --- while it is held ---------------------------------------------------------------------------

    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        """Put another share in force; see `Backend.resize`."""
        undo, before = self._opened(attachment)
        check_share(attachment.lease_id, share, before.gpu.uuid)
        refuse_foreign(self._procfs, attachment.holder)
        refuse_part(before.gpu, share, whole_only=undo.mode.whole_only)
        tree = self._presence.tree(before.lease_id, before.holder, undo.known, fresh=True)
        use = self._presence.use(before.lease_id, before.gpu, tree, live=True)
        refuse_larger(use, share, before.gpu)
        site = replace(before, share=share, cuda_started=before.cuda_started or bool(use.here))
        plan = self._plan(site, kept=tuple(undo.rungs))
        puts = self._climber.resize(undo, before, site, plan)
        made = self._attachment(site, undo, self._climber.look(undo, site), merged(puts))
        made.environment = {**attachment.environment, **made.environment}
        made.notices = list(dict.fromkeys([*attachment.notices, *made.notices]))
        self._vigil.forget(site.lease_id)
        return made

    def watch(self, attachment: Attachment) -> LeaseSample:
        """Look at a holder; see `Vigil.watch`."""
        undo, site = self._opened(attachment)
        return self._vigil.watch(attachment, undo, site)

    def demand(self, attachment: Attachment) -> Demand | None:
        """Return what has to be done to a holder that goes on exceeding its share."""
        return self._vigil.demand(attachment.lease_id)

    def quiesce(self, attachment: Attachment, pid: int = 0) -> None:
        """Make it safe to signal the holder's processes; with ``pid`` that one of them and its children."""
        undo, site = self._opened(attachment)
        tree = self._presence.tree(site.lease_id, site.holder, undo.known, fresh=True)
        if pid:
            table = self._presence.table(site.holder)
            tree = [mark for mark in tree if pid in (mark.pid, *table.ancestors(mark.pid))]
            if not tree:
                return  # none of this lease's: there is nothing that could be harmed
        use = self._presence.use(site.lease_id, site.gpu, tree)
        self._climber.quiesce(undo, site, [process.pid for process in use.here] or [m.pid for m in tree])

    def detach(self, attachment: Attachment) -> None:
        """Undo everything; see `Backend.detach`."""
        self._climber.take_away(load_undo(attachment), attachment.lease_id)
        self._presence.forget(attachment.lease_id)
        self._vigil.forget(attachment.lease_id)

    def _opened(self, attachment: Attachment) -> tuple[NvidiaUndo, Site]:
        """Read an attachment's record, and remember it for the sake of the others."""
        undo = load_undo(attachment)
        self._presence.note(attachment.lease_id, attachment.holder, attachment.share.device_id)
        return undo, Site(
            lease_id=attachment.lease_id,
            gpu=self._census.gpu(attachment.share.device_id),
            share=attachment.share,
            holder=attachment.holder,
            uid=undo.uid,
            cuda_started=undo.started_pid > 0,
        )
