"""What one decision of the pool costs, by the number of devices and of requests that wait.

A pool is filled, requests queue up, and then leases end and new requests come, one for one; every call of
`Pool.handle` is timed: requests, releases, reports that holders are gone (after which the queue is served),
and attaches. Nodes have eight GPUs; owners, sizes and priorities are mixed; everything is in memory, so that
this is the cost of deciding alone.

In the same run: one bare heap operation and dictionary access among as many entries, which nothing that keeps
devices in order can do without.
"""

from __future__ import annotations

import gc
import heapq
import os
import random
import sys
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypedDict

from _common import CouldNotMeasure, Report, percentile, run_benchmark

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.effects import Detach, PrepareAttach
from jupyter_gpupool.core.leases import Holder, Lease, LeaseState, Priority, Share, Want
from jupyter_gpupool.core.pool import Pool

#: Devices and waiting requests of each case, and of those of a quick look.
CASES = (
    (100, 100),
    (1_000, 1_000),
    (1_000, 100),
    (10_000, 100),
    (10_000, 1_000),
    (10_000, 10_000),
    (100_000, 1_000),
)
QUICK = ((100, 100), (1_000, 1_000), (10_000, 1_000))
#: What fills a device: thousandths of the leases on it.
FILLS = ((1000,), (500, 500), (250, 250, 500), (250, 250, 250, 250), (810,), (470, 470), (320, 320, 320))
SIZES = (1000, 500, 500, 250, 250, 250, 810, 470, 320)
PRIORITIES = (Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.NORMAL, Priority.HIGH)
PER_NODE, GIB = 8, 2**30
OWNERS = 200
#: How long a lease is held, in the mean: time passes accordingly.
HELD_MS = 30 * 60_000


@dataclass(frozen=True)
class Cost:
    """What one case costs.

    Attributes
    ----------
    seconds : list of float
        Of each call.
    device_bytes, lease_bytes : float
        Memory for one device and one lease; resident set.
    bare_seconds : float
        One heap replacement and one dictionary access among as many entries.
    """

    seconds: list[float]
    device_bytes: float
    lease_bytes: float
    bare_seconds: float


class When(TypedDict):
    """The two times of an event."""

    now_ms: int
    wall_ms: int


class Site:
    """A pool, its agents, and its owners."""

    def __init__(self, devices: int, order: str) -> None:
        self.random = random.Random(7)
        self.now_ms = 0
        self.count = 0
        self.seconds: list[float] = []
        self.orders: deque[ev.Event] = deque()
        before = _resident_bytes()
        self.nodes = {
            f"node-{node:05d}": tuple(_device(node, place) for place in range(PER_NODE))
            for node in range(devices // PER_NODE)
        }
        leases = self._leases()
        self.config = PoolConfig(order=order)
        with_leases = _resident_bytes()
        self.pool = Pool(self.config, leases=leases)
        self.live = [lease.id for lease in leases]
        for node_id, of_node in self.nodes.items():
            holders = self._holders(of_node)
            self._join(node_id, of_node, holders)
        after = _resident_bytes()
        self.lease_bytes = max(0.0, with_leases - before) / max(1, len(leases))
        self.device_bytes = max(0.0, after - with_leases) / max(1, devices)

    def _leases(self) -> list[Lease]:
        """Make the leases that fill the pool."""
        leases = []
        self.on_device: dict[str, list[Lease]] = {}
        for node_id, devices in self.nodes.items():
            for device in devices:
                for milli in self.random.choice(FILLS):
                    lease = self._lease(node_id, device, milli)
                    leases.append(lease)
                    self.on_device.setdefault(device.id, []).append(lease)
        return leases

    def _lease(self, node_id: str, device: Device, milli: int) -> Lease:
        self.count += 1
        share = Share(
            device_id=device.id, compute_milli=milli, memory_bytes=milli * device.memory_bytes // 1000
        )
        return Lease(
            id=f"lease_{self.count:08d}",
            owner=f"owner-{self.random.randrange(OWNERS)}",
            holder=Holder(key=f"holder-{self.count}"),
            want=Want(compute_milli=milli, kind=DeviceKind.CUDA),
            state=LeaseState.ACTIVE,
            requested_ms=0,
            requested_wall_ms=0,
            granted_ms=0,
            active_ms=0,
            shares=(share,),
            node_id=node_id,
            generation=1,
            pid=self.count,
            used_until_ms=0,
            hold_ms=3_600_000 * (1 + self.count % 24) if self.count % 3 == 0 else None,
        )

    def _holders(self, devices: tuple[Device, ...]) -> tuple[ev.HolderSeen, ...]:
        return tuple(
            ev.HolderSeen(lease_id=lease.id, generation=1, pid=lease.pid or 0)
            for device in devices
            for lease in self.on_device[device.id]
        )

    def _join(self, node_id: str, devices: tuple[Device, ...], holders: tuple[ev.HolderSeen, ...]) -> None:
        self.pool.handle(
            ev.AgentJoined(
                node_id=node_id, hostname=node_id, devices=devices, holders=holders, now_ms=0, wall_ms=0
            )
        )

    def handle(self, event: ev.Event) -> None:
        """Time one call, and remember what agents must do."""
        begun = time.perf_counter()
        effects = self.pool.handle(event)
        self.seconds.append(time.perf_counter() - begun)
        for effect in effects:
            if isinstance(effect, PrepareAttach):
                self.orders.append(
                    ev.HolderAttached(
                        lease_id=effect.lease.id, generation=1, pid=1, isolation=(), **self.when
                    )
                )
                self.live.append(effect.lease.id)
            elif isinstance(effect, Detach):
                self.orders.append(
                    ev.HolderDetached(lease_id=effect.lease_id, generation=effect.generation, **self.when)
                )

    @property
    def when(self) -> When:
        """The two times of an event that happens now."""
        return {"now_ms": self.now_ms, "wall_ms": self.now_ms}

    def request(self) -> None:
        """Let an owner ask for something."""
        self.count += 1
        want = Want(
            compute_milli=self.random.choice(SIZES),
            kind=DeviceKind.CUDA,
            priority=self.random.choice(PRIORITIES),
        )
        hold_ms = self.random.choice((None, None, 3_600_000, 7_200_000))
        self.handle(
            ev.LeaseRequested(
                lease_id=f"lease_{self.count:08d}",
                owner=f"owner-{self.random.randrange(OWNERS)}",
                holder=Holder(key=f"holder-{self.count}"),
                want=want,
                hold_ms=hold_ms,
                **self.when,
            )
        )

    def cycle(self) -> None:
        """Let one lease end and one request come, and agents do what they are told."""
        self.now_ms += max(1, HELD_MS // len(self.live))
        lease = None
        while lease is None or lease.state is not LeaseState.ACTIVE:
            place = self.random.randrange(len(self.live))
            self.live[place], self.live[-1] = self.live[-1], self.live[place]
            lease = self.pool.leases.get(self.live.pop())
        self.handle(ev.ReleaseRequested(lease_id=lease.id, **self.when))
        self.obey()
        self.request()
        self.obey()

    def obey(self) -> None:
        """Let the agents carry their orders out."""
        while self.orders:
            self.handle(self.orders.popleft())


def _device(node: int, place: int) -> Device:
    return Device(
        id=f"GPU-{node:05d}-{place}",
        node_id=f"node-{node:05d}",
        name=f"cuda{place}",
        kind=DeviceKind.CUDA,
        model="H100" if node % 3 else "A100",
        memory_bytes=80 * GIB,
        compute_units=132,
    )


def _resident_bytes() -> float:
    gc.collect()
    return float(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cost(devices: int, waiting: int, cycles: int, order: str) -> Cost:
    """Measure one case."""
    site = Site(devices, order)
    while site.pool.waiting < waiting:
        site.request()
        site.obey()
    for _ in range(min(cycles, 200)):
        site.cycle()
    site.seconds.clear()
    gc.collect()
    gc.freeze()
    for _ in range(cycles):
        site.cycle()
    return Cost(site.seconds, site.device_bytes, site.lease_bytes, _bare(devices))


def _bare(entries: int) -> float:
    """Time one heap replacement and one dictionary access."""
    numbers = random.Random(7)
    heap = [(numbers.random(), it) for it in range(entries)]
    heapq.heapify(heap)
    known = dict.fromkeys(range(entries), 0)
    values = [(numbers.random(), numbers.randrange(entries)) for _ in range(20_000)]
    begun = time.perf_counter()
    for value in values:
        known[value[1]] += heapq.heapreplace(heap, value)[1]
    return (time.perf_counter() - begun) / len(values)


def measure(report: Report) -> None:
    """Measure all cases, each in a process of its own."""
    cycles = 150 if report.quick else 1500
    medians: dict[tuple[int, int], float] = {}
    for devices, waiting in QUICK if report.quick else CASES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
            found = workers.submit(cost, devices, waiting, cycles, "fair").result(timeout=1200)
        if not found.seconds:
            raise CouldNotMeasure("not one decision was made.")
        what = f"{devices:,} devices, {waiting:,} waiting"
        median = medians[devices, waiting] = percentile(found.seconds, 50)
        report.add(f"decisions, {what}", len(found.seconds) / sum(found.seconds), "/s")
        report.add(f"one decision, median, {what}", median * 1e6, "us")
        goal = "< 10" if (devices, waiting) == (10_000, 1_000) else ""
        report.add(f"one decision, p99, {what}", percentile(found.seconds, 99) * 1e3, "ms", goal)
        report.ratio(f"median / one bare heap and dict operation, {what}", median, found.bare_seconds)
        report.add(f"memory for one device, {what}", found.device_bytes / 1024, "KiB")
        report.add(f"memory for one lease, {what}", found.lease_bytes / 1024, "KiB")
    if (100_000, 1_000) in medians:
        report.ratio(
            "median at 100,000 devices / at 1,000, 1,000 waiting",
            medians[100_000, 1_000],
            medians[1_000, 1_000],
            "< 3",
        )


if __name__ == "__main__":
    sys.exit(run_benchmark("What one decision costs", measure))
