"""What administrators say to the pool, and what it writes down of what they did.

Rule of this module: structs only, as in `documents`.
"""

from __future__ import annotations

import msgspec


class EndRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /leases/{id}/end``: what an administrator has to say to whom it belongs."""

    message: str = ""


class DrainRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /nodes/{name}/drain``."""

    #: Why, for people.
    message: str = ""
    #: After how many seconds the leases there are ended; None when they stay for as long as they like.
    grace_seconds: float | None = None


class AuditDoc(msgspec.Struct, kw_only=True, frozen=True):
    """Something that an administrator did."""

    #: When, UTC, milliseconds since 1970.
    wall_ms: int
    #: The administrator.
    who: str
    #: What was done, such as ``end`` or ``drain``.
    action: str
    #: To what: the id of a lease, or a node.
    subject: str
    #: Whose it was; empty for what is nobody's.
    owner: str
    #: What the administrator had to say.
    detail: str = ""
