"""What a Jupyter server that has a lease for all of its kernels tells each of them, in one variable.

Rule of this module: no ticket is in it; whoever reads it can do no more than the server's kernels can anyway.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.protocol.documents import LeaseDoc
from jupyter_gpupool.protocol.messages import AttachReply


class SliceDoc(msgspec.Struct, kw_only=True):
    """The lease of a server, as its kernels get it."""

    lease: LeaseDoc
    #: What the agent asked the server to do to itself, and so its kernels to themselves.
    reply: AttachReply
    #: What the variables were before the lease; None for those that were not set.
    before: dict[str, str | None] = {}
