"""The one link from a Jupyter server to its pool.

Rules of this module: one event stream for all tabs; the link never gives up and never makes anybody wait; a
pool that went away is found, or started, again with growing pauses, and at once when somebody asks.

It stays connected while the server runs, so an embedded pool does not end under an open JupyterLab.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass, field
from enum import Enum

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.discovery import autostart_allowed, find_pool
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names, paths
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.server.background import LifeTask, in_daemon_thread
from jupyter_gpupool.server.feed import Feed, StatusMessage
from jupyter_gpupool.server.history import History
from jupyter_gpupool.server.settings import LinkSettings
from jupyter_gpupool.server.snapshots import Snapshots, without_tickets

#: Pause before the first new try, seconds; it doubles up to the longest.
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 60.0
#: However often somebody asks, tries are at least so far apart, seconds.
SHORTEST_PAUSE_SECONDS = 1.0

#: How long the pool may take to say which leases a restarting kernel holds, seconds.
ASK_SECONDS = 1.0


class LinkState(Enum):
    """How the link to the pool is."""

    #: The pool is being looked for, or started, for the first time.
    STARTING = "starting"
    #: The event stream is open.
    CONNECTED = "connected"
    #: It was open, and the pool is being looked for, or started, again.
    RECONNECTING = "reconnecting"
    #: No pool was found, and none could be started.
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """From what a kernel's own token is made.

    Attributes
    ----------
    url : str
        Where the pool is; empty while it is not known (the kernel finds it by the runtime file).
    token : str
        The owner's token.
    owner : str
        The owner.
    """

    url: str
    token: str = field(repr=False)
    owner: str


class PoolLink:
    """Follows the pool, tells the feed, and answers what a kernel's start needs to know.

    Parameters
    ----------
    settings : LinkSettings
        How to find the pool.
    feed : Feed
        Where status and snapshots go.
    log : logging.Logger
        Where each change of state is noted once.
    """

    def __init__(self, settings: LinkSettings, feed: Feed, *, log: logging.Logger) -> None:
        self._settings = settings
        self._feed = feed
        self._log = log
        self._snapshots = Snapshots(feed)
        #: The pool's last hours, for charts.
        self.history = History()
        self._task = LifeTask("jupyter_gpupool link")
        self._asked = asyncio.Event()
        self._client: AsyncPoolClient | None = None
        self._status = StatusMessage(state=LinkState.STARTING.value)
        #: The newest connection, kept when the pool goes away or the link is closed.
        self.connection: Connection | None = None
        #: The newest snapshot, kept likewise.
        self.pool: PoolDoc | None = None
        self.state = LinkState.STARTING
        self._tell(LinkState.STARTING, "The pool is starting.")

    # --- what others ask ---

    def client(self) -> AsyncPoolClient:
        """Return a client of the pool.

        Raises
        ------
        PoolUnreachable
            If the link is not connected; it then tries anew at once.
        """
        if self._client is None:
            self._asked.set()
            raise PoolUnreachable(self._status.message, hint=self._status.hint)
        return self._client

    def nudge(self) -> None:
        """Try anew at once if the pool is not there."""
        if self._client is None:
            self._asked.set()

    @property
    def connected(self) -> bool:
        """Whether the event stream is open, so that the newest snapshot is of now."""
        return self.state is LinkState.CONNECTED

    @property
    def may_start(self) -> bool:
        """Whether the embedded pool may be started, as far as this server is configured."""
        return self._settings.autostart

    @property
    def configured_url(self) -> str:
        """The pool's URL as this server is configured; empty when it is to be found."""
        return self._settings.url

    def identity(self) -> Identity | None:
        """Return from what a kernel's token is made; None when that is not known yet."""
        if self.connection is not None and self.pool is not None:
            return Identity(url=self.connection.url, token=self.connection.token, owner=self.pool.me)
        if self._settings.url or not self._settings.autostart or not _embedded_is_meant():
            return None
        try:
            token = paths.owner_token(paths.make_runtime_dir())
        except (GPUPoolError, OSError):
            return None  # the search for the pool fails for the same reason, and says so
        return Identity(url="", token=token, owner=paths.os_user())

    async def leases_of(self, kernel_id: str) -> list[str]:
        """Return the ids of the leases that a kernel itself holds, as the pool says or was last heard to say.

        The workers of its session cluster end with its process, and their leases with them.
        """
        held = (LeaseState.ATTACHING, LeaseState.ACTIVE)
        leases = self.pool.leases if self.pool is not None else []
        if self._client is not None:
            with contextlib.suppress(GPUPoolError, TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    leases = await self._client.leases()
        return [
            lease.id
            for lease in leases
            if lease.holder.kernel_id == kernel_id
            and lease.holder.key in ("", kernel_id)
            and lease.state in held
        ]

    def holds(self, kernel_id: str, kind: DeviceKind) -> bool:
        """Tell whether, as far as was heard last, a kernel holds a lease of that kind; asks nobody."""
        held = (LeaseState.ATTACHING, LeaseState.ACTIVE, LeaseState.ENDING)
        leases = self.pool.leases if self.pool is not None else []
        return any(
            lease.holder.kernel_id == kernel_id and lease.kind is kind and lease.state in held
            for lease in leases
        )

    # --- its life ---

    def start(self) -> None:
        """Start following the pool; returns at once."""
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop following the pool; what was last known of it stays."""
        self._snapshots.cancel()
        await self._task.end()

    async def _run(self) -> None:
        """Follow the pool until cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._follow()
            except GPUPoolError as error:
                failure = error
            except Exception as defect:  # nothing may end the link but its close
                self._log.exception("jupyter_gpupool: the link to the pool failed unexpectedly.")
                failure = GPUPoolError(
                    f"The link to the pool failed: {defect!r}.", hint="See the server's log."
                )
            if self.state is LinkState.CONNECTED:
                pause = FIRST_PAUSE_SECONDS
                self._tell(LinkState.RECONNECTING, failure.message, failure.hint)
            else:
                self._tell(LinkState.UNAVAILABLE, failure.message, failure.hint)
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _follow(self) -> None:
        """Find the pool and pass its snapshots on for as long as they come; always ends with an exception."""
        wanted = self._settings
        connection = await in_daemon_thread(
            lambda: find_pool(wanted.url or None, wanted.token or None, autostart=wanted.autostart),
            name="jupyter_gpupool discovery",
        )
        client = AsyncPoolClient(connection)
        self._snapshots.restart()
        try:
            async with contextlib.aclosing(client.events()) as docs:
                async for doc in docs:
                    self.connection, self._client = connection, client
                    self._received(without_tickets(doc))
        finally:
            self._client = None
            self.history.lost()
            client.close()
        raise PoolUnreachable("The pool ended its event stream.")

    def _received(self, doc: PoolDoc) -> None:
        self.pool = doc
        if self.state is not LinkState.CONNECTED:
            self._tell(LinkState.CONNECTED, "")
        self._snapshots.show(doc)
        self.history.note(doc)

    async def _rest(self, seconds: float) -> None:
        """Pause before the next try, shorter when somebody asks for the pool."""
        shortest = min(seconds, SHORTEST_PAUSE_SECONDS)
        self._asked.clear()
        await asyncio.sleep(shortest)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - shortest):
                await self._asked.wait()

    def _tell(self, state: LinkState, message: str, hint: str = "") -> None:
        """Note a state, tell the browser, and log it when it is another one."""
        status = StatusMessage(state=state.value, message=message, hint=hint)
        changed, self.state, self._status = state is not self.state, state, status
        self._feed.publish(status)
        if changed:
            level = logging.INFO if state is LinkState.CONNECTED else logging.WARNING
            self._log.log(level, "jupyter_gpupool: %s. %s %s", state.value, message, hint)


def _embedded_is_meant() -> bool:
    """Tell whether, as far as the environment says, the pool is this user's embedded one."""
    return autostart_allowed() and not (os.environ.get(names.ENV_URL) or os.environ.get(names.ENV_TOKEN))
