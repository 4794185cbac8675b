"""Leases over HTTP.

Rule of this module: one call of the `Desk` for each method.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.handlers import Handler


class LeasesHandler(Handler):
    """``/leases``."""

    async def get(self) -> None:
        """List the live leases."""
        who = self.who
        await self.context.host.settled()
        self.answer(self.context.views.leases(who))

    async def post(self) -> None:
        """Ask for a lease."""
        key = self.request.headers.get("Idempotency-Key")
        doc = await self.context.desk.request(self.who, self.request.body, key)
        self.set_header("Location", f"{names.API_PREFIX}/leases/{doc.id}")
        self.answer(doc, 201)

    async def delete(self) -> None:
        """End every lease of one kernel."""
        who = self.who
        kernel_id = validate.kernel_id(self.get_query_argument("kernel_id", ""))
        reason = validate.end_reason(self.get_query_argument("reason", "released"))
        self.answer(await self.context.desk.release_kernel(who, kernel_id, reason))


class LeaseHandler(Handler):
    """``/leases/{id}``."""

    async def get(self, lease_id: str) -> None:
        """Show it; with ``since`` and ``wait_seconds``, when it has changed."""
        who = self.who
        since = self.get_query_argument("since", None)
        wait_seconds = validate.wait_seconds(self.get_query_argument("wait_seconds", "0"))
        doc = await self.while_connected(self.context.desk.look(who, lease_id, since, wait_seconds))
        if doc is not None:
            self.answer(doc)

    async def patch(self, lease_id: str) -> None:
        """Resize it."""
        doc = await self.context.desk.resize(self.who, lease_id, self.request.body)
        self.answer(doc, 202 if doc.resizing else 200)

    async def delete(self, lease_id: str) -> None:
        """End it."""
        who = self.who
        reason = validate.end_reason(self.get_query_argument("reason", "released"))
        doc = await self.context.desk.release(who, lease_id, reason)
        self.answer(doc, 200 if doc.state is LeaseState.ENDED else 202)
