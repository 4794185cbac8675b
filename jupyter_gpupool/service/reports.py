"""What agents report, as events of the core.

Rule of this module: one report makes at most one event; agents send durations and lists, never timestamps, so
the time of an event is the time at which its report came in.
"""

from __future__ import annotations

from jupyter_gpupool.core.events import (
    AgentJoined,
    AttachRefused,
    Event,
    HolderAttached,
    HolderDetached,
    HolderExited,
    HoldersReported,
    LimitsApplied,
    LimitsRefused,
)
from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    ExitedReport,
    HelloReport,
    HoldersReport,
    Report,
)
from jupyter_gpupool.service.clock import Now
from jupyter_gpupool.service.convert import device_of, holders_seen, isolation_of


def joined(hello: HelloReport, now: Now) -> AgentJoined:
    """Make the event for an agent that has connected."""
    return AgentJoined(
        now_ms=now.now_ms,
        wall_ms=now.wall_ms,
        node_id=hello.node_id,
        hostname=hello.hostname,
        devices=tuple(device_of(hello.node_id, device) for device in hello.devices),
        holders=holders_seen(hello.holders),
    )


def holders_event(
    node_id: str, report: HoldersReport, asked_ms: int | None, now: Now
) -> HoldersReported | None:
    """Make the event for a list of holders; None when it answers nothing that was asked."""
    if asked_ms is None:
        return None
    return HoldersReported(
        now_ms=now.now_ms,
        wall_ms=now.wall_ms,
        node_id=node_id,
        holders=holders_seen(report.holders),
        asked_ms=asked_ms,
    )


def lease_event(node_id: str, report: Report, now: Now) -> Event | None:
    """Make the event for a report on one lease; None for a report of another kind."""
    now_ms, wall_ms = now.now_ms, now.wall_ms
    match report:
        case AttachedReport(lease_id=lease_id, generation=generation):
            return HolderAttached(
                now_ms=now_ms,
                wall_ms=wall_ms,
                lease_id=lease_id,
                generation=generation,
                pid=report.pid,
                isolation=isolation_of(report.isolation),
                node_id=node_id,
            )
        case AttachRefusedReport(lease_id=lease_id, generation=generation, detail=detail):
            return AttachRefused(
                now_ms=now_ms,
                wall_ms=wall_ms,
                lease_id=lease_id,
                generation=generation,
                detail=detail,
                node_id=node_id,
            )
        case AppliedReport(lease_id=lease_id, generation=generation):
            return LimitsApplied(
                now_ms=now_ms,
                wall_ms=wall_ms,
                lease_id=lease_id,
                generation=generation,
                isolation=isolation_of(report.isolation),
            )
        case ApplyRefusedReport(lease_id=lease_id, generation=generation, detail=detail):
            return LimitsRefused(
                now_ms=now_ms, wall_ms=wall_ms, lease_id=lease_id, generation=generation, detail=detail
            )
        case ExitedReport(lease_id=lease_id, generation=generation, detail=detail):
            return HolderExited(
                now_ms=now_ms,
                wall_ms=wall_ms,
                lease_id=lease_id,
                generation=generation,
                detail=detail,
                node_id=node_id,
            )
        case DetachedReport(lease_id=lease_id, generation=generation):
            return HolderDetached(
                now_ms=now_ms, wall_ms=wall_ms, lease_id=lease_id, generation=generation, node_id=node_id
            )
        case _:
            return None
