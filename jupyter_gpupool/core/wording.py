"""How the core names things to people: sizes, kinds and devices in its sentences.

Rule of this module: it looks and writes; nothing depends on what it returns.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import Lease, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.shares import format_compute, format_memory

#: What people call a device kind.
KIND_NAMES = {DeviceKind.CPU: "CPU", DeviceKind.CUDA: "CUDA"}
#: How many devices a sentence lists before it says "and N more".
_LISTED = 4


def describe_kind(kind: DeviceKind | None) -> str:
    """Write "a CUDA device", or "a device" when the kind is open."""
    return f"a {KIND_NAMES[kind]} device" if kind is not None else "a device"


def describe_want(want: Want) -> str:
    """Write "0.5 of a CUDA device with 20.0 GiB"."""
    target = want.device or describe_kind(want.kind)
    memory = f" with {format_memory(want.memory_bytes)}" if want.memory_bytes is not None else ""
    return f"{format_compute(want.compute_milli)} of {target}{memory}"


def describe_size(compute_milli: int, memory_bytes: int) -> str:
    """Write "0.25 with 3.0 GiB"."""
    return f"{format_compute(compute_milli)} with {format_memory(memory_bytes)}"


def describe_device(ledger: Ledger, device_id: str) -> str:
    """Write a device's name, with its node where the pool has several; its id when it is unknown."""
    account = ledger.accounts.get(device_id)
    if account is None or account.device is None:
        return device_id
    device = account.device
    if len(ledger.nodes) < 2:
        return device.name
    return f"{device.name} on {ledger.nodes[device.node_id].node.hostname}"


def describe_devices(ledger: Ledger, devices: Iterable[Device]) -> str:
    """List devices with their kinds: "cpu (CPU), cuda0 (CUDA)"."""
    shown = [f"{describe_device(ledger, it.id)} ({KIND_NAMES[it.kind]})" for it in devices]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more if shown else "none"


def describe_lease(ledger: Ledger, lease: Lease) -> str:
    """Write what a lease is about: "0.25 of cpu", or what it wants while it waits."""
    if not lease.shares:
        return describe_want(lease.want)
    share = lease.shares[0]
    return f"{format_compute(share.compute_milli)} of {describe_device(ledger, share.device_id)}"


def plural(count: int, one: str, many: str) -> str:
    """Write "1 request" or "3 requests"."""
    return f"{count} {one if count == 1 else many}"
