"""Finds the best node for a request without looking at every node.

Nodes with equal rooms are one group; for each shape of request a heap keeps the groups by score. When a node
changes, the groups that it left and joined are noted; a shape looks only at what was noted since it was last
asked for. So a decision costs what changed, not how large the pool is.

Rules of this module: the answer is always that of a look at every node (a test compares them); scores are
asked for once for each shape and room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room, fits, take
from jupyter_gpupool.core.policies.score import Scored, ScorePolicy

#: How many shapes are remembered.
_MOST_SHAPES = 512
#: A heap is built anew when so many of its entries are out of date for each that is not.
_MOST_STALE = 4
#: That, and looking at all groups rather than at those that changed, is not worth while below these numbers.
_FEW_STALE, _FEW_CHANGED = 64, 8


class Placement(NamedTuple):
    """Where a request goes."""

    node: str
    devices: tuple[int, ...]
    score: int


class _Group:
    """The nodes with one room: their ranks in a heap, among them some that have left."""

    __slots__ = ("ranks", "size")

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.size = 0


class _View:
    """What one shape of request knows."""

    __slots__ = ("heap", "scores", "seen")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Room]] = []
        self.scores: dict[Room, Scored] = {}
        self.seen = 0


class PlacementIndex:
    """The nodes of a pool, by what is free on them.

    Parameters
    ----------
    policy : callable
        Scores a node for a request.
    demand : Demand
        Statistics that it is given.
    able : callable
        Whether a node comes into question for a request.

    Attributes
    ----------
    demand : Demand
        The statistics.
    """

    def __init__(
        self,
        policy: ScorePolicy,
        demand: Demand | None = None,
        able: Callable[[Ask, Room], bool] = fits,
    ) -> None:
        self._policy = policy
        self._able = able
        self.demand = demand or Demand()
        self._rooms: list[Room | None] = []
        self._names: list[str] = []
        self._ranks: dict[str, int] = {}
        self._groups: dict[Room, _Group] = {}
        #: Rooms whose group has changed, in the order of the changes.
        self._log: list[Room] = []
        self._views: OrderedDict[Ask, _View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, node: str) -> bool:
        return node in self._ranks

    def room(self, node: str) -> Room:
        """Return what is free on a node."""
        room = self._rooms[self._ranks[node]]
        assert room is not None  # noqa: S101 - a node that has a rank has a room
        return room

    def set_room(self, node: str, room: Room) -> None:
        """Note what is free on a node; a new one comes last in the fixed order."""
        rank = self._ranks.get(node)
        if rank is None:
            rank = self._ranks[node] = len(self._rooms)
            self._rooms.append(None)
            self._names.append(node)
        self._move(rank, room)

    def remove(self, node: str) -> None:
        """Forget a node."""
        self._move(self._ranks.pop(node), None)

    def set_demand(self, demand: Demand) -> None:
        """Take other statistics: all scores are asked for anew."""
        self.demand = demand
        self._views.clear()

    def best(self, ask: Ask) -> Placement | None:
        """Find the best node for a request; None when it fits on none."""
        view = self._view(ask)
        self._catch_up(ask, view)
        while view.heap:
            _, rank, room = view.heap[0]
            if self._first(room) == rank:
                scored = view.scores[room]
                return Placement(self._names[rank], scored.devices, scored.score)
            heappop(view.heap)
        return None

    def first(self, ask: Ask, most: int) -> list[Placement]:
        """List the best nodes for a request, at most so many, and one of those that are equally free."""
        found: dict[tuple[int, int, Room], Placement] = {}
        while len(found) < most and (placement := self.best(ask)) is not None:
            # the same entry stands there again for each change of its group: once is enough
            found[heappop(self._views[ask].heap)] = placement
        for entry in found:
            heappush(self._views[ask].heap, entry)
        return list(found.values())

    def take(self, ask: Ask, placement: Placement) -> None:
        """Let a request take what was found for it."""
        self.set_room(placement.node, take(ask, self.room(placement.node), placement.devices))

    # --- groups -------------------------------------------------------------------------------------

    def _move(self, rank: int, room: Room | None) -> None:
        before = self._rooms[rank]
        if before == room:
            return
        self._rooms[rank] = room
        if before is not None:
            group = self._groups[before]
            group.size -= 1
            if not group.size:
                del self._groups[before]
            self._log.append(before)
        if room is not None:
            group = self._groups.setdefault(room, _Group())
            group.size += 1
            heappush(group.ranks, rank)
            self._log.append(room)
        if len(self._log) > max(4096, 4 * len(self._rooms)):
            self._forget_log()

    def _forget_log(self) -> None:
        """Start the log anew; shapes that have not seen all of it start anew too."""
        end = len(self._log)
        self._views = OrderedDict((ask, view) for ask, view in self._views.items() if view.seen == end)
        for view in self._views.values():
            view.seen = 0
        self._log.clear()

    def _first(self, room: Room) -> int | None:
        """Return the first node in the fixed order that has this room."""
        group = self._groups.get(room)
        if group is None:
            return None
        while self._rooms[group.ranks[0]] != room:
            heappop(group.ranks)
        return group.ranks[0]

    # --- views --------------------------------------------------------------------------------------

    def _view(self, ask: Ask) -> _View:
        view = self._views.get(ask)
        if view is None:
            view = self._views[ask] = _View()
            self._fill(ask, view)
            if len(self._views) > _MOST_SHAPES:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(ask)
        return view

    def _fill(self, ask: Ask, view: _View) -> None:
        """Look at all groups."""
        view.scores = {room: view.scores[room] for room in self._groups if room in view.scores}
        view.heap = [entry for room in self._groups if (entry := self._entry(ask, view, room)) is not None]
        heapify(view.heap)
        view.seen = len(self._log)

    def _catch_up(self, ask: Ask, view: _View) -> None:
        """Look at the groups that changed since this shape was last asked for."""
        changed = self._log[view.seen :]
        if not changed:
            return
        most = _MOST_STALE * len(self._groups) + _FEW_STALE
        if len(changed) > len(self._groups) + _FEW_CHANGED or max(len(view.heap), len(view.scores)) > most:
            self._fill(ask, view)
            return
        view.seen = len(self._log)
        for room in dict.fromkeys(changed):
            if (entry := self._entry(ask, view, room)) is not None:
                heappush(view.heap, entry)

    def _entry(self, ask: Ask, view: _View, room: Room) -> tuple[int, int, Room] | None:
        if not self._able(ask, room) or (rank := self._first(room)) is None:
            return None
        scored = view.scores.get(room)
        if scored is None:
            scored = view.scores[room] = self._policy(ask, room, self.demand)
        return -scored.score, rank, room
