"""Indicators of heat and power: temperatures against the GPU's own thresholds, fan, and why clocks are low.

Rule of this module: pure functions; a GPU that runs at its maker's power limit is healthy.
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import FINE, Finding, Vitals, degraded, failed, flag


def temperature(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the chip is at the temperature at which it slows down, or switches itself off."""
    celsius = now.values.get("temperature_celsius")
    if celsius is None:
        return FINE
    shutdown = now.values.get("temperature_shutdown_celsius")
    if shutdown is not None and celsius >= shutdown:
        return failed(
            f"It is at {shutdown:.0f} °C or more, where it switches itself off: see to its cooling."
        )
    slowdown = now.values.get("temperature_slowdown_celsius")
    if slowdown is not None and celsius >= slowdown:
        return degraded(f"It is at {slowdown:.0f} °C or more, where it slows down: see to its cooling.")
    return FINE


def memory_temperature(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether its memory is too hot."""
    celsius = now.values.get("memory_temperature_celsius")
    limit = now.values.get("memory_temperature_limit_celsius")
    if celsius is None or limit is None or celsius < limit:
        return FINE
    return degraded(f"Its memory is at {limit:.0f} °C or more, its limit: see to its cooling.")


def fan(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether a fan stands still although it is hot."""
    speed, celsius = now.values.get("fan_percent"), now.values.get("temperature_celsius")
    if speed is None or celsius is None or speed > 0 or celsius < rules.fan_celsius:
        return FINE
    return degraded(f"Its fan stands still at {rules.fan_celsius:.0f} °C or more: see to it.")


def thermal_slowdown(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether clocks are lowered because of heat."""
    if flag(now, "clocks_thermal_hardware"):
        return degraded("The hardware lowers its clocks because of heat: see to its cooling.")
    if flag(now, "clocks_thermal_software"):
        return degraded("The driver lowers its clocks because of heat: see to its cooling.")
    return FINE


def power_brake(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the power supply asks it to slow down."""
    if not flag(now, "clocks_power_brake"):
        return FINE
    return degraded("The power supply makes it lower its clocks (power brake): see to the node's power.")


def hardware_slowdown(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the hardware slows it down for a reason that it does not name."""
    named = ("clocks_thermal_hardware", "clocks_power_brake")
    if not flag(now, "clocks_slowdown") or any(flag(now, name) for name in named):
        return FINE
    return degraded("The hardware lowers its clocks by half or more: see to its cooling and power.")


def power_cap(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether a power limit below the maker's slows it down."""
    limit, default = now.values.get("power_limit_watts"), now.values.get("power_limit_default_watts")
    if limit is None or default is None or not flag(now, "clocks_power_cap"):
        return FINE
    if limit >= rules.power_part * default:
        return FINE
    return degraded(
        f"A power limit of {limit:.0f} W slows it down; its maker's is {default:.0f} W (see nvidia-smi -pl)."
    )
