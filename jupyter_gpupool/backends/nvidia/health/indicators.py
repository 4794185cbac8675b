"""All indicators, by name.

Rule of this module: an indicator is one pure function of readings; the order here is the order in which
sentences are shown.
"""

from __future__ import annotations

from jupyter_gpupool.backends.nvidia.health import links, memory, system, thermal
from jupyter_gpupool.backends.nvidia.health.vitals import Indicator

#: The indicator that speaks for all others: while it does, nothing else can be read.
LOST = "lost"

INDICATORS: dict[str, Indicator] = {
    LOST: system.lost,
    "xid": system.xid,
    "recovery_action": system.recovery_action,
    "fabric": system.fabric,
    "ecc_uncorrected": memory.ecc_uncorrected,
    "ecc_corrected": memory.ecc_corrected,
    "ecc_lifetime": memory.ecc_lifetime,
    "row_remap_failed": memory.row_remap_failed,
    "row_remap_pending": memory.row_remap_pending,
    "retired_pages": memory.retired_pages,
    "retired_pages_pending": memory.retired_pages_pending,
    "temperature": thermal.temperature,
    "memory_temperature": thermal.memory_temperature,
    "fan": thermal.fan,
    "thermal_slowdown": thermal.thermal_slowdown,
    "power_brake": thermal.power_brake,
    "hardware_slowdown": thermal.hardware_slowdown,
    "power_cap": thermal.power_cap,
    "pcie_replays": links.pcie_replays,
    "pcie_width": links.pcie_width,
    "pcie_generation": links.pcie_generation,
    "nvlink_errors": links.nvlink_errors,
    "nvlink_down": links.nvlink_down,
}
