"""What administrators do, over HTTP.

Rule of this module: whatever is done to others' leases or to a node is in the audit log before it is done.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.administration import EndRequest
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.web import Answer, Request, json_answer


async def end_lease(request: Request, lease_id: str) -> Answer:
    """End anybody's lease, with a message to whom it belongs."""
    message = validate.message(decode(request.body, EndRequest).message)
    doc = await request.context.desk.end(request.who, lease_id, message)
    return json_answer(doc, 200 if doc.state is LeaseState.ENDED else 202)


async def drain_node(request: Request, name: str) -> Answer:
    """Take no new leases on a node."""
    return json_answer(await request.context.maintenance.drain(request.who, name, request.body))


async def undrain_node(request: Request, name: str) -> Answer:
    """Take leases on a node again."""
    return json_answer(await request.context.maintenance.undrain(request.who, name))


async def get_audit(request: Request) -> Answer:
    """Send what administrators did, newest first."""
    return json_answer(request.context.audit.recent())
