"""The requests that wait: in the order of arrival, and by what they ask for.

Requests of one owner that ask for the same in the same way are one group: of a group only the first is ever
looked at, because the others cannot have what it cannot have.

Rule of this module: it sorts, and decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Lease, Priority, Want


class Shape(NamedTuple):
    """What is asked for."""

    kind: DeviceKind | None
    device: str
    compute_milli: int
    memory_bytes: int | None
    devices: int
    spread: bool
    host_cpu_milli: int = 0
    host_memory_bytes: int = 0
    model: str = ""


class Group(NamedTuple):
    """Who asks for it, and how."""

    shape: Shape
    owner: str
    priority: Priority
    hold_ms: int | None
    #: The holder, where there may be room for it that is not for others: it has something there already.
    holder: str = ""


def group_of(lease: Lease, *, apart: bool = False) -> Group:
    """Return the group of a request; one of its own where it is looked at ``apart`` from all others."""
    want = lease.want
    shape = Shape(
        *(want.kind, want.device, want.compute_milli, want.memory_bytes, want.count, want.spread),
        *(want.host_cpu_milli, want.host_memory_bytes, want.model),
    )
    holder = lease.holder.key if apart else ""
    return Group(shape, lease.owner, want.priority, lease.hold_ms, holder)


def want_of(shape: Shape) -> Want:
    """Return a request of a shape."""
    return Want(
        kind=shape.kind,
        device=shape.device,
        compute_milli=shape.compute_milli,
        memory_bytes=shape.memory_bytes,
        count=shape.devices,
        spread=shape.spread,
        host_cpu_milli=shape.host_cpu_milli,
        host_memory_bytes=shape.host_memory_bytes,
        model=shape.model,
    )


class Waiting:
    """The requests that wait.

    Attributes
    ----------
    groups : dict of Group to list of (int, str)
        Time and id of their requests, in the order of arrival; at least one.
    shapes : dict of Shape to dict of Group to list of (int, str)
        The same by what they ask for.
    kinds : dict of DeviceKind or None to int
        How many requests there are for each kind.
    fresh : dict of Group to None
        Groups that got a request, until somebody takes note.
    apart : dict of Group to None
        Groups of a single holder that has something of a node already.
    """

    def __init__(self) -> None:
        # Two lists in step: sort keys to search in, and the requests themselves.
        self._arrivals: list[tuple[int, str]] = []
        self._leases: list[Lease] = []
        self.groups: dict[Group, list[tuple[int, str]]] = {}
        self.shapes: dict[Shape, dict[Group, list[tuple[int, str]]]] = {}
        self.kinds: dict[DeviceKind | None, int] = {}
        self.fresh: dict[Group, None] = {}
        self.apart: dict[Group, None] = {}
        self._apart_ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._arrivals)

    def all(self) -> list[Lease]:
        """List the requests in the order of arrival."""
        return self._leases.copy()

    def group(self, lease: Lease) -> Group:
        """Return the group that a request is in."""
        return group_of(lease, apart=lease.id in self._apart_ids)

    def set_apart(self, lease: Lease, *, apart: bool) -> None:
        """Say whether a request is looked at apart from all others."""
        if apart is not (lease.id in self._apart_ids):
            self.remove(lease)
            self.add(lease, apart=apart)

    def add(self, lease: Lease, *, apart: bool = False) -> None:
        """Take a request in."""
        key = (lease.requested_ms, lease.id)
        place = bisect_left(self._arrivals, key)
        self._arrivals.insert(place, key)
        self._leases.insert(place, lease)
        if apart:
            self._apart_ids.add(lease.id)
        group = self.group(lease)
        if apart:
            self.apart[group] = None
        of_group = self.groups.setdefault(group, [])
        of_group.insert(bisect_left(of_group, key), key)
        self.shapes.setdefault(group.shape, {})[group] = of_group
        self.kinds[group.shape.kind] = self.kinds.get(group.shape.kind, 0) + 1
        self.fresh[group] = None

    def remove(self, lease: Lease) -> None:
        """Let a request go."""
        key = (lease.requested_ms, lease.id)
        place = bisect_left(self._arrivals, key)
        del self._arrivals[place], self._leases[place]
        group = self.group(lease)
        self._apart_ids.discard(lease.id)
        of_group = self.groups[group]
        del of_group[bisect_left(of_group, key)]
        if not of_group:
            del self.groups[group]
            self.apart.pop(group, None)
            groups = self.shapes[group.shape]
            del groups[group]
            if not groups:
                del self.shapes[group.shape]
        self.kinds[group.shape.kind] -= 1
        if not self.kinds[group.shape.kind]:
            del self.kinds[group.shape.kind]
