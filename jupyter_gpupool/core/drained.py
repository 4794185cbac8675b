"""Which nodes are drained.

Rule of this module: a drain outlives the node's agent and the service; only an administrator ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """What an administrator has said of one node.

    Attributes
    ----------
    node_id : str
        The node.
    hostname : str
        What people call it, also before it has joined; for display only.
    message : str
        Why, for people; may be empty.
    until_ms : int or None
        Pool time at which the leases there are ended; None when they stay for as long as they like.
    """

    node_id: str
    hostname: str = ""
    message: str = ""
    until_ms: int | None = None


class Drains:
    """The drained nodes of one ledger.

    Parameters
    ----------
    drains : iterable of Drain
        From the journal.
    """

    def __init__(self, drains: Iterable[Drain] = ()) -> None:
        self._by_node = {it.node_id: it for it in drains}
        #: Nodes whose leases are still to be ended.
        self._due = {it.node_id: None for it in self._by_node.values() if it.until_ms is not None}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def of(self, node_id: str) -> Drain | None:
        """Return the drain of a node; None when it has none."""
        return self._by_node.get(node_id)

    def all(self) -> list[Drain]:
        """List them all."""
        return list(self._by_node.values())

    def put(self, drain: Drain) -> None:
        """Begin a drain, or say another thing of one."""
        self.remove(drain.node_id)
        self._by_node[drain.node_id] = drain
        if drain.until_ms is not None:
            self._due[drain.node_id] = None

    def remove(self, node_id: str) -> None:
        """Forget a drain."""
        self._by_node.pop(node_id, None)
        self._due.pop(node_id, None)

    def done(self, node_id: str) -> None:
        """Note that the leases of a node were ended."""
        self._due.pop(node_id, None)

    @property
    def passed(self) -> list[str]:
        """List the nodes whose leases were ended."""
        return [it.node_id for it in self.all() if it.until_ms is not None and it.node_id not in self._due]

    @property
    def wake_ms(self) -> int | None:
        """Pool time at which leases are ended next; None when none are."""
        return min((self._by_node[it].until_ms or 0 for it in self._due), default=None)
