"""Processes of leases over HTTP.

Rule of this module: one call of `Processes` for each method.
"""

from __future__ import annotations

from jupyter_gpupool.service import validate
from jupyter_gpupool.service.launch_checks import signal_number
from jupyter_gpupool.service.web import Answer, Request, json_answer


async def start_process(request: Request, lease_id: str) -> Answer:
    """Start a process on a lease's node."""
    doc = await request.context.processes.start(request.who, lease_id, request.body)
    return json_answer(doc, 201, (b"location", f"{request.path}/{doc.id}".encode()))


async def get_process(request: Request, lease_id: str, process_id: str) -> Answer:
    """Send one process; with ``since`` and ``wait_seconds``, when it has changed."""
    who, since = request.who, request.query("since")
    wait_seconds = validate.wait_seconds(request.query("wait_seconds"))
    look = request.context.processes.look(who, lease_id, process_id, since, wait_seconds)
    return json_answer(await (request.while_connected(look) if wait_seconds else look))


async def signal_process(request: Request, lease_id: str, process_id: str) -> Answer:
    """Send a signal to a process, or end it."""
    number = signal_number(request.query("signal"))
    doc = await request.context.processes.signal(request.who, lease_id, process_id, number)
    return json_answer(doc, 202)
