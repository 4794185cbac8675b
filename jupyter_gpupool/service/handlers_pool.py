"""Reading the pool over HTTP.

Rule of this module: what is told was written down before.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files

from tornado.iostream import StreamClosedError

from jupyter_gpupool._version import version
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.messages import HealthDoc
from jupyter_gpupool.service.auth import Forbidden, Principal
from jupyter_gpupool.service.handlers import Handler

#: An event stream that has nothing to say sends a comment this often, seconds.
COMMENT_SECONDS = 15.0
#: Least pause between two events of one stream, seconds: after a change, and when only readings changed.
PAUSE_SECONDS, READINGS_PAUSE_SECONDS = 0.1, 1.0


class HealthHandler(Handler):
    """``/health``: the only path that needs no token."""

    def get(self) -> None:
        """Say that the service answers, and which API it speaks."""
        status = "ok" if self.context.host.failure is None else "journal_unavailable"
        self.answer(HealthDoc(status=status, version=version(), api=names.API_MAJOR))


class PoolHandler(Handler):
    """The pool snapshot."""

    async def get(self) -> None:
        """Send it."""
        who = self.who
        await self.context.host.settled()
        self.answer(self.context.views.pool(who))


class DevicesHandler(Handler):
    """All devices."""

    async def get(self) -> None:
        """Send them."""
        who = self.who
        await self.context.host.settled()
        self.answer(self.context.views.devices(who))


class NodesHandler(Handler):
    """All nodes."""

    async def get(self) -> None:
        """Send them."""
        self.who  # noqa: B018 - raises without a good token
        await self.context.host.settled()
        self.answer(self.context.views.nodes())


class QueueHandler(Handler):
    """The requests that wait."""

    async def get(self) -> None:
        """Send them."""
        who = self.who
        await self.context.host.settled()
        self.answer(self.context.views.queue(who))


class UsageHandler(Handler):
    """What the principal's owner has used."""

    async def get(self) -> None:
        """Send it."""
        self.answer(await self.context.usage.of(self.who))


class ContractHandler(Handler):
    """``openapi.yaml``."""

    def get(self) -> None:
        """Send it."""
        self.set_header("Content-Type", "application/yaml")
        self.finish(files("jupyter_gpupool.service").joinpath("openapi.yaml").read_bytes())


class MetricsHandler(Handler):
    """``/metrics``, for Prometheus."""

    async def get(self) -> None:
        """Send all metrics; they count every owner's leases, so a kernel's token is not enough."""
        if self.who.kernel_id:
            raise Forbidden("A kernel's token cannot read the metrics.", hint="Use an owner's token.")
        await self.context.host.settled()
        host, pool = self.context.host, self.context.host.pool
        devices: list[Device] = list(pool.devices.values())
        body = self.context.metrics.render(
            states=[lease.state for lease in host.leases.values()],
            offered=[pool.withheld(device.id) is None for device in devices],
            compute=[(it.kind.value, pool.free(it.id).compute_milli, 1000) for it in devices],
            writable=host.failure is None,
        )
        self.set_header("Content-Type", self.context.metrics.content_type)
        self.finish(body)


class EventsHandler(Handler):
    """The pool snapshot as server-sent events: one at once, and one after each change."""

    async def get(self) -> None:
        """Send events until the client hangs up."""
        who = self.who
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        try:
            await self.while_connected(self._stream(who))
        except StreamClosedError:
            return

    async def _stream(self, who: Principal) -> None:
        watch = self.context.watch
        revision = -1
        while not watch.closed:
            await self.context.host.settled()
            seen = watch.version
            changed, revision = revision != self.context.host.revision, self.context.host.revision
            doc = codec.encode(self.context.views.pool(who)).decode()
            self.write(f"event: pool\nid: {revision}\ndata: {doc}\n\n")
            await self.flush()
            await asyncio.sleep(PAUSE_SECONDS if changed else READINGS_PAUSE_SECONDS)
            while not await watch.pool(seen, COMMENT_SECONDS):
                self.write(": still here\n\n")
                await self.flush()
