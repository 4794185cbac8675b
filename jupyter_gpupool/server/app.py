"""The Jupyter Server extension: its settings, and the one place that puts its parts together.

Rule of this module: it starts nothing before the server's loop runs, and waits for nothing after.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Unicode

from jupyter_gpupool.protocol import names
from jupyter_gpupool.server.feed import Feed, KernelsMessage
from jupyter_gpupool.server.handlers import (
    HistoryHandler,
    LeaseHandler,
    LeasePinHandler,
    LeasesHandler,
    LeaseWhyHandler,
    PoolReadHandler,
    SnapshotsHandler,
)
from jupyter_gpupool.server.kernels import KernelRoster
from jupyter_gpupool.server.link import PoolLink
from jupyter_gpupool.server.settings import PARTS_KEY, LinkSettings, ServerParts
from jupyter_gpupool.server.stream import GOING_AWAY, PoolStream
from jupyter_gpupool.server.working import Working

if TYPE_CHECKING:
    from jupyter_gpupool.server.slices import ServerSlice

#: Name of our provisioner's entry point.
PROVISIONER = "gpupool-provisioner"
#: The provisioner that ours may take the place of; any other was chosen by somebody.
_REPLACEABLE = "local-provisioner"
#: Prefix of every path of ours under the server's base URL.
_PREFIX = r"/jupyter_gpupool/api/v1"


class GPUPoolExtension(ExtensionApp):
    """Shows the pool in JupyterLab, and lets kernels use it."""

    name = "jupyter_gpupool"
    parts: ServerParts | None = None
    url = Unicode(
        "",
        help="""URL of the pool's service. Empty: $JUPYTER_GPUPOOL_URL, else this user's running pool, else
        the embedded pool is started.""",
    ).tag(config=True)

    token = Unicode(
        "",
        help="""Your token for `url`. Better set $JUPYTER_GPUPOOL_TOKEN: others can often read configuration
        files.""",
    ).tag(config=True)

    autostart = Bool(
        True,
        help="""Whether the embedded pool may be started when no pool is found. It never is under JupyterHub,
        nor when a URL is configured.""",
    ).tag(config=True)

    default_provisioner = Bool(
        True,
        help="""Whether kernels run under the provisioner `gpupool-provisioner` by default. It starts them as
        the local one does, adds `%gpupool`, and keeps a lease over a kernel's restart. It only ever takes the
        place of `local-provisioner`.""",
    ).tag(config=True)

    release_on_shutdown = Bool(
        True,
        help="""Whether the server tells the pool when it has shut down, or given up, a kernel. Off, its
        leases end when the pool notices by itself; for diagnosis.""",
    ).tag(config=True)

    autosave = Unicode(
        "",
        help="""When kernels save their state by themselves, as `%gpupool autosave` takes it: "every 10m",
        "before shutdown", "off". Empty: every 10m, before shutdown and before a lease is taken back, in
        kernels that have used the pool or snapshots. A notebook can say otherwise.""",
    ).tag(config=True)

    store = Unicode(
        "",
        help="""Where kernels keep their snapshots: an address that fsspec knows, such as s3://bucket/path.
        Empty: in the data directory.""",
    ).tag(config=True)

    def _config_file_name_default(self) -> str:
        """Name the one configuration file of this project: ``jupyter_gpupool_config.py``."""
        return "jupyter_gpupool_config"

    def initialize_settings(self) -> None:
        """Put the parts together: this process's composition root."""
        feed = Feed()
        wanted = LinkSettings(url=self.url, token=self.token, autostart=self.autostart)
        kernels = KernelRoster(on_change=lambda: feed.publish(KernelsMessage(kernels=kernels.kernels)))
        feed.publish(KernelsMessage(kernels=[]))
        link = PoolLink(wanted, feed, log=self.log)
        self.parts = ServerParts(
            feed=feed,
            link=link,
            kernels=kernels,
            release_on_shutdown=self.release_on_shutdown,
            snapshots={names.ENV_AUTOSAVE: self.autosave, names.ENV_STORE: self.store},
            slice=self._slice(link),
        )
        self.settings[PARTS_KEY] = self.parts
        server_lease = self.parts.slice.lease_id if self.parts.slice is not None else ""
        self.working = Working(link, self._running, self.settings["last_activity_times"], server_lease)
        if self.default_provisioner:
            self._offer_provisioner()

    def _slice(self, link: PoolLink) -> ServerSlice | None:
        """Return the lease that the Hub has asked for, for this server and all of its kernels."""
        lease_id = os.environ.get(names.ENV_SERVER_LEASE, "")
        if not lease_id:
            return None
        from jupyter_gpupool.server.slices import ServerSlice

        return ServerSlice(lease_id, link, lambda: list(self._running().values()), log=self.log)

    def _running(self) -> dict[str, Any]:
        """Return the managers of this server's kernels by id."""
        manager: Any = getattr(self.serverapp, "kernel_manager", None)
        return {} if manager is None else {it: manager.get_kernel(it) for it in manager.list_kernel_ids()}

    def initialize_handlers(self) -> None:
        """Add the paths of the API."""
        routes: list[tuple[str, type[Any]]] = [
            (rf"{_PREFIX}/(pool|devices|nodes|queue|usage)", PoolReadHandler),
            (rf"{_PREFIX}/leases", LeasesHandler),
            (rf"{_PREFIX}/leases/([A-Za-z0-9_-]+)", LeaseHandler),
            (rf"{_PREFIX}/leases/([A-Za-z0-9_-]+)/why", LeaseWhyHandler),
            (rf"{_PREFIX}/leases/([A-Za-z0-9_-]+)/(pin|unpin)", LeasePinHandler),
            (rf"{_PREFIX}/history", HistoryHandler),
            (rf"{_PREFIX}/snapshots", SnapshotsHandler),
            (rf"{_PREFIX}/stream", PoolStream),
        ]
        self.handlers.extend(routes)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Begin to look for the pool, now that the loop runs."""
        if self.parts is not None:
            self.parts.link.start()
            self.working.start()
            if self.parts.slice is not None:
                self.parts.slice.start()

    async def stop_extension(self) -> None:
        """Close the link and the sockets. The kernels end after this, and tell the pool by themselves."""
        if self.parts is None:
            return
        for socket in tuple(self.parts.sockets):
            socket.close(GOING_AWAY, "The server stops.")
        if self.parts.slice is not None:
            await self.parts.slice.close()
        await self.working.close()
        await self.parts.link.close()

    def _offer_provisioner(self) -> None:
        """Make our provisioner the default, unless somebody chose another."""
        factory = KernelProvisionerFactory.instance(parent=self.serverapp)
        if factory.default_provisioner_name != _REPLACEABLE:
            self.log.info(
                "jupyter_gpupool: kernels run under “%s”, as configured; `%%load_ext jupyter_gpupool` works.",
                factory.default_provisioner_name,
            )
        elif PROVISIONER not in factory.provisioners:
            self.log.warning(
                "jupyter_gpupool: its entry point “%s” is not installed, so kernels start without it. "
                "Install the package with pip.",
                PROVISIONER,
            )
        else:
            factory.default_provisioner_name = PROVISIONER
