"""Taking a lease that was asked for on this process's behalf: its ticket is shown, what is asked is applied.

Rule of this module: bounded; nothing is asked of the user, and nothing is shown.
"""

from __future__ import annotations

import time

from msgspec import structs

from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.kernel.attach import AppliedSettings, show_ticket
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, RequestEnded
from jupyter_gpupool.kernel.frameworks import installed
from jupyter_gpupool.protocol.documents import AttachDoc, LeaseDoc
from jupyter_gpupool.protocol.messages import AttachReply

#: Longest single poll, and pause before the same ticket is shown again, seconds.
_POLL_SECONDS, _PAUSE_SECONDS = 1.0, 0.2
_STALE = "stale_ticket"


def take(
    client: PoolClient, lease_id: str, patience_seconds: float
) -> tuple[LeaseDoc, AttachReply, AppliedSettings]:
    """Put this process under a lease, with the environment that the agent asks for.

    Parameters
    ----------
    client : PoolClient
        The pool.
    lease_id : str
        The lease.
    patience_seconds : float
        How long to try.

    Raises
    ------
    GPUPoolError
        If that cannot be, or not in time.
    """
    until = time.monotonic() + patience_seconds
    doc: LeaseDoc | None = None
    while True:
        try:
            known = doc
            doc = client.lease(lease_id, since=known.tag if known else None, wait_seconds=_POLL_SECONDS)
            if doc.state in (LeaseState.ENDING, LeaseState.ENDED):
                raise RequestEnded(f"lease {lease_id} has ended ({doc.end_detail or doc.reason})")
            if doc.state is LeaseState.ATTACHING and doc.attach is not None:
                return _attached(doc, doc.attach)
        except (PoolUnreachable, AgentSilent, AttachRefused) as error:
            if isinstance(error, AttachRefused) and error.code != _STALE:
                raise
            if time.monotonic() > until:
                raise
            doc = None
            time.sleep(_PAUSE_SECONDS)
        if time.monotonic() > until:
            raise RequestEnded(
                f"lease {lease_id} expects no process (it is {doc.state.value if doc else '?'})"
            )


def _attached(doc: LeaseDoc, attach: AttachDoc) -> tuple[LeaseDoc, AttachReply, AppliedSettings]:
    frameworks = installed() if doc.kind is DeviceKind.CUDA else {}
    reply = show_ticket(attach, frameworks=frameworks)
    settings = AppliedSettings()
    settings.apply(structs.replace(reply, caps=[]), frameworks)
    held = structs.replace(
        doc, state=LeaseState.ACTIVE, isolation=reply.isolation, attach=None, reason="Held."
    )
    return held, reply, settings
