"""Moves of leases to other nodes, as the HTTP API carries them.

Rules of this module: those of `jupyter_gpupool.protocol.documents`, which names these structures, too.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.core.devices import DeviceKind


class MoveRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /leases/{id}/move``: what a kernel's lease is to have on another node than its own."""

    compute_milli: int
    memory_bytes: int | None = None
    kind: DeviceKind | None = None
    device: str = ""
    model: str = ""
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0
    #: True to be told where that would be; nothing moves then.
    only_ask: bool = False


class MovedDoc(msgspec.Struct, kw_only=True):
    """Where a lease has moved to, or would."""

    lease_id: str
    node_id: str
    hostname: str
    #: Names of its devices there.
    devices: list[str]
    compute_milli: int
    memory_bytes: int
    kind: DeviceKind
    #: False where it was only asked.
    moved: bool
