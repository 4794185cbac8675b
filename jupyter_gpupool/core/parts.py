"""The parts of leases with devices on several nodes: which are attached, and which have yet to end.

A lease belongs to the node of its first devices, where its holder is; on each of its other nodes a process
may join it, under the part of its shares that is there. Such a process may come and go while the lease is
held; when the lease ends, its shares stay taken until every node has confirmed that nothing of it is left.

Rule of this module: it notes what agents say, and decides nothing. None of it is written down: agents say it
anew when they join.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.core.leases import Isolation


class Joined(NamedTuple):
    """A process that joined a lease on another node than its holder's.

    Attributes
    ----------
    node_id : str
        The node.
    pid : int
        The process there.
    isolation : tuple of Isolation
        What is in force for it.
    since_ms : int
        Pool time of the first report of it.
    """

    node_id: str
    pid: int
    isolation: tuple[Isolation, ...]
    since_ms: int


class Parts:
    """What is known of the parts of all leases."""

    def __init__(self) -> None:
        self._joined: dict[str, dict[str, Joined]] = {}
        #: Leases that end -> the nodes that have confirmed it.
        self._confirmed: dict[str, set[str]] = {}

    def of(self, lease_id: str) -> tuple[Joined, ...]:
        """List the processes that have joined a lease, in the order in which they came."""
        return tuple(self._joined.get(lease_id, {}).values())

    def on(self, node_id: str) -> list[str]:
        """List the leases that a process on a node has joined."""
        return [lease_id for lease_id, parts in self._joined.items() if node_id in parts]

    def join(self, lease_id: str, joined: Joined) -> bool:
        """Note a process; return whether that is news."""
        parts = self._joined.setdefault(lease_id, {})
        before = parts.get(joined.node_id)
        if before is not None and before.pid == joined.pid:
            joined = joined._replace(since_ms=before.since_ms, isolation=joined.isolation or before.isolation)
        parts[joined.node_id] = joined
        self._confirmed.get(lease_id, set()).discard(joined.node_id)
        return before != joined

    def leave(self, lease_id: str, node_id: str) -> bool:
        """Note that nothing has joined a lease on a node any more; return whether that is news."""
        parts = self._joined.get(lease_id, {})
        known = parts.pop(node_id, None) is not None
        if not parts:
            self._joined.pop(lease_id, None)
        return known

    def confirmed(self, lease_id: str) -> set[str]:
        """Return the nodes on which nothing of a lease that ends is left."""
        return self._confirmed.get(lease_id, set())

    def confirm(self, lease_id: str, node_id: str) -> None:
        """Note that nothing of a lease that ends is left on a node."""
        self.leave(lease_id, node_id)
        self._confirmed.setdefault(lease_id, set()).add(node_id)

    def forget(self, lease_id: str) -> None:
        """Drop what is known of a lease that has ended."""
        self._joined.pop(lease_id, None)
        self._confirmed.pop(lease_id, None)

    def known(self) -> set[str]:
        """Return the leases of which anything is known."""
        return {*self._joined, *self._confirmed}
