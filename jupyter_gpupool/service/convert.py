"""Words of the protocol as values of the core.

Rule of this module: pure, and one function for each kind of value.
"""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.events import HolderSeen
from jupyter_gpupool.core.leases import Isolation
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceReport, HolderReport


def isolation_of(docs: Iterable[IsolationDoc]) -> tuple[Isolation, ...]:
    """Turn what an agent says is in force into the core's values."""
    return tuple(
        Isolation(
            resource=doc.resource,
            strength=doc.strength,
            mechanism=doc.mechanism,
            limit=doc.limit,
            verified=doc.verified,
            note=doc.note,
        )
        for doc in docs
    )


def isolation_docs(values: Iterable[Isolation]) -> list[IsolationDoc]:
    """Show what is in force."""
    return [
        IsolationDoc(
            resource=it.resource,
            strength=it.strength,
            mechanism=it.mechanism,
            limit=it.limit,
            verified=it.verified,
            note=it.note,
        )
        for it in values
    ]


def device_of(node_id: str, report: DeviceReport) -> Device:
    """Turn what an agent says of a device into the core's value."""
    return Device(
        id=report.id,
        node_id=node_id,
        name=report.name,
        kind=report.kind,
        model=report.model,
        memory_bytes=report.memory_bytes,
        compute_units=report.compute_units,
        emulated=report.emulated,
        health=report.health,
        taken_by=report.taken_by,
        unmanaged_bytes=report.unmanaged_bytes,
        health_reason=report.health_reason,
        parent_id=report.parent_id,
        parent_milli=report.parent_milli,
        whole_only=report.whole_only,
        one_owner=report.one_owner,
        most_leases=report.most_leases,
    )


def holders_seen(reports: Iterable[HolderReport]) -> tuple[HolderSeen, ...]:
    """Turn an agent's list of holders into the core's values."""
    return tuple(
        HolderSeen(
            lease_id=report.lease_id,
            generation=report.generation,
            pid=report.pid,
            isolation=isolation_of(report.isolation),
        )
        for report in reports
    )
