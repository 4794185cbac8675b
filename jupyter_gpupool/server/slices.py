"""The lease that a server of JupyterHub has for all of its kernels.

Rules of this module: the Hub has asked for the lease before it started this server, which shows its ticket as
soon as its loop runs; kernels are started after that (bounded), and are under it as the server's children.
It ends with the server's process, which the agent watches. Nothing of a server without such a lease is
imported or done here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import LeaseDoc
from jupyter_gpupool.server.background import LifeTask, in_daemon_thread
from jupyter_gpupool.server.quiesce import QUIESCE_SECONDS

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.attach import AppliedSettings
    from jupyter_gpupool.protocol.messages import AttachReply
    from jupyter_gpupool.server.link import PoolLink

#: How long a kernel's start waits for the server to be under its lease, seconds.
READY_SECONDS = 30.0
#: How long the server tries to get under its lease, seconds.
ATTACH_SECONDS = 120.0
#: How often the server looks at its kernels and its lease, seconds.
LOOK_SECONDS = 5.0
_OVER = frozenset({LeaseState.ENDING, LeaseState.ENDED})


class ServerSlice:
    """A server's own lease.

    Parameters
    ----------
    lease_id : str
        Its id, as the Hub said.
    link : PoolLink
        The link to the pool.
    kernels : callable
        Returns the managers of the server's kernels.
    log : logging.Logger
        Where it is said once how it went.
    """

    def __init__(
        self, lease_id: str, link: PoolLink, kernels: Callable[[], list[Any]], *, log: logging.Logger
    ) -> None:
        self.lease_id = lease_id
        self._link = link
        self._kernels = kernels
        self._log = log
        self._tried = asyncio.Event()
        self._task = LifeTask("jupyter_gpupool slice")
        self._doc: LeaseDoc | None = None
        self._reply: AttachReply | None = None
        self._settings: AppliedSettings | None = None
        self._told: bool | None = None
        self._worked = time.monotonic()

    def start(self) -> None:
        """Show the ticket, and follow the lease; returns at once."""
        self._task.start(self._run)

    async def close(self) -> None:
        """Follow it no more; it ends with the process."""
        await self._task.end()

    async def variables(self) -> dict[str, str]:
        """Return what a new kernel has in its environment, once the lease is in force (bounded)."""
        from jupyter_gpupool.protocol.names import ENV_SLICE
        from jupyter_gpupool.protocol.slices import SliceDoc

        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._tried.wait()
        except TimeoutError:
            self._log.warning("jupyter_gpupool: a kernel starts before its server is under its lease.")
        doc, settings = self._newest(), self._settings
        if doc is None or settings is None or self._reply is None or doc.state in _OVER:
            return {}
        told = SliceDoc(lease=doc, reply=self._reply, before=settings.before)
        return {**settings.variables, ENV_SLICE: encode(told).decode()}

    def holds(self, kind: DeviceKind) -> bool:
        """Tell whether the server is under its lease, and that is of a kind."""
        return self._doc is not None and self._doc.kind is kind and self._doc.state not in _OVER

    async def quiesce(self, pid: int) -> None:
        """Have a kernel's processes taken off the GPU, and no other kernel's (bounded)."""
        if self._link.connection is None:
            return
        client = AsyncPoolClient(self._link.connection, answer_seconds=QUIESCE_SECONDS)
        try:
            async with asyncio.timeout(QUIESCE_SECONDS):
                await client.quiesce(self.lease_id, pid=pid)
        except (GPUPoolError, TimeoutError) as error:
            self._log.warning(
                "jupyter_gpupool: process %s is ended without having been taken off its GPU first (%s); "
                "under MPS others on that GPU may be disturbed.",
                pid,
                str(error) or f"no answer within {QUIESCE_SECONDS:g} s",
            )
        finally:
            client.close()

    # --- its life ---

    async def _run(self) -> None:
        try:
            self._doc, self._reply, self._settings = await in_daemon_thread(
                lambda: _take(self.lease_id), name="jupyter_gpupool slice"
            )
            self._log.info("jupyter_gpupool: this server and its kernels are under lease %s.", self.lease_id)
        except Exception as error:  # the server runs whatever is wrong with us
            known = isinstance(error, GPUPoolError)
            self._log.warning(
                "jupyter_gpupool: this server is not under the lease that it was started with: %s",
                error,
                exc_info=not known,
            )
            return
        finally:
            self._tried.set()
        while self._doc is not None and self._doc.state not in _OVER:
            await asyncio.sleep(LOOK_SECONDS)
            self._doc = self._newest()
            await self._tell()
        self._log.warning("jupyter_gpupool: the lease of this server has ended.")
        if self._settings is not None:
            self._settings.undo()

    def _newest(self) -> LeaseDoc | None:
        """Return the lease as the pool said last; a lease that it does not list any more has ended."""
        known, pool = self._doc, self._link.pool
        if known is None or pool is None:
            return known
        found = next((it for it in pool.leases if it.id == self.lease_id), None)
        if found is not None and found.state is not LeaseState.ATTACHING:
            return msgspec.structs.replace(found, attach=None)
        if found is None and self._link.connected:
            return msgspec.structs.replace(known, state=LeaseState.ENDED)
        return known

    async def _tell(self) -> None:
        """Tell the pool whether any of the kernels works: no kernel can say that of the others."""
        busy, doc = self._works(), self._doc
        if doc is None or doc.state is not LeaseState.ACTIVE:
            return
        if busy is self._told and (busy or doc.idle_seconds is not None):
            return
        idle = 0.0 if busy else time.monotonic() - self._worked
        try:
            await self._link.client().activity(self.lease_id, busy=busy, idle_seconds=idle)
            self._told = busy
        except GPUPoolError:
            self._told = None  # the pool is away: it is told later

    def _works(self) -> bool:
        """Tell whether a kernel works, and note when one did last."""
        now, wall = time.monotonic(), datetime.now(UTC)
        busy = False
        for kernel in self._kernels():
            busy = busy or getattr(kernel, "execution_state", "") == "busy"
            last = getattr(kernel, "last_activity", None)
            if isinstance(last, datetime):
                self._worked = max(self._worked, now - max(0.0, (wall - last).total_seconds()))
        if busy:
            self._worked = now
        return busy


def _take(lease_id: str) -> tuple[LeaseDoc, AttachReply, AppliedSettings]:
    """Show the ticket of this server's lease; blocking."""
    from jupyter_gpupool.client.discovery import find_pool
    from jupyter_gpupool.client.sync import PoolClient
    from jupyter_gpupool.kernel.taking import take

    client = PoolClient(find_pool(autostart=False))
    try:
        return take(client, lease_id, ATTACH_SECONDS)
    finally:
        client.close()
