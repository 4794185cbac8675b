"""Values that tests need, each with a sensible default for everything.

Rule of this module: a builder makes one value and knows no pool.
"""

from __future__ import annotations

from jupyter_gpupool.core.devices import Device, DeviceKind, Health
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
    health: Health = Health.HEALTHY,
    one_owner: bool = False,
    most_leases: int | None = None,
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
        health=health,
        one_owner=one_owner,
        most_leases=most_leases,
    )


def a_mig_instance(
    name: str = "cuda0-mig0",
    sevenths: int = 2,
    *,
    node_id: str = "node-1",
    memory_bytes: int = 20 * GIB,
    compute_units: int = 28,
) -> Device:
    """Build a MIG instance of so many sevenths of its GPU, which its name begins with."""
    parent = name.rpartition("-")[0]
    return Device(
        id=f"MIG-{node_id}-{name}",
        node_id=node_id,
        name=name,
        kind=DeviceKind.CUDA,
        model="Test MIG",
        memory_bytes=memory_bytes,
        compute_units=compute_units,
        parent_id=f"GPU-{node_id}-{parent}",
        parent_milli=1000 * sevenths // 7,
        whole_only=True,
    )


def a_want(
    compute_milli: int = 250,
    *,
    memory_bytes: int | None = None,
    kind: DeviceKind | None = None,
    device: str = "",
    host_cpu_milli: int = 0,
    host_memory_bytes: int = 0,
    model: str = "",
) -> Want:
    """Build what a request asks for: a quarter of any device unless said otherwise."""
    return Want(
        compute_milli=compute_milli,
        memory_bytes=memory_bytes,
        kind=kind,
        device=device,
        host_cpu_milli=host_cpu_milli,
        host_memory_bytes=host_memory_bytes,
        model=model,
    )


def an_isolation(resource: Resource = Resource.MEMORY, limit: str = "4.0 GiB") -> Isolation:
    """Build what is in force for one resource: a soft limit that was read back."""
    return Isolation(
        resource=resource,
        strength=Strength.SOFT,
        mechanism="soft RLIMIT_DATA, tree summed",
        limit=limit,
        verified=Verified.READ_BACK,
    )
