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
#: Cycles that are timed, and in a case with so many waiting that filling its queue takes long.
CYCLES, CYCLES_MANY, MANY = 600, 300, 10_000
#: The table's columns.
HEAD = (
    f"{'devices':>8} {'waiting':>8} {'decisions/s':>11} {'median':>9} {'p99':>11} {'p99, CPU':>11} "
    f"{'/ 1,000':>8} {'/ bare':>8} {'a device':>9} {'a lease':>9}"
)
NOTES = (
    "p99, CPU: without the time in which others had the processor; far below p99, the machine was busy.",
    "/ 1,000: the median by that at 1,000 devices with as many waiting. / bare: by one heap replacement and",
    "dictionary access among as many entries, the limit for whatever keeps devices in order.",
    "Peers, as published, with all that they do beside deciding: kube-scheduler 680 pods/s at 5,000 nodes",
    "(the floor of its CI), Slurm 500 jobs/s, Kueue 43 workloads/s, KAI 10 jobs/s with 4,000 GPUs.",
)
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
    seconds, cpu_seconds : list of float
        Of each call: as the clock goes, and of the processor.
    device_bytes, lease_bytes : float
        Memory for one device and one lease; resident set.
    bare_seconds : float
        One heap replacement and one dictionary access among as many entries.
    """

    seconds: list[float]
    cpu_seconds: list[float]
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
        self.cpu_seconds: list[float] = []
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
        begun, ran = time.perf_counter(), time.thread_time()
        effects = self.pool.handle(event)
        self.cpu_seconds.append(time.thread_time() - ran)
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
                    ev.HolderDetached(
                        lease_id=effect.lease_id,
                        generation=effect.generation,
                        node_id=effect.node_id,
                        **self.when,
                    )
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
    site.cpu_seconds.clear()
    gc.collect()
    gc.freeze()
    for _ in range(cycles):
        site.cycle()
    return Cost(site.seconds, site.cpu_seconds, site.device_bytes, site.lease_bytes, _bare(devices))


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
    rows: list[Row] = []
    medians: dict[tuple[int, int], float] = {}
    for devices, waiting in QUICK if report.quick else CASES:
        begun = time.monotonic()
        cycles = 150 if report.quick else CYCLES if waiting < MANY else CYCLES_MANY
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
            found = workers.submit(cost, devices, waiting, cycles, "fair").result(timeout=600)
        if not found.seconds:
            raise CouldNotMeasure("not one decision was made.")
        median = medians[devices, waiting] = percentile(found.seconds, 50)
        smaller = medians.get((1_000, waiting))
        row = Row(devices, waiting, found, median, median / smaller if smaller else None)
        rows.append(row)
        row.report(report)
        print(f"  {row.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    report.table += [HEAD, *(row.line() for row in rows)]
    report.notes += NOTES
    _judge(report, rows)


@dataclass(frozen=True)
class Row:
    """One case, as a line of the table.

    Attributes
    ----------
    grows : float or None
        Its median, divided by the one at 1,000 devices with as many waiting; None where that is not known.
    """

    devices: int
    waiting: int
    cost: Cost
    median: float
    grows: float | None

    @property
    def name(self) -> str:
        """What it is about."""
        return f"{self.devices:,} devices, {self.waiting:,} waiting"

    @property
    def rate(self) -> float:
        """Decisions in a second."""
        return len(self.cost.seconds) / sum(self.cost.seconds)

    @property
    def p99_ms(self) -> float:
        """What 99 % of the decisions cost no more than."""
        return percentile(self.cost.seconds, 99) * 1e3

    @property
    def p99_cpu_ms(self) -> float:
        """The same of processor time."""
        return percentile(self.cost.cpu_seconds, 99) * 1e3

    def line(self) -> str:
        """Write it as a line of the table."""
        grows = f"{self.grows:.2f}" if self.grows is not None else "-"
        return (
            f"{self.devices:>8,} {self.waiting:>8,} {self.rate:>11,.0f} {self.median * 1e6:>6,.0f} us "
            f"{self.p99_ms:>8.2f} ms {self.p99_cpu_ms:>8.2f} ms {grows:>6} x "
            f"{self.median / self.cost.bare_seconds:>6,.0f} x {self.cost.device_bytes / 1024:>5.1f} KiB "
            f"{self.cost.lease_bytes / 1024:>5.1f} KiB"
        )

    def report(self, report: Report) -> None:
        """Add what the table shows, for JSON."""
        for name, value, unit in (
            ("decisions", self.rate, "/s"),
            ("one decision, median", self.median * 1e6, "us"),
            ("one decision, p99", self.p99_ms, "ms"),
            ("one decision, p99, processor time", self.p99_cpu_ms, "ms"),
            ("median / that at 1,000 devices", self.grows, "x"),
            ("median / one bare heap and dict operation", self.median / self.cost.bare_seconds, "x"),
            ("memory for one device", self.cost.device_bytes / 1024, "KiB"),
            ("memory for one lease", self.cost.lease_bytes / 1024, "KiB"),
        ):
            if value is not None:
                report.add(f"{name}, {self.name}", value, unit, listed=False)


def _judge(report: Report, rows: list[Row]) -> None:
    """Add what has a goal."""
    for row in rows:
        if (row.devices, row.waiting) == (10_000, 1_000):
            report.add(f"p99 of a decision, {row.name}", row.p99_ms, "ms", "< 10")
        if row.devices == 100_000 and row.grows is not None:
            report.add(
                f"median at 100,000 devices / at 1,000, {row.waiting:,} waiting", row.grows, "x", "< 3"
            )


if __name__ == "__main__":
    sys.exit(run_benchmark("What one decision costs", measure))
