"""Who is at the other end of a unix socket: taken from the kernel, never from what the peer says.

Rule of this module: a process is identified by a pidfd and its start time, so a pid that is reused is never
mistaken for it.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.cluster.errors import OtherPidNamespace, PeerGone, WrongUser

#: ``SO_PEERPIDFD`` of Linux 6.5, which Python does not name.
SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("=iII")


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that connected.

    Attributes
    ----------
    mark : ProcessMark
        Its pid and start time.
    pidfd : int
        A descriptor of the process itself; whoever has the `Peer` closes it.
    uid : int
        Whom it runs as.
    """

    mark: ProcessMark
    pidfd: int
    uid: int

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.pidfd)


def identify(connection: socket.socket, *, uid: int | None, use_peerpidfd: bool = True) -> Peer:
    """Find out which process connected.

    Parameters
    ----------
    connection : socket.socket
        The accepted unix socket.
    uid : int or None
        The only user that may attach; None where that depends on the ticket.
    use_peerpidfd : bool
        False to do without ``SO_PEERPIDFD``, as on older kernels.

    Raises
    ------
    WrongUser
        If it runs as another user.
    OtherPidNamespace
        If it is in a PID namespace that this process cannot see.
    PeerGone
        If it ended or hung up meanwhile.
    """
    pid, peer_uid, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if uid is not None and peer_uid != uid:
        raise WrongUser(
            f"This agent attaches processes of uid {uid}; yours runs as uid {peer_uid}.",
            hint="Start a pool as the user who runs the notebook.",
        )
    if pid == 0:
        raise OtherPidNamespace(
            "The agent cannot see your process: it runs in another PID namespace (a container).",
            hint="Run the agent in the host PID namespace (for Docker: --pid=host).",
        )
    pidfd = _peer_pidfd(connection, pid, use_peerpidfd)
    try:
        return Peer(_checked_mark(connection, pid, pidfd), pidfd, peer_uid)
    except BaseException:
        os.close(pidfd)
        raise


def _peer_pidfd(connection: socket.socket, pid: int, use_peerpidfd: bool) -> int:
    """Return a pidfd of the peer, from the socket where the kernel can."""
    if use_peerpidfd:
        try:
            return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        except ProcessLookupError:
            raise PeerGone(f"Process {pid} ended before it could be identified.") from None
        except OSError:
            return _peer_pidfd(connection, pid, False)
    return open_pidfd(pid)


def open_pidfd(pid: int) -> int:
    """Open a pidfd by number.

    Raises
    ------
    PeerGone
        If there is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        raise PeerGone(f"Process {pid} ended before it could be identified.") from None


def _checked_mark(connection: socket.socket, pid: int, pidfd: int) -> ProcessMark:
    """Read the start time, and make sure that it is that of the process behind the pidfd and the socket."""
    start_ticks = start_time(pid)
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    hung_up = bool(poll.poll(0))
    if start_ticks is None or hung_up or not is_alive(pidfd) or start_time(pid) != start_ticks:
        raise PeerGone(f"Process {pid} ended, or hung up, before it could be identified.")
    return ProcessMark(pid=pid, start_ticks=start_ticks)


def is_alive(pidfd: int) -> bool:
    """Tell whether the process behind a pidfd still runs (a zombie does not)."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def start_time(pid: int) -> int | None:
    """Read the start time of a process, clock ticks since boot; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[19])


def find(mark: ProcessMark) -> int | None:
    """Open a pidfd of exactly this process; None when it has ended."""
    try:
        pidfd = open_pidfd(mark.pid)
    except PeerGone:
        return None
    if start_time(mark.pid) == mark.start_ticks and is_alive(pidfd):
        return pidfd
    os.close(pidfd)
    return None
