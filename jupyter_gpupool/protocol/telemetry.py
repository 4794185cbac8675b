"""What can be measured, and what each measurement is called: one list for agents, the service and the docs.

Rules of this module: a name ends in its unit, as Prometheus has it; what has no unit is a count, a state or a
flag. Whatever is in `CATALOGUE` may be missing on a device, with a reason; nothing else is ever sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How a metric moves."""

    #: Up and down.
    GAUGE = "gauge"
    #: Only up, until the driver or the pool service starts afresh.
    COUNTER = "counter"
    #: How often each size was seen.
    HISTOGRAM = "histogram"


class Pace(Enum):
    """How often a metric is read."""

    #: With every sample (`sample_seconds`, 1 s).
    FAST = "every sample"
    #: About every 10 s: it moves slowly, or costs the driver more.
    SLOW = "every 10 s"
    #: When `/metrics` is asked for.
    ASKED = "when asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name : str
        Its name, without the prefix.
    unit : str
        Unit of its values; empty for counts, states and flags.
    help : str
        What it is, one clause.
    kind : Kind
        How it moves.
    pace : Pace
        How often it is read.
    labels : tuple of str
        Names of its labels.
    """

    name: str
    unit: str
    help: str
    kind: Kind = Kind.GAUGE
    pace: Pace = Pace.FAST
    labels: tuple[str, ...] = ()


#: Prefix of all metrics.
PREFIX = "jupyter_gpupool_"
#: Prefix of the catalogue's metrics at ``/metrics``.
DEVICE_PREFIX = PREFIX + "device_"
#: Labels of every metric of a device.
DEVICE_LABELS = ("device", "node", "name")
#: Labels of every metric of a lease on a device.
LEASE_LABELS = ("lease", "owner", "device", "node", "name")

_FLAG = "1 while "


def _fast(name: str, unit: str, text: str, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(name=name, unit=unit, help=text, kind=kind, labels=DEVICE_LABELS)


def _slow(name: str, unit: str, text: str, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(name=name, unit=unit, help=text, kind=kind, pace=Pace.SLOW, labels=DEVICE_LABELS)


def _count(name: str, text: str, unit: str = "") -> Metric:
    return _slow(name, unit, text, Kind.COUNTER)


_METRICS = (
    # what `ReadingsDoc` carries
    _fast("utilization_percent", "%", "time in which a kernel ran"),
    _fast("memory_used_bytes", "bytes", "memory in use, by anybody"),
    _fast("temperature_celsius", "°C", "temperature of the chip; of a MIG instance, its GPU's"),
    _fast("power_watts", "W", "power drawn"),
    # load
    _fast("memory_utilization_percent", "%", "time in which memory was read or written"),
    _slow("encoder_percent", "%", "use of the video encoders"),
    _slow("decoder_percent", "%", "use of the video decoders"),
    _slow("jpeg_percent", "%", "use of the JPEG decoders"),
    _slow("optical_flow_percent", "%", "use of the optical flow engines"),
    _fast("processes", "", "processes that use it"),
    _slow("performance_state", "", "performance state, from 0 (fastest) to 15"),
    # memory
    _fast("memory_total_bytes", "bytes", "all its memory"),
    _fast("memory_free_bytes", "bytes", "memory that nobody uses"),
    _fast("memory_reserved_bytes", "bytes", "memory that the driver keeps for itself"),
    _slow("bar1_used_bytes", "bytes", "BAR1 window in use"),
    _slow("bar1_total_bytes", "bytes", "BAR1 window"),
    # clocks
    _slow("graphics_clock_hertz", "Hz", "clock of the graphics engine"),
    _fast("sm_clock_hertz", "Hz", "clock of the multiprocessors"),
    _fast("memory_clock_hertz", "Hz", "clock of the memory"),
    _slow("video_clock_hertz", "Hz", "clock of the video engines"),
    _slow("sm_clock_limit_hertz", "Hz", "highest clock of the multiprocessors"),
    _slow("memory_clock_limit_hertz", "Hz", "highest clock of the memory"),
    # why clocks are low
    _fast("clocks_idle", "", _FLAG + "clocks are low because nothing runs"),
    _fast("clocks_power_cap", "", _FLAG + "clocks are lowered to stay under the power limit"),
    _fast("clocks_slowdown", "", _FLAG + "the hardware lowers clocks by half or more"),
    _fast("clocks_sync_boost", "", _FLAG + "clocks follow another GPU's (sync boost)"),
    _fast("clocks_thermal_software", "", _FLAG + "the driver lowers clocks because of heat"),
    _fast("clocks_thermal_hardware", "", _FLAG + "the hardware lowers clocks because of heat"),
    _fast("clocks_power_brake", "", _FLAG + "the power supply asks for lower clocks (power brake)"),
    _count("power_capped_seconds", "time spent lowered to stay under the power limit", "s"),
    _count("thermal_slowed_seconds", "time spent lowered because of heat", "s"),
    # what the multiprocessors do (GPM: Hopper or newer, and MIG instances there)
    _fast("sm_busy_percent", "%", "multiprocessors that had work (GPM)"),
    _fast("sm_occupancy_percent", "%", "warps of those that were possible (GPM)"),
    _fast("tensor_percent", "%", "time in which tensor cores worked (GPM)"),
    _fast("memory_bandwidth_percent", "%", "memory bandwidth of what is possible (GPM)"),
    _fast("fp64_percent", "%", "time in which FP64 units worked (GPM)"),
    _fast("fp32_percent", "%", "time in which FP32 units worked (GPM)"),
    _fast("fp16_percent", "%", "time in which FP16 units worked (GPM)"),
    # power and heat
    _slow("power_limit_watts", "W", "power limit in force"),
    _slow("power_limit_default_watts", "W", "power limit that the maker set"),
    _count("energy_joules", "energy used since the driver was loaded", "J"),
    _slow("memory_temperature_celsius", "°C", "temperature of the memory"),
    _slow("temperature_slowdown_celsius", "°C", "temperature from which clocks are lowered"),
    _slow("temperature_shutdown_celsius", "°C", "temperature at which it switches itself off"),
    _slow("memory_temperature_limit_celsius", "°C", "highest temperature of the memory"),
    _fast("fan_percent", "%", "speed of the fan, of its highest"),
    # PCIe
    _fast("pcie_generation", "", "PCIe generation of the link now (it drops when idle)"),
    _slow("pcie_generation_limit", "", "PCIe generation that is possible"),
    _fast("pcie_width_lanes", "lanes", "lanes of the PCIe link now"),
    _slow("pcie_width_limit_lanes", "lanes", "lanes that are possible"),
    _count("pcie_replays", "PCIe packets sent again"),
    _count("pcie_sent_bytes", "bytes sent over PCIe", "bytes"),
    _count("pcie_received_bytes", "bytes received over PCIe", "bytes"),
    # memory errors
    _count("ecc_corrected_volatile", "memory errors corrected since the driver was loaded"),
    _count("ecc_uncorrected_volatile", "memory errors not corrected since the driver was loaded"),
    _count("ecc_corrected_aggregate", "memory errors corrected in its life"),
    _count("ecc_uncorrected_aggregate", "memory errors not corrected in its life"),
    _slow("remapped_rows_corrected", "", "memory rows replaced after corrected errors"),
    _slow("remapped_rows_uncorrected", "", "memory rows replaced after uncorrected errors"),
    _slow("remapped_rows_pending", "", _FLAG + "a row waits for a reset to be replaced"),
    _slow("remapped_rows_failed", "", _FLAG + "a row could not be replaced"),
    _slow("retired_pages_single_bit", "", "memory pages retired after corrected errors"),
    _slow("retired_pages_double_bit", "", "memory pages retired after uncorrected errors"),
    _slow("retired_pages_pending", "", _FLAG + "a page waits for a reset to be retired"),
    # NVLink
    _slow("nvlink_links", "", "NVLinks that are up"),
    _count("nvlink_sent_bytes", "data sent over NVLink", "bytes"),
    _count("nvlink_received_bytes", "data received over NVLink", "bytes"),
    _count("nvlink_crc_errors", "NVLink packets with a wrong checksum"),
    _count("nvlink_replays", "NVLink packets sent again"),
    _count("nvlink_recoveries", "NVLinks that had to be brought up again"),
    # what the driver says of it
    _slow("recovery_action", "", "what the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain peers, …"),
    _slow("fabric_state", "", "joining the NVSwitch fabric: 1 not started, 2 in progress, 3 completed"),
    _slow("fabric_status", "", "NVML's return code for joining the fabric; 0 is good"),
    _slow("fabric_bandwidth_degraded", "", _FLAG + "the fabric runs below its bandwidth"),
    _fast("xid_events", "", "XID errors since the agent started", Kind.COUNTER),
    _fast("last_xid", "", "number of the last XID error since the agent started"),
)

#: Everything that may be read of a device, by name. The first four travel in `ReadingsDoc`, the rest in
#: `DeviceSample.metrics`.
CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _METRICS}
#: The names that travel in `ReadingsDoc`.
READINGS = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")


def _asked(
    name: str, unit: str, text: str, labels: tuple[str, ...] = DEVICE_LABELS, kind: Kind = Kind.GAUGE
) -> Metric:
    return Metric(name=name, unit=unit, help=text, kind=kind, pace=Pace.ASKED, labels=labels)


#: What the pool knows of each device, beside what is read of it.
POOL_DEVICE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _asked(
            "device_info",
            "",
            "always 1; what the device is",
            (*DEVICE_LABELS, "kind", "model", "emulated", "parent"),
        ),
        _asked("device_health", "", "0 healthy, 1 degraded, 2 failed"),
        _asked("device_offered", "", _FLAG + "it is offered to new requests"),
        _asked("device_leases", "", "leases that have a share of it"),
        _asked("device_compute_leased_ratio", "", "compute leased, of 1"),
        _asked("device_memory_leasable_bytes", "bytes", "memory that can be leased"),
        _asked("device_memory_leased_bytes", "bytes", "memory leased"),
        _asked("device_unmanaged_bytes", "bytes", "memory used by processes without a lease"),
        _asked("device_unmanaged_processes", "", "processes that use it without a lease"),
        _asked("device_readings_missing", "", "readings of the catalogue that it does not give"),
    )
}
#: What the pool knows of each live lease; ``owner`` and ``lease`` are opaque unless the reader may see them.
POOL_LEASE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _asked("lease_compute_ratio", "", "compute of its share, of 1", LEASE_LABELS),
        _asked("lease_memory_bytes", "bytes", "memory of its share", LEASE_LABELS),
        _asked("lease_memory_used_bytes", "bytes", "memory that its processes use", LEASE_LABELS),
        _asked("lease_host_memory_bytes", "bytes", "main memory that its processes use", LEASE_LABELS),
        _asked(
            "lease_utilization_percent", "%", "how busy its processes keep the whole device", LEASE_LABELS
        ),
        _asked("lease_processes", "", "processes of its holder", LEASE_LABELS),
    )
}
#: What concerns the pool service itself.
POOL: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _asked("leases", "", "live leases", ("state",)),
        _asked("devices", "", "devices", ("offered",)),
        _asked("compute_devices", "", "compute, in devices", ("kind", "what")),
        _asked("journal_writable", "", _FLAG + "grants can be written down", ()),
        _asked("journal_commit_seconds", "s", "duration of one transaction", (), Kind.HISTOGRAM),
        _asked("journal_lag_seconds", "s", "how long the oldest decision waits to be written down", ()),
        _asked("wait_seconds", "s", "how long requests waited that were granted", (), Kind.HISTOGRAM),
        _asked("nodes", "", "nodes, by whether their agent is connected", ("connected",)),
        _asked("nodes_drained", "", "nodes that take no new leases, as administrators want it", ()),
        _asked("transitions", "", "transitions written down", (), Kind.COUNTER),
        _asked("http_requests", "", "answers", ("method", "status"), Kind.COUNTER),
    )
}
