"""What one process knows of the pool: its connection, who it is as a holder, and what it holds.

This is the composition root of a notebook's process. Rule of this module: there is one `Process` for each
operating-system process; after a fork the child has a new one and holds nothing.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.client.calls import Connection, Source
from jupyter_gpupool.client.discovery import find_pool
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.errors import NothingHeld, WhichLease
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.shell import running_shell

if TYPE_CHECKING:
    from jupyter_gpupool.core.devices import DeviceKind
    from jupyter_gpupool.kernel.companion import Companion
    from jupyter_gpupool.kernel.lease import Lease

#: How long a pool that was just started may take until its first device is shown, seconds.
_FIRST_NODE_SECONDS = 10.0
#: Pause between two looks, seconds.
_LOOK_SECONDS = 0.2


class Process:
    """One process, as a client and holder.

    Attributes
    ----------
    pid : int
        The process it was made for.
    key : str
        Identity as a holder among its owner's; a kernel token overrides it.
    held : dict of str to Lease
        The leases in force here, by id.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.key = uuid.uuid4().hex
        self.held: dict[str, Lease] = {}
        self._client: PoolClient | None = None
        self._explicit: tuple[str, str | None] | None = None
        self._companion: Companion | None = None
        #: The session cluster that ``%gpupool scale`` has made; whoever makes it knows its type.
        self.cluster: Any = None
        #: What reads the pool for widgets; whoever makes it knows its type.
        self.watch: Any = None

    def use(self, url: str, token: str | None) -> None:
        """Use this pool, whatever else there is."""
        self._explicit = (url, token)
        self._client = None

    @property
    def chosen(self) -> bool:
        """Whether somebody named the pool in this process, so that others may know another."""
        return self._explicit is not None

    @property
    def client(self) -> PoolClient:
        """The client; the pool is found (and started) on first use."""
        if self._client is None:
            found = self.find()
            self._client = PoolClient(found, reconnect=self.find)
            if found.source is Source.STARTED:
                self._await_first_node(self._client)
        return self._client

    def _await_first_node(self, client: PoolClient) -> None:
        """Give the agent of a pool that was just started a moment to join: an empty pool says little."""
        deadline = time.monotonic() + _FIRST_NODE_SECONDS
        while not client.devices() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def find(self, *, autostart: bool = True) -> Connection:
        """Find the pool, and start the embedded one if there is none and that may be."""
        url, token = self._explicit or (None, None)
        return find_pool(url, token, autostart=autostart)

    def hold(self, lease: Lease, *, cell_runs: bool = True) -> None:
        """Note that a lease is in force here, and follow what the pool says of it.

        Parameters
        ----------
        lease : Lease
            The lease.
        cell_runs : bool
            False when no cell runs now (a kernel that starts).
        """
        self.held[lease.id] = lease
        shell = running_shell()
        if shell is not None:
            from jupyter_gpupool.kernel.oom import translate_in

            translate_in(shell, self)
        if self._client is not None:
            self._the_companion(self._client, shell, cell_runs).follow(lease, cell_runs=cell_runs)

    def _the_companion(self, client: PoolClient, shell: object | None, cell_runs: bool) -> Companion:
        """Return the one companion of this process, made when it is first needed."""
        if self._companion is None:
            from jupyter_gpupool.kernel.companion import Companion
            from jupyter_gpupool.kernel.notices import NoticeBoard

            board = NoticeBoard(shell, running=cell_runs)
            self._companion = Companion(
                lambda: self.find(autostart=False), client.connection, board, shell, before_reclaim(shell)
            )
        return self._companion

    def drop(self, lease: Lease) -> None:
        """Note that it is not any more."""
        self.held.pop(lease.id, None)
        if self._companion is not None:
            self._companion.leave(lease.id)
        shell = running_shell()
        if shell is not None and not self.held:
            from jupyter_gpupool.kernel.oom import stop_translating_in

            stop_translating_in(shell)

    def living(self) -> list[Lease]:
        """Ask the pool about the leases here, drop those that ended by themselves, and return the others."""
        for lease in list(self.held.values()):
            lease.refresh()
        return list(self.held.values())

    def only_lease(self, kind: DeviceKind | None = None) -> Lease:
        """Return the lease that a command without a name means.

        Raises
        ------
        NothingHeld, WhichLease
            If there is none, or more than one.
        """
        fitting = [lease for lease in self.living() if kind in (None, lease.kind)]
        if not fitting:
            what = f"{kind.value} lease" if kind else "lease"
            raise NothingHeld(f"This process has no {what}.", hint="Ask for one: `%gpupool request 0.25`.")
        if len(fitting) > 1:
            listed = ", ".join(f"{lease.kind.value}" for lease in fitting if lease.kind)
            raise WhichLease(
                f"This process has {len(fitting)} leases ({listed}).", hint="Say which one: add --kind."
            )
        return fitting[0]


def before_reclaim(shell: object | None) -> Callable[[float], str] | None:
    """Return what is to be done before a lease is taken back: the state is saved, if that was asked for."""
    if shell is None:
        return None
    from jupyter_gpupool.kernel.snapshots.session import this_session

    try:
        session = this_session()
        session.follow(session.policy)
    except GPUPoolError as error:  # the lease is in force all the same
        tell(f"The state of this kernel is not saved before its lease is taken back: {error}")
        return None
    return session.autosaver.before_preemption


def label() -> str:
    """Say what a person knows this process by: its notebook's name, or its script's."""
    if session := os.environ.get("JPY_SESSION_NAME"):
        return Path(session).name
    shell = running_shell()
    vscode = getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__")
    if vscode:
        return Path(str(vscode)).name
    if shell is not None:
        return "kernel" if hasattr(shell, "kernel") else "ipython"
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c") else "python"


_current: Process | None = None


def this_process() -> Process:
    """Return what this process knows of the pool."""
    global _current
    if _current is None or _current.pid != os.getpid():
        _current = Process()
    return _current
