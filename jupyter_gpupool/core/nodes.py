"""The nodes of a pool, as far as the pool knows them.

Rule of this module: what is known of a node comes from its agent; whether it may be relied on comes from
whether that agent is connected, and whether anything is left there that must go.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine of the pool, for display.

    Attributes
    ----------
    id : str
        Stable identity.
    hostname : str
        What people call it; the id until its agent has said so.
    connected : bool
        Whether its agent is connected.
    """

    id: str
    hostname: str
    connected: bool


@dataclass(kw_only=True, slots=True)
class NodeRecord:
    """What the ledger keeps for a node.

    Attributes
    ----------
    node : Node
        What others are shown.
    joined : bool
        Whether its agent has joined since this pool was made.
    grace_until_ms : int or None
        Pool time at which its leases end unless its agent is back; None while connected, and afterwards.
    fencing : set of (str, int)
        Lease id and generation of holders that are there without a live lease, and are being detached.
    devices : tuple of str
        Ids of its devices.
    """

    node: Node
    joined: bool = False
    grace_until_ms: int | None = None
    fencing: set[tuple[str, int]] = field(default_factory=set)
    devices: tuple[str, ...] = ()
