"""What ``/metrics`` shows of devices and leases: each as it was last reported.

Rules of this module: a reading that is missing has no series, never a 0; whose a lease is, and which, is
shown to its owner and to an administrator, and is an opaque name for anybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jupyter_gpupool.core.devices import Device, Health
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.messages import DeviceSample, LeaseSample
from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_LABELS,
    DEVICE_PREFIX,
    LEASE_LABELS,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    READINGS,
    Kind,
    Metric,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.metrics import help_text
from jupyter_gpupool.service.nodes import NodeBook

#: Returns a name for somebody else's lease, or somebody else: always the same, and good for nothing.
Opaque = Callable[[str], str]

_HEALTH = {Health.HEALTHY: 0.0, Health.DEGRADED: 1.0, Health.FAILED: 2.0}


class _Text:
    """Series in Prometheus' text format, by metric.

    Written by hand: an object for each sample, as prometheus_client makes them, costs a pool of many GPUs a
    second of its event loop.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, prefix: str, metric: Metric, labels: str, value: float | None) -> None:
        """Add one series, unless it has no value."""
        if value is None:
            return
        name = prefix + metric.name
        if metric.kind is Kind.COUNTER:
            name += "_total"
        lines = self._lines.get(name)
        if lines is None:
            kind = metric.kind.value
            lines = self._lines[name] = [f"# HELP {name} {help_text(metric)}", f"# TYPE {name} {kind}"]
        lines.append(f"{name}{{{labels}}} {value}")

    def encode(self) -> bytes:
        """Return all, each metric's series together."""
        lines = [line for family in self._lines.values() for line in family]
        return "".join(f"{line}\n" for line in lines).encode()


def _labels(names: Iterable[str], values: Iterable[str]) -> str:
    """Write labels as the text format has them."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


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

    def text(self, who: Principal) -> bytes:
        """Return everything that a reader may see, in Prometheus' text format."""
        made = _Text()
        devices = self._host.pool.devices
        for entry in self._book.nodes.values():
            for sample in entry.samples.values():
                device = devices.get(sample.device_id)
                values = [sample.device_id, entry.hostname, device.name if device else ""]
                _add_sample(made, sample, _labels(DEVICE_LABELS, values))
        hosts = {node_id: node.hostname for node_id, node in self._host.pool.nodes.items()}
        for device in devices.values():
            self._add_device(made, device, hosts.get(device.node_id, device.node_id))
        for lease in self._host.leases.values():
            if lease.shares and lease.state is not LeaseState.ENDED:
                self._add_lease(made, lease, who, hosts.get(lease.node_id, lease.node_id))
        return made.encode()

    def _add_device(self, made: _Text, device: Device, node: str) -> None:
        pool = self._host.pool
        free, leases = pool.free(device.id), pool.leases_on(device.id)
        values = [device.id, node, device.name]
        what = [device.kind.value, device.model, str(device.emulated).lower(), device.parent_id]
        info = POOL_DEVICE["device_info"]
        made.add(PREFIX, info, _labels(info.labels, [*values, *what]), 1.0)
        labels = _labels(DEVICE_LABELS, values)
        for name, value in (
            ("device_health", _HEALTH[device.health]),
            ("device_offered", float(pool.withheld(device.id) is None)),
            ("device_leases", float(len(leases))),
            ("device_compute_leased_ratio", (1000 - free.compute_milli) / 1000),
            ("device_memory_leasable_bytes", float(device.memory_bytes)),
            ("device_memory_leased_bytes", float(self._leased_bytes(device.id, leases))),
            ("device_unmanaged_bytes", device.unmanaged_bytes),
        ):
            made.add(PREFIX, POOL_DEVICE[name], labels, value)

    def _leased_bytes(self, device_id: str, lease_ids: Iterable[str]) -> int:
        held = (self._host.leases.get(lease_id) for lease_id in lease_ids)
        shares = (share for lease in held if lease is not None for share in lease.shares)
        return sum(share.memory_bytes for share in shares if share.device_id == device_id)

    def _add_lease(self, made: _Text, lease: Lease, who: Principal, node: str) -> None:
        owner = lease.owner if who.administrator or lease.owner == who.owner else self._opaque(lease.owner)
        name = lease.id if who.administrator or who.may_touch(lease) else self._opaque(lease.id)
        for number, share in enumerate(lease.shares):
            device = self._host.pool.device(share.device_id)
            values = [name, owner, share.device_id, node, device.name if device else ""]
            labels = _labels(LEASE_LABELS, values)
            made.add(PREFIX, POOL_LEASE["lease_compute_ratio"], labels, share.compute_milli / 1000)
            made.add(PREFIX, POOL_LEASE["lease_memory_bytes"], labels, float(share.memory_bytes))
            if number == 0:  # what processes use is known of the lease as a whole
                _add_use(made, self._lease_sample(lease), labels)

    def _lease_sample(self, lease: Lease) -> LeaseSample | None:
        entry = self._book.nodes.get(lease.node_id)
        return entry.lease_samples.get(lease.id) if entry else None


def _add_sample(made: _Text, sample: DeviceSample, labels: str) -> None:
    readings = sample.readings
    for name in READINGS:
        made.add(DEVICE_PREFIX, CATALOGUE[name], labels, getattr(readings, name))
    for name, value in sample.metrics.items():
        metric = CATALOGUE.get(name)
        if metric is not None:  # a newer agent may know more
            made.add(DEVICE_PREFIX, metric, labels, value)
    made.add(PREFIX, POOL_DEVICE["device_unmanaged_processes"], labels, len(sample.unmanaged))
    made.add(PREFIX, POOL_DEVICE["device_readings_missing"], labels, len(sample.missing))


def _add_use(made: _Text, sample: LeaseSample | None, labels: str) -> None:
    if sample is None:
        return
    for name, value in (
        ("lease_memory_used_bytes", sample.memory_used_bytes),
        ("lease_host_memory_bytes", sample.host_memory_bytes),
        ("lease_utilization_percent", sample.utilization_percent),
        ("lease_processes", sample.processes),
    ):
        made.add(PREFIX, POOL_LEASE[name], labels, value)
