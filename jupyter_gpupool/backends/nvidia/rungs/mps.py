"""CUDA MPS as a rung.

Rules of this module: a holder counts as limited only while its process is in a server's list of clients;
what the server enforces is set at the server too, so that a client can only tighten it; nobody is left
hanging behind another user's server without being told.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps import isolation, limits, words
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.mps.daemons import Daemons
from jupyter_gpupool.backends.nvidia.mps.errors import MPSError
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord, Ledger, Numbers, Use
from jupyter_gpupool.backends.nvidia.mps.looking import Looker, most_clients
from jupyter_gpupool.backends.nvidia.mps.survey import Survey, Surveyor
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.backends.processtree import ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder

logger = logging.getLogger(__name__)

#: The least compute capability with limits in MPS (Volta).
_LEAST_CAPABILITY = (7, 0)
#: How long all calls of one `quiesce` may take together, seconds.
QUIESCE_SECONDS = 1.5
#: How long one of them may take, seconds.
_QUIESCE_CALL_SECONDS = 1.0
_POLL_SECONDS = 0.02
#: Any user that is not root.
_NOBODY = 65534


class MPSRecord(msgspec.Struct, kw_only=True):
    """What `take_away` needs: the rest is in the ledger."""

    uuid: str


class MPSRung(Rung):
    """Caps by CUDA MPS.

    Parameters
    ----------
    control : MPSControl
        The door to the control program.
    runtime : Path
        The runtime directory.
    rules : NodeRules
        What an administrator decided.
    nvml : NVML
        The door to NVML.
    procfs : ProcFS, optional
        Where processes are looked at.
    environment : mapping of str to str, optional
        Where an administrator's directories are named; this process's.
    clock : callable
        Monotonic seconds.
    """

    name = RungName.MPS

    def __init__(
        self,
        control: MPSControl,
        runtime: Path,
        rules: NodeRules,
        nvml: NVML,
        *,
        procfs: ProcFS | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._rules = rules
        procfs = procfs or ProcFS()
        self._clock = clock
        self._looker = Looker(nvml, rules, ProcessWatch(procfs, clock))
        self._ledger = Ledger(runtime)
        self._surveyor = Surveyor(control, procfs, clock)
        self._daemons = Daemons(
            control, self._ledger, self._surveyor, runtime, rules, procfs, environment, clock
        )

    # --- asking -------------------------------------------------------------------------------------

    def impossible(self, gpu: GPU) -> str:
        """Say why MPS is not possible on a device, one clause; empty when it is."""
        if gpu.is_mig or gpu.mig_enabled:
            return "MPS is not used on MIG instances: they are isolated by the hardware"
        if gpu.compute_capability < _LEAST_CAPABILITY:
            version = ".".join(map(str, gpu.compute_capability))
            known = "unknown" if gpu.compute_capability == (0, 0) else version
            return f"limits of MPS need compute capability 7.0 or newer, and this GPU's is {known}"
        if gpu.compute_mode == "prohibited":
            return "the GPU's compute mode is “prohibited”"
        return self._daemons.unusable(gpu)

    def refused(self, site: Site) -> str:
        """Say why MPS is not possible for a holder, one clause; empty when it is."""
        if site.cuda_started:
            return "CUDA has started in the process already, and reads MPS's variables only then"
        self._daemons.tidy()
        record = self._ledger.read(site.gpu.uuid)
        if record is None:
            return self._refused_anew(site)
        if not self._rules.mps_multiuser and (others := record.other_users(site.uid)):
            return words.one_user(site.gpu, others, site.uid)
        survey = self._surveyor.look(record)
        if survey.problem and self._daemons.in_use(record, site.lease_id):
            return f"the MPS daemon of {site.gpu.name} is dead, and other leases still use it"
        return self._looker.refusal(site, survey)

    def _refused_anew(self, site: Site) -> str:
        """Say why a holder cannot use the daemon that would be taken now."""
        place = self._daemons.administrators()
        if place is None:
            # only root's daemon serves other users, and only they pass through to its directory
            return "" if os.getuid() in (0, site.uid) else words.unreachable(site.uid)
        record = DaemonRecord(
            uuid=site.gpu.uuid, pipes=str(place.pipes), logs=str(place.logs), own=False, multiuser=False
        )
        survey = self._surveyor.look(record, fresh_seconds=0.0)
        self._surveyor.forget(site.gpu.uuid)
        return self._looker.refusal(site, survey)

    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what a share would get from MPS."""
        # who will hold it is not known: a user who is not the daemon's, where the agent can be that
        holder = _NOBODY if os.getuid() == 0 else os.getuid()
        standing = isolation.Standing(gpu=gpu, rules=self._rules, daemon_uid=os.getuid(), holder_uid=holder)
        return isolation.pending(isolation.numbers_of(share), standing)

    def most_leases(self, gpu: GPU) -> int:
        """Return how many leases one server can carry: each has at least one client."""
        return most_clients(gpu.driver)

    def one_owner(self, gpu: GPU) -> bool:
        """Say whether leases of only one user can be on a device at a time."""
        return not self._rules.mps_multiuser

    # --- doing --------------------------------------------------------------------------------------

    def intent(self, site: Site) -> msgspec.Raw:
        """Return a record that undoes whatever `put` may have begun."""
        return _dump(site)

    def put(self, site: Site) -> Put:
        """Give the holder the environment of a daemon, and the daemon's servers their limits."""
        numbers = isolation.numbers_of(site.share)
        with self._ledger.locked(site.gpu.uuid):
            record = self._daemons.ensure(site.gpu, site.uid, site.lease_id)
            if not record.multiuser and (others := record.other_users(site.uid)):
                raise MPSError(f"{words.one_user(site.gpu, others, site.uid)}.")
            record.leases[site.lease_id] = Use(uid=site.uid, holder=site.holder, numbers=numbers)
            try:
                reason = self._apply(record)
            except BaseException:
                self._drop(record, site.lease_id)
                raise
        return self._told(site, record, numbers, [words.only_environment(reason)] if reason else [])

    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        """Look whether the holder is a client of a server, and with which limits."""
        with self._ledger.locked(site.gpu.uuid):
            daemon = self._ledger.read(site.gpu.uuid)
            use = None if daemon is None else daemon.leases.get(site.lease_id)
            if daemon is None or use is None:
                return isolation.nothing(
                    f"MPS of {site.gpu.name} does not know this lease. Restart the kernel."
                )
            survey = self._surveyor.look(daemon)
            self._note_started(site, daemon, use, survey)
            return self._looker.docs(site, daemon, use, survey)

    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        """Set other limits for clients that come from now on; those that run keep theirs."""
        numbers = isolation.numbers_of(site.share)
        with self._ledger.locked(site.gpu.uuid):
            daemon = self._ledger.read(site.gpu.uuid)
            use = None if daemon is None else daemon.leases.get(site.lease_id)
            if daemon is None or use is None:
                raise MPSError(f"MPS of {site.gpu.name} does not know {site.lease_id}.", hint=words.RESTART)
            survey = self._surveyor.look(daemon, fresh_seconds=0.0)
            if survey.problem:
                raise MPSError(words.no_daemon(site.gpu, survey.problem))
            notices = []
            if self._note_started(site, daemon, use, survey):
                notices.append(words.resized(use.started or use.numbers, numbers))
            before, use.numbers = use.numbers, numbers
            try:
                reason = self._apply(daemon)
            except BaseException:
                use.numbers = before
                self._apply(daemon)
                raise
        return self._told(
            site, daemon, numbers, notices + ([words.only_environment(reason)] if reason else [])
        )

    def quiesce(self, site: Site, record: msgspec.Raw, pids: list[int]) -> None:
        """Take the processes' work off the device: a client that is killed at work takes others along."""
        daemon = self._ledger.read(site.gpu.uuid)
        if daemon is None or site.lease_id not in daemon.leases:
            return
        control, pipes = self._control.within(_QUIESCE_CALL_SECONDS), daemon.place.pipes
        deadline = self._clock() + QUIESCE_SECONDS
        try:
            for server in control.servers(pipes):
                for pid in set(pids).intersection(control.clients(pipes, server)):
                    if self._clock() < deadline:
                        control.terminate(pipes, server, pid)
                while set(pids).intersection(control.clients(pipes, server)) and self._clock() < deadline:
                    time.sleep(_POLL_SECONDS)
        except MPSError as error:  # whoever wants to end the holder does so all the same
            logger.warning("Lease %s: MPS is not asked before its end: %s", site.lease_id, error)
        self._surveyor.forget(site.gpu.uuid)

    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        """Drop a lease from its daemon, which ends with the last one; idempotent."""
        try:
            uuid = msgspec.json.decode(record, type=MPSRecord).uuid
        except msgspec.DecodeError as error:
            raise BackendError(f"The record of {lease_id} is not one of MPS: {error}.") from error
        with self._ledger.locked(uuid):
            daemon = self._ledger.read(uuid)
            if daemon is not None:
                self._drop(daemon, lease_id)
        self._daemons.tidy()

    def tidy(self) -> None:
        """End daemons of ours that neither leases nor processes use any more; cheap when there are none."""
        self._daemons.tidy()

    # --- parts --------------------------------------------------------------------------------------

    def _apply(self, daemon: DaemonRecord) -> str:
        """Write a daemon down and set its servers' limits; say why they do not hold."""
        self._ledger.write(daemon)
        reason = limits.apply(self._control, daemon)
        self._surveyor.forget(daemon.uuid)
        if reason and not self._daemons.answers(daemon):
            raise MPSError(f"MPS does not answer any more: {reason}", hint=words.RESTART)
        if reason:
            logger.warning("MPS in %s: %s", daemon.pipes, reason)
        return reason

    def _drop(self, daemon: DaemonRecord, lease_id: str) -> None:
        """Take a lease off a daemon; what holds for the others is tightened to what they need."""
        if daemon.leases.pop(lease_id, None) is not None:
            self._ledger.write(daemon)
            if daemon.leases and (reason := limits.apply(self._control, daemon)):
                logger.warning("MPS in %s: %s", daemon.pipes, reason)
        self._surveyor.forget(daemon.uuid)
        self._daemons.let_go(daemon)

    def _told(self, site: Site, daemon: DaemonRecord, numbers: Numbers, notices: list[str]) -> Put:
        """Return what the holder has to know of its daemon."""
        found = {
            "CUDA_MPS_PIPE_DIRECTORY": daemon.pipes,
            "CUDA_MPS_LOG_DIRECTORY": daemon.logs,
            **isolation.environment(site.gpu.uuid, numbers),
        }
        return Put(record=_dump(site), environment=found, notices=notices)

    def _note_started(self, site: Site, daemon: DaemonRecord, use: Use, survey: Survey) -> bool:
        """Write down with which numbers CUDA started in a holder, once; say whether it has started."""
        pids = self._looker.pids(site.holder, daemon)
        if use.started is None and survey.server_of(pids) is not None:
            use.started = use.numbers
            self._ledger.write(daemon)
        return use.started is not None


def _dump(site: Site) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(MPSRecord(uuid=site.gpu.uuid)))
