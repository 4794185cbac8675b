"""Processes that use a device without a lease: who they are, and what an administrator wants done.

Rules of this module: nobody is ended at first sight, but after a grace in which he was seen all the time;
a signal goes to a process by a pidfd, after its start time was compared; the pool's own processes, MPS and
what draws the screen are never touched.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.processes import GPUProcess
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import Action, NodeRules
from jupyter_gpupool.protocol.documents import ProcessDoc

logger = logging.getLogger(__name__)

#: How long a process may take to end when it is asked to, before it is killed, seconds.
KILL_SECONDS = 5.0
#: Programs that are never ended: MPS itself, the driver's daemons, and what draws the screen.
SPARED = frozenset(
    {
        "Xorg",
        "Xwayland",
        "gnome-shell",
        "kwin_wayland",
        "kwin_x11",
        "nv-hostengine",
        "nvidia-cuda-mps-control",
        "nvidia-cuda-mps-server",
        "nvidia-persistenced",
        "weston",
    }
)
#: The server of MPS: what it takes is nobody's, but it is no stranger.
_MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(slots=True)
class _Stranger:
    first_seen: float
    asked_at: float | None = None
    killed: bool = False
    told: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmanaged:
    """Use of one device without a lease.

    Attributes
    ----------
    processes : tuple of ProcessDoc
        The processes.
    memory_bytes : int or None
        What they take, bytes; None when the driver does not say.
    """

    processes: tuple[ProcessDoc, ...] = ()
    memory_bytes: int | None = 0


class Strangers:
    """Finds and handles unmanaged use.

    Parameters
    ----------
    rules : NodeRules
        What is done.
    procfs : ProcFS
        Where processes are looked at.
    clock : callable
        Monotonic seconds.
    send : callable
        Sends a signal to exactly one process; says whether it could.
    """

    def __init__(
        self,
        rules: NodeRules,
        procfs: ProcFS,
        clock: Callable[[], float] = time.monotonic,
        send: Callable[[ProcessMark, int], bool] | None = None,
    ) -> None:
        self._rules = rules
        self._procfs = procfs
        self._clock = clock
        self._send = send or self._signal
        self._seen: dict[tuple[str, ProcessMark], _Stranger] = {}

    def look(
        self, gpu: GPU, found: Iterable[GPUProcess], ours: Collection[int], *, leased: bool
    ) -> Unmanaged:
        """Sort the processes on a device, and do what the rules say.

        Parameters
        ----------
        gpu : GPU
            The device.
        found : iterable of GPUProcess
            Its processes.
        ours : collection of int
            Processes of leases on this device, and of the pool.
        leased : bool
            True when there are leases on it: then a process of another PID namespace may be one of theirs.
        """
        docs, sizes = [], []
        marks: set[tuple[str, ProcessMark]] = set()
        for process in found:
            if process.pid in ours and process.visible:
                continue
            doc = self._describe(process)
            docs.append(doc)
            unknown = leased and not process.visible
            sizes.append(None if unknown else process.memory_bytes)
            stat = self._procfs.stat(process.pid) if process.visible else None
            if stat is not None and not process.graphics and doc.name not in SPARED:
                marks.add((gpu.uuid, stat.mark))
                self._handle(gpu, stat.mark, doc)
        for key in [key for key in self._seen if key[0] == gpu.uuid and key not in marks]:
            del self._seen[key]
        memory = None if any(size is None for size in sizes) else sum(size or 0 for size in sizes)
        shown = tuple(doc for doc in docs if doc.name != _MPS_SERVER)
        return Unmanaged(processes=shown, memory_bytes=memory)

    def _describe(self, process: GPUProcess) -> ProcessDoc:
        if not process.visible:
            name, user = "a process of another PID namespace", "unknown"
        else:
            status = self._procfs.status(process.pid)
            name = self._name(process.pid)
            user = "unknown" if status is None else _user(status.uid)
        return ProcessDoc(pid=process.pid, user=user, name=name, memory_bytes=process.memory_bytes)

    def _name(self, pid: int) -> str:
        """Return the program's name, with the script that an interpreter runs."""
        words = self._procfs.command(pid)
        if not words:
            return "unknown"
        program = Path(words[0]).name
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        if program.startswith("python") and script.endswith(".py"):
            return f"{program} {Path(script).name}"
        return program

    def _handle(self, gpu: GPU, mark: ProcessMark, doc: ProcessDoc) -> None:
        """Tell, or end, a process that goes on."""
        now = self._clock()
        stranger = self._seen.setdefault((gpu.uuid, mark), _Stranger(first_seen=now))
        if self._rules.unmanaged is Action.SHOW:
            return
        who = f"Process {mark.pid} ({doc.name}) of {doc.user} uses {gpu.name} without a lease"
        if not stranger.told:
            stranger.told = True
            logger.warning("%s", who)
        if self._rules.unmanaged is not Action.END:
            return
        if stranger.asked_at is None and now - stranger.first_seen >= self._rules.grace_seconds:
            stranger.asked_at = now
            could = self._send(mark, signal.SIGTERM)
            logger.warning(
                "%s: it %s", who, "is asked to end" if could else "cannot be signalled by the agent"
            )
        elif (
            stranger.asked_at is not None and now - stranger.asked_at >= KILL_SECONDS and not stranger.killed
        ):
            stranger.killed = True
            if self._send(mark, signal.SIGKILL):
                logger.warning("%s and did not end: it is killed", who)

    def _signal(self, mark: ProcessMark, number: int) -> bool:
        """Signal exactly this process, not a later one with its pid."""
        try:
            descriptor = os.pidfd_open(mark.pid)
        except OSError:
            return False
        try:
            if not self._procfs.alive(mark):
                return False
            signal.pidfd_send_signal(descriptor, number)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
