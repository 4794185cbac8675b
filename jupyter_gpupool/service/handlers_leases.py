"""Leases over HTTP.

Rule of this module: one call of the `Desk` for each method.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.web import Answer, Request, json_answer


async def list_leases(request: Request) -> Answer:
    """Send the live leases."""
    who = request.who
    await request.context.host.settled()
    return json_answer(request.context.views.leases(who))


async def request_lease(request: Request) -> Answer:
    """Ask for a lease."""
    doc = await request.context.desk.request(request.who, request.body, request.header(b"idempotency-key"))
    return json_answer(doc, 201, (b"location", f"{names.API_PREFIX}/leases/{doc.id}".encode()))


async def release_kernel(request: Request) -> Answer:
    """End every lease of one kernel."""
    who = request.who
    kernel_id = validate.kernel_id(request.query("kernel_id") or "")
    reason = validate.end_reason(request.query("reason"))
    return json_answer(await request.context.desk.release_kernel(who, kernel_id, reason))


async def quiesce_kernel(request: Request) -> Answer:
    """Make it safe to signal the processes of one kernel's leases."""
    who = request.who
    kernel_id = validate.kernel_id(request.query("kernel_id") or "")
    return json_answer(await request.context.desk.quiesce_kernel(who, kernel_id))


async def quiesce_lease(request: Request, lease_id: str) -> Answer:
    """Make it safe to signal the processes of one lease."""
    pid = validate.process_id(request.query("pid"))
    return json_answer(await request.context.desk.quiesce(request.who, lease_id, pid))


async def get_why(request: Request, lease_id: str) -> Answer:
    """Say why a lease is as it is."""
    return json_answer(await request.context.desk.why(request.who, lease_id))


async def put_activity(request: Request, lease_id: str) -> Answer:
    """Take what a lease's holder says that it does."""
    return json_answer(await request.context.desk.active(request.who, lease_id, request.body))


async def join_lease(request: Request, lease_id: str) -> Answer:
    """Give out a ticket for a process that joins a lease on one of its nodes."""
    return json_answer(await request.context.desk.join(request.who, lease_id, request.body))


async def move_lease(request: Request, lease_id: str) -> Answer:
    """Have a kernel's lease go on on another node."""
    return json_answer(await request.context.mover.move(request.who, lease_id, request.body))


async def pin_lease(request: Request, lease_id: str) -> Answer:
    """Have a lease not taken back, as far as the quota allows."""
    return json_answer(await request.context.desk.pin(request.who, lease_id, pinned=True))


async def unpin_lease(request: Request, lease_id: str) -> Answer:
    """Let a lease be taken back again."""
    return json_answer(await request.context.desk.pin(request.who, lease_id, pinned=False))


async def get_lease(request: Request, lease_id: str) -> Answer:
    """Send one lease; with ``since`` and ``wait_seconds``, when it has changed."""
    who, since = request.who, request.query("since")
    wait_seconds = validate.wait_seconds(request.query("wait_seconds"))
    look = request.context.desk.look(who, lease_id, since, wait_seconds)
    return json_answer(await (request.while_connected(look) if wait_seconds else look))


async def resize_lease(request: Request, lease_id: str) -> Answer:
    """Ask for another size."""
    doc = await request.context.desk.resize(request.who, lease_id, request.body)
    return json_answer(doc, 202 if doc.resizing else 200)


async def release_lease(request: Request, lease_id: str) -> Answer:
    """End one lease."""
    who = request.who
    doc = await request.context.desk.release(who, lease_id, validate.end_reason(request.query("reason")))
    return json_answer(doc, 200 if doc.state is LeaseState.ENDED else 202)
