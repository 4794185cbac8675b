"""What was configured, as one frozen value, and the parts that share it.

Rule of this module: values only; the composition root (`app`) makes them, everything else is given them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpupool.server.feed import Feed
    from jupyter_gpupool.server.kernels import KernelRoster
    from jupyter_gpupool.server.link import PoolLink
    from jupyter_gpupool.server.slices import ServerSlice
    from jupyter_gpupool.server.stream import PoolStream

#: Key of `ServerParts` in the web application's settings, where handlers and provisioners find them.
PARTS_KEY = "jupyter_gpupool_parts"


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkSettings:
    """How the server finds its pool.

    Attributes
    ----------
    url : str
        Where the pool is; empty to find it (environment, runtime file) or to start the embedded one.
    token : str
        The owner's token for ``url``; empty to find it.
    autostart : bool
        Whether the embedded pool may be started.
    """

    url: str = ""
    token: str = field(default="", repr=False)
    autostart: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerParts:
    """The parts of the extension in one Jupyter server.

    Attributes
    ----------
    feed : Feed
        The newest messages for the browser.
    link : PoolLink
        The link to the pool.
    kernels : KernelRoster
        The kernels that our provisioner runs.
    sockets : set of PoolStream
        The open sockets of browser tabs.
    release_on_shutdown : bool
        Whether the server ends the leases of kernels that it shuts down or gives up.
    snapshots : dict of str to str
        Variables by which kernels are told how to save their state; empty ones are left out.
    slice : ServerSlice or None
        The lease that this server has for all of its kernels; None where it has none.
    """

    feed: Feed
    link: PoolLink
    kernels: KernelRoster
    sockets: set[PoolStream] = field(default_factory=set)
    release_on_shutdown: bool = True
    snapshots: dict[str, str] = field(default_factory=dict)
    slice: ServerSlice | None = None
