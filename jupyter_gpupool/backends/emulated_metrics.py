"""Further readings of a device that does not exist.

Rule of this module: what follows from its model and its load, and that nothing is wrong with it; nothing is
made up that would need more than that (clocks, links, counters of traffic).
"""

from __future__ import annotations

from jupyter_gpupool.backends.emulated_models import EmulatedModel

#: Below this load it counts as idle.
_IDLE_LOAD = 0.001
#: Temperatures at which it would slow down, and switch itself off, °C.
_SLOWDOWN_CELSIUS, _SHUTDOWN_CELSIUS = 90.0, 95.0
#: Memory is read and written for about this part of the time in which it computes.
_MEMORY_PART = 0.6
#: What is never wrong with it.
_GOOD = (
    "clocks_power_cap",
    "clocks_slowdown",
    "clocks_sync_boost",
    "clocks_thermal_software",
    "clocks_thermal_hardware",
    "clocks_power_brake",
    "ecc_corrected_volatile",
    "ecc_uncorrected_volatile",
    "ecc_corrected_aggregate",
    "ecc_uncorrected_aggregate",
    "remapped_rows_corrected",
    "remapped_rows_uncorrected",
    "remapped_rows_pending",
    "remapped_rows_failed",
    "recovery_action",
    "xid_events",
)


def made_up(
    model: EmulatedModel,
    *,
    load: float,
    used_bytes: int,
    reserved_bytes: int,
    processes: int,
    energy_joules: float,
) -> dict[str, float]:
    """Return readings by the names of the catalogue.

    Parameters
    ----------
    model : EmulatedModel
        What it would be.
    load : float
        How much of it computes, from 0 to 1.
    used_bytes, reserved_bytes : int
        Memory in use, and the part of it that its driver would keep, bytes.
    processes : int
        Processes that would use it.
    energy_joules : float
        What it would have used, J.
    """
    return {
        **dict.fromkeys(_GOOD, 0.0),
        "memory_total_bytes": float(model.memory_bytes),
        "memory_free_bytes": float(max(0, model.memory_bytes - used_bytes)),
        "memory_reserved_bytes": float(reserved_bytes),
        "memory_utilization_percent": round(100 * load * _MEMORY_PART, 1),
        "processes": float(processes),
        "performance_state": 0.0 if load > _IDLE_LOAD else 8.0,
        "clocks_idle": float(load <= _IDLE_LOAD),
        "power_limit_watts": model.full_watts,
        "power_limit_default_watts": model.full_watts,
        "temperature_slowdown_celsius": _SLOWDOWN_CELSIUS,
        "temperature_shutdown_celsius": _SHUTDOWN_CELSIUS,
        "energy_joules": round(energy_joules, 1),
    }
