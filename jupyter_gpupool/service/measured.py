"""What ``/metrics`` shows of devices and leases: each as it was last reported.

Rules of this module: a reading that is missing has no series, never a 0; whose a lease is, and which, is
shown to its owner and to an administrator, and is an opaque name for anybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from jupyter_gpupool.core.devices import Device, Health
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.messages import DeviceSample, LeaseSample
from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_PREFIX,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    READINGS,
    Kind,
    Metric,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.metrics import Family, help_text
from jupyter_gpupool.service.nodes import NodeBook

#: Returns a name for somebody else's lease, or somebody else: always the same, and good for nothing.
Opaque = Callable[[str], str]

_HEALTH = {Health.HEALTHY: 0.0, Health.DEGRADED: 1.0, Health.FAILED: 2.0}


class _Families:
    """Families that are made when they get their first sample."""

    def __init__(self) -> None:
        self._made: dict[str, Family] = {}

    def add(self, prefix: str, metric: Metric, labels: list[str], value: float | None) -> None:
        """Add one series, unless it has no value."""
        if value is None:
            return
        name = prefix + metric.name
        family = self._made.get(name)
        if family is None:
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = self._made[name] = kind(name, help_text(metric), labels=list(metric.labels))
        family.add_metric(labels, value)

    def collect(self) -> Iterator[Family]:
        """Yield all."""
        yield from self._made.values()


class Measured:
    """Series of devices and leases, for one reader.

    Parameters
    ----------
    host : PoolHost
        The pool.
    book : NodeBook
        What agents last reported.
    opaque : callable
        Names for what the reader may not see.
    """

    def __init__(self, host: PoolHost, book: NodeBook, opaque: Opaque) -> None:
        self._host = host
        self._book = book
        self._opaque = opaque

    def families(self, who: Principal) -> list[Family]:
        """Return everything that a reader may see."""
        made = _Families()
        for entry in self._book.nodes.values():
            for sample in entry.samples.values():
                device = self._host.pool.device(sample.device_id)
                labels = [sample.device_id, entry.hostname, device.name if device else ""]
                self._add_sample(made, sample, labels)
        for device in self._host.pool.devices.values():
            self._add_device(made, device)
        for lease in self._host.leases.values():
            if lease.shares and lease.state is not LeaseState.ENDED:
                self._add_lease(made, lease, who)
        return list(made.collect())

    def _add_sample(self, made: _Families, sample: DeviceSample, labels: list[str]) -> None:
        readings = msgspec.structs.asdict(sample.readings)
        values: dict[str, float | None] = {**sample.metrics, **{name: readings[name] for name in READINGS}}
        for name, value in values.items():
            metric = CATALOGUE.get(name)
            if metric is not None:  # a newer agent may know more
                made.add(DEVICE_PREFIX, metric, labels, value)
        asked = POOL_DEVICE
        made.add(PREFIX, asked["device_unmanaged_processes"], labels, len(sample.unmanaged))
        made.add(PREFIX, asked["device_readings_missing"], labels, len(sample.missing))

    def _add_device(self, made: _Families, device: Device) -> None:
        pool = self._host.pool
        free, leases = pool.free(device.id), pool.leases_on(device.id)
        labels = [device.id, self._hostname(device.node_id), device.name]
        kind, emulated = device.kind.value, str(device.emulated).lower()
        info = [*labels, kind, device.model, emulated, device.parent_id]
        made.add(PREFIX, POOL_DEVICE["device_info"], info, 1.0)
        unmanaged = device.unmanaged_bytes
        leased = self._leased_bytes(device.id)
        for name, value in (
            ("device_health", _HEALTH[device.health]),
            ("device_offered", float(pool.withheld(device.id) is None)),
            ("device_leases", float(len(list(leases)))),
            ("device_compute_leased_ratio", (1000 - free.compute_milli) / 1000),
            ("device_memory_leasable_bytes", float(device.memory_bytes)),
            ("device_memory_leased_bytes", float(leased)),
            ("device_unmanaged_bytes", unmanaged),
        ):
            made.add(PREFIX, POOL_DEVICE[name], labels, value)

    def _leased_bytes(self, device_id: str) -> int:
        held = (self._host.leases.get(lease_id) for lease_id in self._host.pool.leases_on(device_id))
        shares: Iterable[int] = (
            share.memory_bytes
            for lease in held
            if lease is not None
            for share in lease.shares
            if share.device_id == device_id
        )
        return sum(shares)

    def _add_lease(self, made: _Families, lease: Lease, who: Principal) -> None:
        owner = lease.owner if who.administrator or lease.owner == who.owner else self._opaque(lease.owner)
        name = lease.id if who.administrator or who.may_touch(lease) else self._opaque(lease.id)
        node = self._hostname(lease.node_id)
        for number, share in enumerate(lease.shares):
            device = self._host.pool.device(share.device_id)
            labels = [name, owner, share.device_id, node, device.name if device else ""]
            made.add(PREFIX, POOL_LEASE["lease_compute_ratio"], labels, share.compute_milli / 1000)
            made.add(PREFIX, POOL_LEASE["lease_memory_bytes"], labels, float(share.memory_bytes))
            if number == 0:  # what processes use is known of the lease as a whole
                _add_use(made, self._lease_sample(lease), labels)

    def _lease_sample(self, lease: Lease) -> LeaseSample | None:
        entry = self._book.nodes.get(lease.node_id)
        return entry.lease_samples.get(lease.id) if entry else None

    def _hostname(self, node_id: str) -> str:
        node = self._host.pool.nodes.get(node_id)
        return node.hostname if node is not None else node_id


def _add_use(made: _Families, sample: LeaseSample | None, labels: list[str]) -> None:
    if sample is None:
        return
    for name, value in (
        ("lease_memory_used_bytes", sample.memory_used_bytes),
        ("lease_host_memory_bytes", sample.host_memory_bytes),
        ("lease_utilization_percent", sample.utilization_percent),
        ("lease_processes", sample.processes),
    ):
        made.add(PREFIX, POOL_LEASE[name], labels, value)
