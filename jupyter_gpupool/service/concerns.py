"""What a person should know about the devices of a pool: what fails, and who uses it without a lease.

Rule of this module: it looks and writes sentences. Owners of leases are not named; owners of processes that
use a device without a lease are, so that somebody can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.core.devices import Device, Health
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.core.wording import because, plural
from jupyter_gpupool.protocol.documents import ProcessDoc
from jupyter_gpupool.service.nodes import NodeBook

#: How many processes one sentence lists.
_LISTED = 4


def device_warnings(pool: Pool, book: NodeBook) -> list[str]:
    """Write one sentence for each device that is not well, and for each that is used without a lease."""
    warnings = []
    for device in sorted(pool.devices.values(), key=lambda it: (it.node_id, it.name)):
        node = pool.nodes[device.node_id]
        if not node.connected:
            continue
        name = f"{device.name} on {node.hostname}" if len(pool.nodes) > 1 else device.name
        if device.health is not Health.HEALTHY:
            warnings.append(_unwell(name, device))
        sample = book.sample(device)
        if sample is not None and sample.unmanaged:
            warnings.append(unmanaged_use(name, sample.unmanaged, sample.unmanaged_bytes))
    return warnings


def _unwell(name: str, device: Device) -> str:
    reason = because(device.health_reason)
    if device.health is Health.FAILED:
        return f"{name} has failed{reason}. It takes no new leases until it is healthy again."
    return f"{name} is degraded{reason}. It is used last; have a look at it."


def unmanaged_use(name: str, processes: Sequence[ProcessDoc], total_bytes: int | None) -> str:
    """Write who uses a device without a lease.

    Parameters
    ----------
    name : str
        The device.
    processes : sequence of ProcessDoc
        At least one.
    total_bytes : int or None
        What they use together, where the driver does not say it for each.
    """
    known = [it.memory_bytes for it in processes if it.memory_bytes is not None]
    size = sum(known) if len(known) == len(processes) else total_bytes
    much = format_memory(size) if size is not None else "an unknown amount"
    who = [f"{it.pid} ({', '.join(part for part in (it.user, it.name) if part)})" for it in processes]
    more = f" and {len(who) - _LISTED} more" if len(who) > _LISTED else ""
    count = plural(len(processes), "process without a lease uses", "processes without a lease use")
    return f"{count} {much} of {name}: {', '.join(who[:_LISTED])}{more}."
