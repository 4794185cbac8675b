"""Indicators of links: PCIe and NVLink.

Rule of this module: pure functions; a PCIe link that rests when the GPU does is healthy, so its speed is
judged under load only.
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import (
    FINE,
    MINUTE_SECONDS,
    Finding,
    Vitals,
    degraded,
    increase,
)

_NVLINK_ERRORS = ("nvlink_crc_errors", "nvlink_replays", "nvlink_recoveries")


def pcie_replays(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether packets must be sent again too often."""
    if increase(now, past, "pcie_replays", MINUTE_SECONDS) < rules.pcie_replays:
        return FINE
    return degraded(
        f"Its PCIe link sent {rules.pcie_replays} or more packets again within a minute: see to its seat and "
        "riser."
    )


def pcie_width(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether its PCIe link lost lanes."""
    return _below(now, "pcie_width_lanes", "pcie_width_limit_lanes", "width", rules)


def pcie_generation(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether its PCIe link is slower than it can be."""
    return _below(now, "pcie_generation", "pcie_generation_limit", "generation", rules)


def _below(now: Vitals, name: str, limit: str, what: str, rules: HealthRules) -> Finding:
    present, possible = now.values.get(name), now.values.get(limit)
    loaded = now.values.get("utilization_percent", 0.0) >= rules.load_percent
    if present is None or possible is None or not loaded or present >= possible:
        return FINE
    return degraded(
        f"Under load its PCIe link has {what} {present:.0f} where {possible:.0f} is possible: check its seat."
    )


def nvlink_errors(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether NVLinks have too many errors."""
    grown = sum(increase(now, past, name, MINUTE_SECONDS) for name in _NVLINK_ERRORS)
    if grown < rules.nvlink_errors:
        return FINE
    return degraded(f"Its NVLinks had {rules.nvlink_errors} or more errors within a minute.")


def nvlink_down(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether an NVLink went down that was up."""
    links = now.values.get("nvlink_links")
    most = max((then.values.get("nvlink_links", 0.0) for then in past), default=0.0)
    if links is None or links >= most:
        return FINE
    return degraded(f"An NVLink is down: {links:.0f} of {most:.0f} are up.")
