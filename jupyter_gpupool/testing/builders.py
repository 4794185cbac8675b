"""Values that tests need, each with a sensible default for everything.

Rule of this module: a builder makes one value and knows no pool.
"""

from __future__ import annotations

from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import Isolation, Resource, Strength, Verified, Want

#: Bytes in a gibibyte, for tests that say sizes.
GIB = 2**30


def a_device(
    name: str = "cpu",
    *,
    node_id: str = "node-1",
    kind: DeviceKind | None = None,
    memory_bytes: int = 16 * GIB,
    compute_units: int = 8,
    emulated: bool = False,
    unmanaged_bytes: int | None = None,
) -> Device:
    """Build a device; its id follows from node and name, its kind from the name unless it is given."""
    kind = kind or (DeviceKind.CUDA if name.startswith("cuda") else DeviceKind.CPU)
    return Device(
        id=f"{kind.value.upper()}-{node_id}-{name}",
        node_id=node_id,
        name=name,
        kind=kind,
        model=f"Test {kind.value}",
        memory_bytes=memory_bytes,
        compute_units=compute_units,
        emulated=emulated,
        unmanaged_bytes=unmanaged_bytes,
    )


def a_want(
    compute_milli: int = 250,
    *,
    memory_bytes: int | None = None,
    kind: DeviceKind | None = None,
    device: str = "",
) -> Want:
    """Build what a request asks for: a quarter of any device unless said otherwise."""
    return Want(compute_milli=compute_milli, memory_bytes=memory_bytes, kind=kind, device=device)


def an_isolation(resource: Resource = Resource.MEMORY, limit: str = "4.0 GiB") -> Isolation:
    """Build what is in force for one resource: a soft limit that was read back."""
    return Isolation(
        resource=resource,
        strength=Strength.SOFT,
        mechanism="soft RLIMIT_DATA, tree summed",
        limit=limit,
        verified=Verified.READ_BACK,
    )
