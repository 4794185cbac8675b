"""What the API tells an administrator of leases that could make room; part of `documents`.

Rule of this module: the rules of `documents`.
"""

from __future__ import annotations

import msgspec


class ProposedMoveDoc(msgspec.Struct, kw_only=True):
    """A lease that would have to move, as an administrator sees it."""

    lease_id: str
    owner: str
    #: What its owner knows it by.
    holder: str
    compute_milli: int
    #: Names of the device that it has a share of, of one that has room for it, and of their nodes.
    from_device: str
    from_hostname: str
    to_device: str
    to_hostname: str


class ProposalDoc(msgspec.Struct, kw_only=True):
    """A request that would fit if a few leases moved: a proposal to the people, the pool moves nobody."""

    lease_id: str
    owner: str
    position: int
    #: What it waits for, in words, and for how long.
    waits_for: str
    waited_seconds: float
    moves: list[ProposedMoveDoc]
