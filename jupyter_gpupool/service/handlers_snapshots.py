"""Snapshots over HTTP: the index that holders report, and their owner's key.

Rule of this module: one call of the `SnapshotIndex` for each method.
"""

from __future__ import annotations

from jupyter_gpupool.service.web import Answer, Request, json_answer


async def list_snapshots(request: Request) -> Answer:
    """Send the snapshots of the principal's owner."""
    return json_answer(await request.context.snapshots.of(request.who))


async def report_snapshots(request: Request) -> Answer:
    """Take what a holder says of a store."""
    return json_answer(await request.context.snapshots.told(request.who, request.body))


async def get_key(request: Request) -> Answer:
    """Send the key that the snapshots of the principal's owner are signed with."""
    return json_answer(await request.context.snapshots.key(request.who))
