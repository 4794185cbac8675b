"""One look at a daemon: its servers, their states, their clients and their limits.

Rules of this module: a survey is of one moment and says when it could not be made; looking costs a few calls
of the control program, so several leases share one that is at most a moment old.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from jupyter_gpupool.backends.nvidia.mps.answers import ServerState, ServerStatus
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.mps.errors import MPSError, MPSUnreadable
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord
from jupyter_gpupool.backends.nvidia.mps.places import Place
from jupyter_gpupool.backends.procfs import ProcFS

logger = logging.getLogger(__name__)

#: How old a survey may be that another lease has caused, seconds.
FRESH_SECONDS = 2.0
#: How much of the end of server.log is read for the cause of a fault, bytes.
_LOG_BYTES = 65536
_FAULT = re.compile(r"fatal|fault|exception", re.IGNORECASE)
_CLIENT = re.compile(r"client[ \t]*\{?[ \t]*(\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerView:
    """One server at one moment.

    Attributes
    ----------
    pid : int
        Its process.
    uid : int or None
        Whose it is; None when that cannot be seen.
    state : ServerState
        What it says of itself.
    """

    pid: int
    uid: int | None
    state: ServerState

    @property
    def clients(self) -> tuple[int, ...]:
        """Return its clients' processes."""
        return self.state.clients

    @property
    def failed(self) -> bool:
        """Say whether it waits for its clients to end after a fault."""
        return self.state.status is ServerStatus.FAULT


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """A daemon at one moment.

    Attributes
    ----------
    problem : str
        Why nothing could be seen, one sentence; empty when it could.
    servers : tuple of ServerView
        Its servers.
    culprits : tuple of int
        Processes that server.log blames for a fault; only looked for when there is one.
    """

    problem: str = ""
    servers: tuple[ServerView, ...] = ()
    culprits: tuple[int, ...] = ()

    def server_of(self, pids: set[int]) -> ServerView | None:
        """Return the server of which one of these processes is a client."""
        return next((server for server in self.servers if pids.intersection(server.clients)), None)

    def serving_others(self, uid: int) -> ServerView | None:
        """Return a server of another user that has clients: this user waits until they end."""
        return next((each for each in self.servers if each.uid not in (uid, None) and each.clients), None)

    @property
    def failed(self) -> ServerView | None:
        """Return the server that is in FAULT, if one is."""
        return next((each for each in self.servers if each.failed), None)


@dataclass
class Surveyor:
    """Looks at daemons, and remembers what it saw for a moment.

    Parameters
    ----------
    control : MPSControl
        The door.
    procfs : ProcFS
        Where processes are looked at.
    clock : callable
        Monotonic seconds.
    """

    control: MPSControl
    procfs: ProcFS
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[float, Survey]] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def look(self, record: DaemonRecord, *, fresh_seconds: float = FRESH_SECONDS) -> Survey:
        """Look at a GPU's daemon; never raises."""
        now = self.clock()
        at, survey = self._seen.get(record.uuid, (0.0, None))
        if survey is None or now - at >= fresh_seconds:
            survey = self._survey(record)
            self._seen[record.uuid] = (self.clock(), survey)
        return survey

    def forget(self, uuid: str) -> None:
        """Look anew the next time."""
        self._seen.pop(uuid, None)

    def _survey(self, record: DaemonRecord) -> Survey:
        pipes = record.place.pipes
        try:
            seen = [self._server(record, pid) for pid in self.control.servers(pipes)]
        except MPSError as error:
            return Survey(problem=error.message)
        servers = tuple(server for server in seen if server is not None)
        failed = Survey(servers=servers).failed
        if failed is None:
            return Survey(servers=servers)
        if not failed.clients:
            self._renew(record, failed)
        return Survey(servers=servers, culprits=culprits(record.place))

    def _server(self, record: DaemonRecord, pid: int) -> ServerView | None:
        """Look at one server; None if it ended meanwhile.

        One that does not say what it limits (it may be starting) still has clients.
        """
        pipes = record.place.pipes
        try:
            state = self.control.state(pipes, pid, record.uuid)
        except MPSUnreadable as error:
            if pid not in self.control.servers(pipes):
                return None
            if pid not in self._told:
                self._told.add(pid)
                logger.warning("MPS server %d: %s", pid, error)
            state = ServerState(
                status=ServerStatus.ACTIVE,
                percentage=None,
                memory_mib=None,
                clients=tuple(self.control.clients(pipes, pid)),
            )
        status = self.procfs.status(pid)
        return ServerView(pid=pid, uid=None if status is None else status.uid, state=state)

    def _renew(self, record: DaemonRecord, failed: ServerView) -> None:
        """Let a failed server of ours that nobody waits for any more make place for a new one."""
        if record.own:
            try:
                self.control.shut_down(record.place.pipes, failed.pid)
            except MPSError:  # it goes on being shown as failed, with the next step
                return


def culprits(place: Place) -> tuple[int, ...]:
    """Return the processes that the end of server.log blames for a fault, latest first."""
    try:
        with (place.logs / "server.log").open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ()
    found = [
        int(match[1]) for line in reversed(lines) if _FAULT.search(line) for match in _CLIENT.finditer(line)
    ]
    return tuple(dict.fromkeys(found))
