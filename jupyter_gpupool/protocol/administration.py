"""What administrators say to the pool, and what it writes down of what they did.

Rule of this module: structs only, as in `documents`.
"""

from __future__ import annotations

import msgspec


class EndRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /leases/{id}/end``: what an administrator has to say to whom it belongs."""

    message: str = ""


class AuditDoc(msgspec.Struct, kw_only=True, frozen=True):
    """Something that an administrator did."""

    #: When, UTC, milliseconds since 1970.
    wall_ms: int
    #: The administrator.
    who: str
    #: What was done, such as ``end``.
    action: str
    #: To what: the id of a lease.
    subject: str
    #: Whose it was.
    owner: str
    #: What the administrator had to say.
    detail: str = ""
