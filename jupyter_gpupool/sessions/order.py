"""What a worker's process is told, in one line on its standard input.

Rule of this module: secrets (the ticket, the keys) are here and nowhere else: neither the arguments nor the
environment of a process are private.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.protocol.documents import AttachDoc


class WorkerOrder(msgspec.Struct, kw_only=True):
    """How to become a worker of a session cluster."""

    #: Of this structure; `jupyter_gpupool.protocol.names.FORMAT`.
    format: int
    #: Its name in the cluster.
    name: str
    lease_id: str
    #: The ticket, and where to show it.
    attach: AttachDoc
    #: True when frameworks of its device are to be looked for.
    cuda: bool
    #: Bytes of the device's memory; 0 when unknown.
    device_memory_bytes: int
    #: Address of the cluster's scheduler.
    scheduler: str
    #: Address that the worker listens on; empty for the one from which it reaches the scheduler.
    host: str
    nthreads: int
    memory_limit_bytes: int
    resources: dict[str, float]
    #: PEM of the cluster; empty where it has no keys.
    certificate: str
    key: str
    #: Dask's configuration, as `dask.config.serialize` writes it.
    config: str
    #: Where modules of the session are looked for.
    path: list[str]
    #: Process of the kernel; 0 where it is on another machine.
    parent: int

    def __repr__(self) -> str:
        return f"WorkerOrder(name={self.name!r}, lease_id={self.lease_id!r}, …)"
