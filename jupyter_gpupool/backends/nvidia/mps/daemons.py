"""The MPS daemon of each GPU: an administrator's, or our own for as long as leases use it.

Rules of this module: one daemon of ours for each GPU, because a server over several refuses new clients on
all of them after a fault on one, and serves one user on all of them at a time; what we start is written down
first and ended when nobody uses it any more; an administrator's daemon is never ended, and gets its limits
back. Whoever calls holds the ledger's lock of the GPU.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps import limits, places, remains
from jupyter_gpupool.backends.nvidia.mps.answers import MIB
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.mps.errors import MPSError, MPSUnreachable
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord, Ledger
from jupyter_gpupool.backends.nvidia.mps.survey import Surveyor
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.errors import GPUPoolError

logger = logging.getLogger(__name__)

#: How long a daemon that ends waits for its clients, seconds: there are none when we end it.
_QUIT_SECONDS = 1
#: How long killed processes may take to go, seconds.
_GONE_SECONDS = 2.0
#: After how long a daemon that did not start is tried again, seconds.
_TRY_AGAIN_SECONDS = 60.0
#: Open files that NVIDIA wants a daemon to be allowed.
_OPEN_FILES = 16384
#: Name under which a daemon is tried when none is needed yet.
_TRIAL = "trial"


class Daemons:
    """All daemons that leases of this node use.

    Parameters
    ----------
    control : MPSControl
        The door.
    ledger : Ledger
        Who uses which.
    surveyor : Surveyor
        Who looks at them.
    runtime : Path
        The runtime directory.
    rules : NodeRules
        Whether one server is for all users.
    procfs : ProcFS
        Where processes are looked at.
    environment : mapping of str to str, optional
        Where an administrator's directories are named; this process's.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        control: MPSControl,
        ledger: Ledger,
        surveyor: Surveyor,
        runtime: Path,
        rules: NodeRules,
        procfs: ProcFS,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._ledger = ledger
        self._surveyor = surveyor
        self._runtime = runtime
        self._rules = rules
        self._procfs = procfs
        self._environment = os.environ if environment is None else environment
        self._clock = clock
        self._tried: tuple[float, str] | None = None
        self._told: set[Path] = set()

    # --- asking -------------------------------------------------------------------------------------

    def unusable(self, gpu: GPU) -> str:
        """Say why no daemon can be had for a GPU, one clause; empty when one can.

        The first time, one is started and ended again: CUDA says nothing when it runs without MPS.
        """
        if reason := self._control.missing():
            return reason
        place = places.administrators(self._environment)
        if place is not None and gpu.compute_mode == "exclusive_process" and self.administrators() is None:
            return f"the MPS daemon in {place.pipes} has this GPU for itself and takes no commands from us"
        if self._tried is not None:
            at, reason = self._tried
            if not reason or self._clock() - at < _TRY_AGAIN_SECONDS:
                return reason
        reason = ""
        if self.administrators() is None and not self._ledger.all():
            reason = self._try()
        self._tried = (self._clock(), reason)
        return reason

    def administrators(self) -> places.Place | None:
        """Return where an administrator's daemon lies, if one answers."""
        place = places.administrators(self._environment)
        if place is None:
            return None
        try:
            self._control.servers(place.pipes)
        except MPSError as error:
            if place.pipes not in self._told:
                self._told.add(place.pipes)
                logger.warning("An MPS daemon in %s is passed over: %s", place.pipes, error)
            return None
        return place

    def answers(self, record: DaemonRecord) -> bool:
        """Say whether a daemon answers now."""
        try:
            self._control.servers(record.place.pipes)
        except MPSError:
            return False
        return True

    def in_use(self, record: DaemonRecord, lease_id: str = "") -> list[str]:
        """List the leases on a daemon, other than one, whose holders live."""
        return [
            other
            for other, use in record.leases.items()
            if other != lease_id and self._procfs.alive(use.holder)
        ]

    def clients(self, record: DaemonRecord) -> list[int]:
        """List the living clients of a daemon."""
        survey = self._surveyor.look(record, fresh_seconds=0.0)
        return [
            pid
            for server in survey.servers
            for pid in server.clients
            if remains.mark_of(self._procfs, pid) is not None
        ]

    # --- having one ---------------------------------------------------------------------------------

    def ensure(self, gpu: GPU, uid: int, lease_id: str) -> DaemonRecord:
        """Return a GPU's daemon that answers: the one that leases use, an administrator's, or a new one.

        Raises
        ------
        MPSUnreachable
            If the one that living holders use is dead, or none starts.
        """
        others = self._rules.mps_multiuser or uid != os.getuid()
        record = self._ledger.read(gpu.uuid)
        if record is not None:
            idle = not record.leases and record.own and record.open_to_others != others
            if not idle and self.answers(record):
                return record
            self._refuse_to_end(record, gpu, lease_id, idle=idle)
            self.end(record)
        place = self.administrators()
        if place is not None:
            return self._adopt(gpu, place)
        return self._start(gpu.uuid, gpu.memory_bytes // MIB, open_to_others=others)

    def _refuse_to_end(self, record: DaemonRecord, gpu: GPU, lease_id: str, *, idle: bool) -> None:
        """Raise if ending a daemon would take somebody's work."""
        if idle and (pids := self.clients(record)):
            raise MPSUnreachable(
                f"MPS of {gpu.name} is still used by process {pids[0]}, whose lease is over.",
                hint="End that process, or restart its kernel.",
            )
        if users := self.in_use(record, lease_id):
            raise MPSUnreachable(
                f"The MPS daemon of {gpu.name} is dead, and {', '.join(users)} still use it.",
                hint="Restart those kernels, or release their leases.",
            )

    def _adopt(self, gpu: GPU, place: places.Place) -> DaemonRecord:
        """Write an administrator's daemon down, with the limits that it gets back."""
        record = DaemonRecord(
            uuid=gpu.uuid,
            pipes=str(place.pipes),
            logs=str(place.logs),
            own=False,
            multiuser=self._rules.mps_multiuser,
            open_to_others=True,
            whole_mib=gpu.memory_bytes // MIB,
        )
        with contextlib.suppress(MPSError):  # then we do not set them either
            before = self._control.next_limits(place.pipes, gpu.uuid)
            record.before_percentage, record.before_memory_mib = before
        self._ledger.write(record)
        return record

    def _start(self, uuid: str, whole_mib: int, *, open_to_others: bool) -> DaemonRecord:
        """Start a daemon of our own, written down before anything else is done."""
        place = places.own_place(self._runtime, uuid, open_to_others=open_to_others)
        record = DaemonRecord(
            uuid=uuid,
            pipes=str(place.pipes),
            logs=str(place.logs),
            own=True,
            multiuser=self._rules.mps_multiuser,
            open_to_others=open_to_others,
            whole_mib=whole_mib,
        )
        self._ledger.write(record)
        try:
            places.make(place, open_to_others=open_to_others)
            devices = "" if uuid == _TRIAL else uuid
            self._control.start(place.pipes, place.logs, devices=devices, multiuser=record.multiuser)
            record.daemon = self._daemon(place)
            self._ledger.write(record)
        except BaseException:
            self.end(record)
            raise
        return record

    def _daemon(self, place: places.Place) -> ProcessMark | None:
        """Find the daemon's process, and let it open as many files as NVIDIA wants."""
        import resource

        try:
            pid = int((place.pipes / places.PID_FILE).read_text())
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
            if soft != resource.RLIM_INFINITY and soft < wanted:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # it works with fewer files too
            return None
        return remains.mark_of(self._procfs, pid)

    def _try(self) -> str:
        """Start a daemon and end it again; say why that cannot be done."""
        with self._ledger.locked(_TRIAL):
            try:
                self.end(self._start(_TRIAL, 0, open_to_others=False))
            except GPUPoolError as error:
                return error.message.rstrip(".")
            except OSError as error:
                return f"its pipe directory cannot be made: {error.strerror}"
        return ""

    # --- letting go ---------------------------------------------------------------------------------

    def let_go(self, record: DaemonRecord) -> None:
        """Do what is due when no lease uses a daemon any more.

        An administrator's gets its limits back. Ours ends, unless processes that gave their lease back still
        have CUDA contexts on it: ending it would take their work; `tidy` ends it after them.
        """
        if record.leases:
            return
        if not record.own:
            limits.restore(self._control, record)
            self._ledger.forget(record.uuid)
        elif not self.clients(record):
            self.end(record)
        self._surveyor.forget(record.uuid)

    def tidy(self) -> None:
        """End daemons of ours that no lease and no process uses any more."""
        for record in self._ledger.all():
            if not record.leases:
                with self._ledger.locked(record.uuid):
                    now = self._ledger.read(record.uuid)
                    if now is not None:
                        self.let_go(now)

    def end(self, record: DaemonRecord) -> None:
        """End a daemon of ours, whatever state it is in, and remove all that it had; idempotent."""
        if record.own:
            if record.daemon is None or self._procfs.alive(record.daemon):
                try:
                    self._control.quit(record.place.pipes, wait_seconds=_QUIT_SECONDS)
                except MPSError as error:  # then it is killed
                    logger.debug("The MPS daemon in %s does not quit: %s", record.pipes, error)
            self._kill(record)
            places.remove(record.place)
        self._ledger.forget(record.uuid)
        self._surveyor.forget(record.uuid)

    def _kill(self, record: DaemonRecord) -> None:
        """Kill what is left of a daemon: itself, and servers that outlived it."""
        marks = remains.of_daemon(self._procfs, record.place.pipes)
        if record.daemon is not None and record.daemon not in marks:
            remains.wait_gone(self._procfs, [record.daemon], seconds=_GONE_SECONDS)
            marks.append(record.daemon)
        if left := remains.end(self._procfs, marks, seconds=_GONE_SECONDS):
            logger.error("Processes of MPS do not end: %s", ", ".join(str(mark.pid) for mark in left))
