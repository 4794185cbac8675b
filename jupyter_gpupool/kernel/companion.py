"""The companion: one thread that hears from the pool while this process holds a lease.

Rules of this module: one for a process and none in a forked child; it starts no pool, raises nothing and
delays nothing: a pool that is away is asked again with growing pauses, the end of the interpreter and of a
lease wait for nobody. It costs one request in half a minute while nothing happens.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import NotAuthorised
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import GPUPoolError, UnknownLease
from jupyter_gpupool.core.hints import ASK_ANOTHER
from jupyter_gpupool.core.leases import LeaseState, Resource, Strength
from jupyter_gpupool.kernel.activity import ActivityReporter
from jupyter_gpupool.kernel.notices import NoticeBoard, SaidOnce
from jupyter_gpupool.kernel.words import resource_name, share_of, why_ended
from jupyter_gpupool.protocol.documents import LeaseDoc

#: Longest single poll, seconds: what a silent pool costs.
POLL_SECONDS = 30.0
#: Pause before a pool that is away is asked again, seconds; it doubles up to the longest.
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
#: Polls that come back at once, however often something changes, are so far apart, seconds.
SHORTEST_PAUSE_SECONDS = 0.2
_OVER = frozenset({LeaseState.ENDING, LeaseState.ENDED})


class Followed(Protocol):
    """A lease as the companion needs it; `jupyter_gpupool.kernel.api.Lease` is one."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def doc(self) -> LeaseDoc:
        """What the pool said of it last."""

    def all_notices(self) -> list[str]:
        """Return every sentence that holds for it now."""

    def heard(self, doc: LeaseDoc, known: LeaseDoc) -> bool:
        """Take over what the pool said to who knew ``known``; False when it is old news, or our own doing."""

    def leftover(self) -> str:
        """Say what this process keeps of the device after the end; empty when that is nothing."""

    def ended(self, doc: LeaseDoc | None) -> bool:
        """Note that it is over; False when that is our own doing."""


class Companion:
    """Follows the leases of this process.

    Parameters
    ----------
    find : callable
        Finds the pool, without starting one.
    connection : Connection
        Where the pool was last.
    board : NoticeBoard
        Where to say what it hears.
    shell : InteractiveShell or None
        The notebook's shell, of whose cells the pool is told; None in a script.
    before_reclaim : callable or None
        Called when a lease is to be taken back, with the seconds left; what it returns is said after that.
    """

    def __init__(
        self,
        find: Callable[[], Connection],
        connection: Connection,
        board: NoticeBoard,
        shell: object | None = None,
        before_reclaim: Callable[[float], str] | None = None,
    ) -> None:
        self._find = find
        self._before_reclaim = before_reclaim
        self._client = PoolClient(connection)
        self._board = board
        self._activity = None if shell is None else ActivityReporter(shell, self._tell_activity)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._leases: dict[str, tuple[Followed, SaidOnce]] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._pause = FIRST_PAUSE_SECONDS

    def follow(self, lease: Followed, *, cell_runs: bool = True) -> None:
        """Follow a lease from now on, and say what holds for it already.

        Parameters
        ----------
        lease : Followed
            The lease.
        cell_runs : bool
            Whether a cell runs now.
        """
        notices = lease.all_notices()
        with self._lock:
            self._leases[lease.id] = (lease, SaidOnce(notices))
            self._board.open()
            if self._thread is None:
                # an empty context: output goes to the cell that runs, not to the one that made the request
                self._thread = threading.Thread(
                    target=contextvars.Context().run,
                    args=(self._run,),
                    name="jupyter_gpupool companion",
                    daemon=True,
                )
                atexit.register(self._stop_at_exit)
                self._thread.start()
        if self._activity is not None:
            self._activity.open(running=cell_runs)
        for sentence in notices:
            self._say(sentence)

    def leave(self, lease_id: str) -> None:
        """Follow a lease no more; the thread ends by itself when there is none left."""
        with self._lock:
            self._leases.pop(lease_id, None)
            left = bool(self._leases)
            if not left:
                self._board.close()
        if not left and self._activity is not None:
            self._activity.close()

    def _tell_activity(self, busy: bool, idle_seconds: float) -> None:
        """Tell the pool whether a cell runs, for each lease."""
        for lease_id in list(self._leases):
            try:
                self._client.activity(lease_id, busy=busy, idle_seconds=idle_seconds)
            except UnknownLease:
                continue  # it has ended, which its poll will say

    def stop(self) -> None:
        """Say nothing any more and end when the present poll does; waits for nothing."""
        self._stopped.set()

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._pid:  # a forked child may have a lock of the event that nobody opens
            self.stop()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        """Poll the leases in turn until there is none."""
        turn = 0
        while (leases := self._next()) and not self._stopped.is_set():
            turn += 1
            lease, said = leases[turn % len(leases)]
            began = time.monotonic()
            try:
                self._poll(lease, said, POLL_SECONDS / len(leases))
                self._pause = FIRST_PAUSE_SECONDS
            except Exception as error:  # whatever it is: no traceback of ours in somebody's notebook
                self._rest(error)
            if time.monotonic() - began < SHORTEST_PAUSE_SECONDS:
                self._stopped.wait(SHORTEST_PAUSE_SECONDS)
        self._client.close()

    def _next(self) -> list[tuple[Followed, SaidOnce]]:
        """Return what is followed; with nothing left, the next `follow` starts another thread."""
        with self._lock:
            if not self._leases:
                self._thread = None
                atexit.unregister(self._stop_at_exit)
            return list(self._leases.values())

    def _poll(self, lease: Followed, said: SaidOnce, wait_seconds: float) -> None:
        """Wait for news of one lease, and pass them on."""
        known = lease.doc
        try:
            doc = self._client.lease(lease.id, since=known.tag, wait_seconds=wait_seconds)
        except UnknownLease:
            if lease.ended(None):
                self._board.open()  # the end of the lease has closed it
                self._say(f"The lease on {share_of(known)} is not known to the pool any more. {_ASK_ANEW}")
            self.leave(lease.id)
            return
        if self._activity is not None and doc.idle_seconds is None and doc.state is LeaseState.ACTIVE:
            self._activity.again()  # the pool was started anew, or has just seen us attach
        if doc.tag == known.tag or self._stopped.is_set():
            return
        if doc.state in _OVER:
            if lease.ended(doc):
                self._board.open()
                rest = lease.leftover() or _ASK_ANEW
                self._say(f"The lease on {share_of(doc)} ended: {why_ended(doc)}. {rest}")
            self.leave(lease.id)
            return
        if not lease.heard(doc, known):
            return
        # it is said first: to save takes a while, and a cell that is run meanwhile keeps the lease
        for sentence in [*_lost_limits(known, doc), *said.new(lease.all_notices())]:
            self._say(sentence)
        begins = doc.reclaim_seconds is not None and known.reclaim_seconds is None
        if begins and self._before_reclaim and (done := self._before_reclaim(doc.reclaim_seconds or 0.0)):
            self._say(done)

    def _say(self, sentence: str) -> None:
        if not self._stopped.is_set():
            self._board.say(sentence)

    def _rest(self, error: Exception) -> None:
        """Wait for the pool to come back, and look where it is then; it is nobody's business here why not."""
        pause = LONGEST_PAUSE_SECONDS if isinstance(error, NotAuthorised) else self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if self._stopped.wait(pause):
            return
        try:
            found = self._find()
        except (GPUPoolError, OSError):
            return
        if found.url != self._client.connection.url or found.token != self._client.connection.token:
            self._client.close()
            self._client = PoolClient(found)


_ASK_ANEW = f"This process has no limits of it any more; {ASK_ANOTHER}"


def _lost_limits(before: LeaseDoc, now: LeaseDoc) -> list[str]:
    """Say which limits are not in force any more, though they were promised."""
    held = {it.resource: it for it in before.isolation if it.strength is not Strength.NONE}
    lost = [it for it in now.isolation if it.strength is Strength.NONE and it.resource in held]
    return [
        f"The {resource_name(Resource(it.resource))} of your lease on {share_of(now)} is not limited: "
        f"{it.note or it.mechanism or 'the limit could not be verified'}."
        for it in lost
    ]
