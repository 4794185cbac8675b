"""The openb traces (Alibaba, 2023): reading them, and the published method of measuring placement on them.

The method is that of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), and of the artifact's source:
requests arrive one at a time, up to 1.3 times the pool; nothing departs; what does not fit is dropped; the
curve is the allocated part of the pool's devices over the part that has been asked for.

Rules of this module: the random stream is numpy's, imported when it is used; everything else is plain Python.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.placement.demand import Demand, DemandBook, demand_of
from jupyter_gpupool.core.placement.index import PlacementIndex
from jupyter_gpupool.core.placement.rooms import Ask, Room
from jupyter_gpupool.core.policies.score import ScorePolicy

#: File names of the traces.
NODES_FILE, PODS_FILE = "openb_node_list_gpu_node.csv", "openb_pod_list_{}.csv"
#: How much arrives, in pools.
_ARRIVALS = 1.3
#: Seeds of the node order are those of the arrivals plus this.
_ORDER_SEED = 1_000_000
_MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Nodes and requests.

    Attributes
    ----------
    nodes : tuple of (name, Room)
        In the order of their file.
    asks : tuple of Ask
        In the order of their names, or of their creation.
    """

    nodes: tuple[tuple[str, Room], ...]
    asks: tuple[Ask, ...]

    @property
    def capacity_milli(self) -> int:
        """Thousandths of devices in all."""
        return sum(room.free_milli for _, room in self.nodes)

    def devices_by_model(self) -> dict[str, int]:
        """Return how many devices of each model there are."""
        found: dict[str, int] = {}
        for _, room in self.nodes:
            found[room.model] = found.get(room.model, 0) + len(room.devices)
        return found


def read_trace(folder: Path, pods: str, *, by_creation: bool = False) -> Trace:
    """Read the nodes and one list of pods, by their names or in the order of their creation.

    Raises
    ------
    InvalidValue
        If a file is missing or is not an openb list.
    """
    nodes = node_rooms(folder / NODES_FILE)
    columns = {"name", "cpu_milli", "num_gpu", "gpu_milli"} | ({"creation_time"} if by_creation else set())
    rows = sorted(_rows(folder / PODS_FILE.format(pods), columns), key=lambda row: row["name"])
    if by_creation:
        rows.sort(key=lambda row: float(row["creation_time"]))
    return Trace(nodes=nodes, asks=tuple(_ask(row) for row in rows))


def node_rooms(path: Path) -> tuple[tuple[str, Room], ...]:
    """Read the list of nodes, in the order of the file.

    Raises
    ------
    InvalidValue
        If it is missing or is not an openb list.
    """
    return tuple((row["sn"], _room(row)) for row in _rows(path, {"sn", "cpu_milli", "gpu"}))


def _rows(path: Path, columns: set[str]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue(f"The trace {path} cannot be read: {error}.") from error
    if not rows or not columns <= rows[0].keys():
        missing = ", ".join(sorted(columns - (rows[0].keys() if rows else set())))
        raise InvalidValue(f"{path} is not a list of the openb traces: it has no {missing}.")
    return rows


def _room(row: dict[str, str]) -> Room:
    devices = (1000,) * int(row["gpu"])
    return Room(row["model"], int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB, devices)


def _ask(row: dict[str, str]) -> Ask:
    devices = int(row["num_gpu"])
    models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|")))) if devices else ()
    milli = min(1000, int(row["gpu_milli"])) if devices else 0
    return Ask(int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB, devices, milli, models)


def arrivals(trace: Trace, seed: int, *, shuffled: bool = True) -> list[Ask]:
    """Return the requests in the order of one run: thinned or repeated to 1.3 pools."""
    import numpy as np

    random = np.random.default_rng(seed)
    order = random.permutation(len(trace.asks)) if shuffled else range(len(trace.asks))
    asks = [trace.asks[index] for index in order]
    limit = _ARRIVALS * trace.capacity_milli
    demand = sum(ask.demand_milli for ask in asks)
    while demand > limit:
        demand -= asks.pop(int(random.integers(len(asks)))).demand_milli
    while True:
        ask = trace.asks[int(random.integers(len(trace.asks)))]
        if demand + ask.milli > limit:
            return asks
        asks.append(ask)
        demand += ask.demand_milli


def node_order(trace: Trace, seed: int) -> list[tuple[str, Room]]:
    """Return the nodes in the fixed order of one run."""
    import numpy as np

    ranks = np.random.default_rng(seed + _ORDER_SEED).permutation(len(trace.nodes))
    return [node for _, node in sorted(zip(ranks.tolist(), trace.nodes, strict=True))]


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """What part of the pool was allocated, over what part had been asked for; percent.

    Attributes
    ----------
    allocated : dict of int to float
        By percent asked for.
    dropped : int
        Requests that did not fit.
    """

    allocated: dict[int, float]
    dropped: int

    def at(self, percent: int) -> float:
        """Return the curve at a percent; the nearest one that there is, the lower first."""
        known = sorted(self.allocated)
        place = bisect_left(known, percent)
        near = known[max(0, place - 1) : place + 1]
        return self.allocated[min(near, key=lambda it: (abs(it - percent), it))]


def replay(
    trace: Trace, policy: ScorePolicy, seed: int, *, foresight: bool = False, shuffled: bool = True
) -> Curve:
    """Play one run.

    Parameters
    ----------
    trace : Trace
        Nodes and requests.
    policy : callable
        Scores a node for a request.
    seed : int
        Of the order of arrivals and of nodes.
    foresight : bool
        True to give the policy the statistics of the whole trace beforehand, as the paper does for FGD.
    shuffled : bool
        False to keep the order of the trace.
    """
    asks = arrivals(trace, seed, shuffled=shuffled)
    capacity, models = trace.capacity_milli, trace.devices_by_model()
    book = DemandBook(models)
    index = PlacementIndex(policy, demand_of(trace.asks, models) if foresight else Demand())
    for name, room in node_order(trace, seed):
        index.set_room(name, room)
    asked = allocated = dropped = 0
    sums: dict[int, tuple[float, int]] = {}
    for ask in asks:
        if book.count(ask) and not foresight:
            index.set_demand(book.demand())
        asked += ask.demand_milli
        placement = index.best(ask)
        if placement is None:
            dropped += 1
        else:
            index.take(ask, placement)
            allocated += ask.demand_milli
        percent = round(100 * asked / capacity)
        total, times = sums.get(percent, (0.0, 0))
        sums[percent] = (total + round(100 * allocated / capacity, 2), times + 1)
    return Curve(
        allocated={percent: total / times for percent, (total, times) in sums.items()}, dropped=dropped
    )
