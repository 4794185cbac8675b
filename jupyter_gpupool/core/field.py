"""The devices of one kind or name, with what is free on their nodes.

Rule of this module: it keeps what it is told, and works nothing out about devices itself.
"""

from __future__ import annotations

from collections import Counter

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.asks import FieldKey
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.index import PlacementIndex
from jupyter_gpupool.core.placement.nearest import could_fit, nearest
from jupyter_gpupool.core.placement.rooms import Ask, Room
from jupyter_gpupool.core.policies.score import ScorePolicy

#: For how many requests a field remembers whether it could ever have room for them.
_MOST_ASKS = 1024


class Field:
    """Devices of one kind or name.

    Attributes
    ----------
    index : PlacementIndex
        The nodes, by what is free on them.
    members : dict of str to tuple of Account
        The devices on each node, in a fixed order.
    kinds : Counter
        How many devices of each kind there are.
    stale : dict of str to set of str or None
        Nodes that have changed and were not looked at since, with the devices of which more or less is taken;
        None where anything may be different.
    grown : dict of str to None
        Nodes on which there is more room than there was, until somebody takes note.
    """

    def __init__(self, key: FieldKey, policy: ScorePolicy, demand: Demand) -> None:
        self.key = key
        self.index = PlacementIndex(policy, demand)
        self.members: dict[str, tuple[Account, ...]] = {}
        self.kinds: Counter[DeviceKind] = Counter()
        self.stale: dict[str, set[str] | None] = {}
        self.described: set[str] = set()
        self.grown: dict[str, None] = {}
        self._near: PlacementIndex | None = None
        #: Nodes whose rooms it does not know yet, in the order in which they came.
        self._far: dict[str, None] = {}
        #: Whether requests could ever have room, as long as devices are what they are.
        self._ever: dict[Ask, bool] = {}

    @property
    def near(self) -> PlacementIndex:
        """The nodes by how near they come to having room."""
        if self._near is None:
            self._near = PlacementIndex(nearest, able=could_fit)
            self._far = dict.fromkeys(self.members)
        for node_id in self._far:
            self._near.set_room(node_id, self.index.room(node_id))
        self._far.clear()
        return self._near

    def could_ever(self, ask: Ask) -> bool:
        """Whether there would be room for a request on a node of which nothing is taken."""
        known = self._ever.get(ask)
        if known is None:
            if len(self._ever) >= _MOST_ASKS:
                self._ever.clear()
            known = self._ever[ask] = self.near.best(ask) is not None
        return known

    def set_members(self, node_id: str, accounts: tuple[Account, ...]) -> None:
        """Take over which devices of a node belong to the field."""
        for account in self.members.pop(node_id, ()):
            if account.device is not None:
                self.kinds[account.device.kind] -= 1
        if accounts:
            self.members[node_id] = accounts
            self.kinds.update(it.device.kind for it in accounts if it.device is not None)
        elif node_id in self.index:
            self.index.remove(node_id)
            self._ever.clear()
            self._far.pop(node_id, None)
            if self._near is not None and node_id in self._near:
                self._near.remove(node_id)

    def set_room(self, node_id: str, room: Room) -> None:
        """Take over what is free on a node."""
        before = self.index.room(node_id) if node_id in self.index else None
        if before == room:
            return
        self.index.set_room(node_id, room)
        if self._near is not None:
            self._far[node_id] = None
        if before is None or before.frame != room.frame:
            self._ever.clear()
        if before is None or _has_grown(before, room):
            self.grown[node_id] = None


def _has_grown(before: Room, after: Room) -> bool:
    if before.frame != after.frame or len(before.devices) != len(after.devices):
        return True
    if before.cpu_milli < after.cpu_milli or before.memory_bytes < after.memory_bytes:
        return True
    pairs = zip(before.devices + before.device_bytes, after.devices + after.device_bytes, strict=True)
    return any(less < more for less, more in pairs)
