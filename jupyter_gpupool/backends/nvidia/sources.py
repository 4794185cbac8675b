"""Which NVML calls give which readings.

Rules of this module: a table, no state; enumerations are NVML's numbers, which never change. What a call does
not give is said by its reason, and takes nothing else along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: NVML's "not available" in counters.
NOT_AVAILABLE = 2**64 - 1
_MHZ, _KIB = 1e6, 1024
#: A field's scope for all its links together.
_ALL_LINKS = 2**32 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One call.

    Attributes
    ----------
    function : str
        NVML's name of it.
    names : tuple of str
        The readings that it gives, by the names of the catalogue.
    convert : callable
        Turns what it returns into their values, in the same order.
    arguments : tuple
        What follows the handle.
    older : str
        The function's name before it was renamed; empty when it never was.
    """

    function: str
    names: tuple[str, ...]
    convert: Callable[[Any], Sequence[float]] = lambda value: (value,)
    arguments: tuple[Any, ...] = ()
    older: str = ""


def _scaled(factor: float) -> Callable[[Any], Sequence[float]]:
    return lambda value: (value * factor,)


def _bits(*masks: int) -> Callable[[Any], Sequence[float]]:
    return lambda value: [float(bool(value & mask)) for mask in masks]


def _clock(name: str, kind: int) -> Source:
    return Source(function="nvmlDeviceGetClockInfo", names=(name,), arguments=(kind,), convert=_scaled(_MHZ))


def _clock_limit(name: str, kind: int) -> Source:
    return Source(
        function="nvmlDeviceGetMaxClockInfo", names=(name,), arguments=(kind,), convert=_scaled(_MHZ)
    )


def _threshold(name: str, kind: int) -> Source:
    return Source(function="nvmlDeviceGetTemperatureThreshold", names=(name,), arguments=(kind,))


def _ecc(name: str, error: int, counter: int) -> Source:
    return Source(function="nvmlDeviceGetTotalEccErrors", names=(name,), arguments=(error, counter))


def _first(name: str, function: str) -> Source:
    """Describe a use that comes with its sampling period."""
    return Source(function=function, names=(name,), convert=lambda value: (value[0],))


#: Read with every sample. Memory and GPM are `telemetry`'s own.
FAST = (
    Source(
        function="nvmlDeviceGetUtilizationRates",
        names=("utilization_percent", "memory_utilization_percent"),
        convert=lambda rates: (rates.gpu, rates.memory),
    ),
    Source(function="nvmlDeviceGetTemperature", names=("temperature_celsius",), arguments=(0,)),
    Source(function="nvmlDeviceGetPowerUsage", names=("power_watts",), convert=_scaled(1e-3)),
    # These are judged together with load and temperature, so that they must not be older.
    Source(function="nvmlDeviceGetFanSpeed", names=("fan_percent",)),
    Source(function="nvmlDeviceGetCurrPcieLinkGeneration", names=("pcie_generation",)),
    Source(function="nvmlDeviceGetCurrPcieLinkWidth", names=("pcie_width_lanes",)),
    _clock("sm_clock_hertz", 1),
    _clock("memory_clock_hertz", 2),
    Source(
        function="nvmlDeviceGetCurrentClocksEventReasons",
        older="nvmlDeviceGetCurrentClocksThrottleReasons",
        names=(
            "clocks_idle",
            "clocks_power_cap",
            "clocks_slowdown",
            "clocks_sync_boost",
            "clocks_thermal_software",
            "clocks_thermal_hardware",
            "clocks_power_brake",
        ),
        convert=_bits(0x01, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80),
    ),
)

#: Read about every 10 s. Fields, NVLinks and the fabric are below.
SLOW = (
    _first("encoder_percent", "nvmlDeviceGetEncoderUtilization"),
    _first("decoder_percent", "nvmlDeviceGetDecoderUtilization"),
    _first("jpeg_percent", "nvmlDeviceGetJpgUtilization"),
    _first("optical_flow_percent", "nvmlDeviceGetOfaUtilization"),
    Source(function="nvmlDeviceGetPerformanceState", names=("performance_state",)),
    _clock("graphics_clock_hertz", 0),
    _clock("video_clock_hertz", 3),
    Source(
        function="nvmlDeviceGetBAR1MemoryInfo",
        names=("bar1_used_bytes", "bar1_total_bytes"),
        convert=lambda bar1: (bar1.bar1Used, bar1.bar1Total),
    ),
    _clock_limit("sm_clock_limit_hertz", 1),
    _clock_limit("memory_clock_limit_hertz", 2),
    Source(function="nvmlDeviceGetEnforcedPowerLimit", names=("power_limit_watts",), convert=_scaled(1e-3)),
    Source(
        function="nvmlDeviceGetPowerManagementDefaultLimit",
        names=("power_limit_default_watts",),
        convert=_scaled(1e-3),
    ),
    Source(function="nvmlDeviceGetTotalEnergyConsumption", names=("energy_joules",), convert=_scaled(1e-3)),
    _threshold("temperature_shutdown_celsius", 0),
    _threshold("temperature_slowdown_celsius", 1),
    _threshold("memory_temperature_limit_celsius", 2),
    Source(function="nvmlDeviceGetMaxPcieLinkGeneration", names=("pcie_generation_limit",)),
    Source(function="nvmlDeviceGetMaxPcieLinkWidth", names=("pcie_width_limit_lanes",)),
    Source(function="nvmlDeviceGetPcieReplayCounter", names=("pcie_replays",)),
    _ecc("ecc_corrected_volatile", 0, 0),
    _ecc("ecc_uncorrected_volatile", 1, 0),
    _ecc("ecc_corrected_aggregate", 0, 1),
    _ecc("ecc_uncorrected_aggregate", 1, 1),
    Source(
        function="nvmlDeviceGetRemappedRows",
        names=(
            "remapped_rows_corrected",
            "remapped_rows_uncorrected",
            "remapped_rows_pending",
            "remapped_rows_failed",
        ),
        convert=lambda rows: rows,
    ),
    Source(function="nvmlDeviceGetRetiredPagesPendingStatus", names=("retired_pages_pending",)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field of NVML's field values, all read by one call.

    Attributes
    ----------
    id, scope : int
        NVML's numbers.
    name : str
        The reading; several fields of one name are added.
    factor : float
        From the field's unit to the catalogue's.
    """

    id: int
    name: str
    factor: float = 1.0
    scope: int = 0


#: Read about every 10 s, by one call for all.
FIELDS = (
    Field(id=82, name="memory_temperature_celsius"),
    Field(id=29, name="retired_pages_single_bit"),
    Field(id=30, name="retired_pages_double_bit"),
    Field(id=38, name="nvlink_crc_errors"),
    Field(id=45, name="nvlink_crc_errors"),
    Field(id=52, name="nvlink_replays"),
    Field(id=59, name="nvlink_recoveries"),
    Field(id=138, name="nvlink_sent_bytes", factor=_KIB, scope=_ALL_LINKS),
    Field(id=139, name="nvlink_received_bytes", factor=_KIB, scope=_ALL_LINKS),
    Field(id=197, name="pcie_sent_bytes"),
    Field(id=198, name="pcie_received_bytes"),
    Field(id=74, name="power_capped_seconds", factor=1e-9),
    Field(id=75, name="thermal_slowed_seconds", factor=1e-9),
    Field(id=230, name="recovery_action"),
)
#: Errors of each NVLink, where there are none of all together (Hopper and newer).
LINK_FIELDS = {161: "nvlink_replays", 162: "nvlink_recoveries", 163: "nvlink_crc_errors"}
#: What NVML is asked for.
FIELD_IDS = [(field.id, field.scope) for field in FIELDS]

#: Metrics of GPM (Hopper and newer): NVML's number and the reading's name.
GPM = {
    2: "sm_busy_percent",
    3: "sm_occupancy_percent",
    5: "tensor_percent",
    10: "memory_bandwidth_percent",
    11: "fp64_percent",
    12: "fp32_percent",
    13: "fp16_percent",
}
#: GPM's number of the utilization, which MIG instances have from there only.
GPM_UTILIZATION = 1
#: No GPU has more NVLinks.
MOST_LINKS = 18
#: Readings of the fabric.
FABRIC = ("fabric_state", "fabric_status", "fabric_bandwidth_degraded")
#: In the fabric's health mask: bandwidth is degraded (1), or not (2).
_FABRIC_BANDWIDTH = 0x3


def fabric_values(info: Any) -> tuple[float, float, float]:
    """Return state, status (which counts when the state is completed) and degraded bandwidth."""
    degraded = getattr(info, "healthMask", 0) & _FABRIC_BANDWIDTH == 1
    return float(info.state), float(info.status), float(degraded)
