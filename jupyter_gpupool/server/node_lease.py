"""The lease of a kernel that runs on a node, over all of that kernel's starts.

Rules of this module: a kernel keeps its lease over a restart while that waits for it, else it gets another;
the wait for the pool is bounded, the one for the share is as long as was asked for and says what it waits
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseDoc
from jupyter_gpupool.protocol.tokens import KERNEL_PREFIX, KernelClaim, mint_kernel_token
from jupyter_gpupool.protocol.wanted import Wanted
from jupyter_gpupool.server.link import Identity
from jupyter_gpupool.server.node_errors import PoolNotThere, ShareNotGranted
from jupyter_gpupool.server.node_pool import KernelPool
from jupyter_gpupool.server.settings import ServerParts

#: How long a kernel's start waits for the pool itself, seconds.
POOL_SECONDS = 60.0
#: How long the lease of a kernel that restarts may take to wait for it again, seconds.
AGAIN_SECONDS = 15.0
#: How long giving a lease back may take, seconds.
LEAVE_SECONDS = 10.0
#: How often a server that has no pool yet looks whether it has one, seconds.
_LOOK_SECONDS = 0.1


class KernelLease:
    """The lease of one kernel.

    Parameters
    ----------
    kernel_id : str
        Whose it is.
    show : callable
        Shows what is waited for; an empty text when it is there.
    log : logging.Logger
        The server's.

    Attributes
    ----------
    id, node_id : str
        The present lease, and its node; empty while there is none.
    token : str
        The kernel's own, of its newest start.
    kept, moved : bool
        Whether the newest start has the lease of the one before, and whether that has gone to another node.
    """

    def __init__(self, kernel_id: str, show: Callable[[str], None], *, log: logging.Logger) -> None:
        self.id = ""
        self.node_id = ""
        self.token = ""
        self.kept = self.moved = False
        self._kernel_id = kernel_id
        self._show = show
        self._log = log
        self._generation = 0
        self._pool: KernelPool | None = None

    @property
    def pool(self) -> KernelPool:
        """The pool, asked in the kernel's name; there is none before `introduce`."""
        if self._pool is None:
            raise PoolNotThere("This kernel has not been started.", hint="Start it.")
        return self._pool

    def close(self) -> None:
        """Close the connections to the pool."""
        if self._pool is not None:
            self._pool.close()

    async def introduce(self, parts: ServerParts) -> None:
        """Wait for the pool, and make the token of one start: what was made for earlier ones counts no more.

        Raises
        ------
        PoolNotThere
            If there is no pool in time, or none that this server may ask for this.
        """
        identity = await _identity(parts)
        if identity.token.startswith(KERNEL_PREFIX):
            raise PoolNotThere(
                "The token of this server is a kernel's, which asks for that kernel only.",
                hint="Give the server its owner's token.",
            )
        self._generation = max(self._generation + 1, int(time.time()))
        claim = KernelClaim(owner=identity.owner, kernel_id=self._kernel_id, generation=self._generation)
        self.token = mint_kernel_token(identity.token, claim)
        self.close()
        self._pool = KernelPool(lambda: self._connection(parts), parts.link.nudge)

    def _connection(self, parts: ServerParts) -> Connection:
        known = parts.link.connection
        if known is None:
            raise PoolNotThere("There is no pool.", hint="`jupyter gpupool status` says more.")
        return Connection(url=known.url, token=self.token, source=known.source, ca_file=known.ca_file)

    async def get(self, wanted: Wanted, *, label: str) -> None:
        """Have a lease that waits for the kernel: the one that it had, or a new one.

        Raises
        ------
        GPUPoolError
            If it is refused.
        ShareNotGranted
            If it ends before it is granted.
        """
        kept = await self._kept()
        self.kept = kept is not None
        self.moved = kept is not None and kept.node_id != self.node_id
        lease = kept if kept is not None else await self._new(wanted, label)
        self.id, self.node_id = lease.id, lease.node_id

    async def _kept(self) -> LeaseDoc | None:
        """Return the lease that the kernel has, once it waits for it; None when there is none."""
        if not self.id:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGAIN_SECONDS):
                return await self.pool.waiting_lease(self.id)
        return None

    async def _new(self, wanted: Wanted, label: str) -> LeaseDoc:
        wanted.request.holder = HolderRequest(label=label)
        lease = await self.pool.request(wanted.request)
        self.id, said = lease.id, ""
        while lease.state is LeaseState.QUEUED:
            if lease.reason != said:
                said = lease.reason
                self._log.info("Kernel %s waits for %s: %s", self._kernel_id, wanted.words, said)
                self._show(said)
            lease = await self.pool.news_of(lease)
        self._show("")
        if lease.state is not LeaseState.ATTACHING:
            raise _not_granted(lease, wanted)
        return lease

    async def leave(self) -> None:
        """Give the lease back of a kernel that did not start; bounded."""
        lease_id, self.id = self.id, ""
        self._show("")
        if lease_id and self._pool is not None:
            with contextlib.suppress(GPUPoolError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._pool.give_back(lease_id)


async def _identity(parts: ServerParts) -> Identity:
    parts.link.nudge()
    try:
        async with asyncio.timeout(POOL_SECONDS):
            while (  # noqa: ASYNC110 - the link tells nobody
                parts.link.connection is None or (identity := parts.link.identity()) is None
            ):
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise PoolNotThere(
            "The kernel runs with a share of the pool, and there is no pool.",
            hint="`jupyter gpupool status` says more.",
        ) from None
    return identity


def _not_granted(lease: LeaseDoc, wanted: Wanted) -> ShareNotGranted:
    """Say why a request ended without a lease."""
    why = {
        EndReason.CANCELLED: "its request was cancelled",
        EndReason.RELEASED: "its request was cancelled",
        EndReason.WAIT_EXPIRED: "it was not free in time",
    }.get(lease.end_reason or EndReason.RELEASED, lease.end_detail or "its request ended")
    return ShareNotGranted(
        f"The kernel was to run with {wanted.words}, and {why}.",
        hint="Start it again, or choose a kernel with a smaller share or none.",
    )
